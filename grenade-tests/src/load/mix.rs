//! What a load sends. Schedule and ledger are one for all services; the requests are a service's own.

use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::load::outcome::Outcome;

/// When a request is to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// Its place in the order, from 0.
    pub seq: u64,
    /// Its instant.
    pub at: Instant,
}

/// The requests of a service.
pub trait Mix: Send + Sync + 'static {
    /// One request, drawn and not yet sent.
    type Step: Send + 'static;

    /// Draws the request with this place in the order, by the dice alone.
    fn draw(&self, seq: u64, dice: &mut StdRng) -> Self::Step;

    /// Sends it once, and judges the answer.
    fn attempt(&self, due: Due, step: Self::Step) -> impl Future<Output = Outcome> + Send;
}
