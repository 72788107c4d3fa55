//! Counts catalogue requests from their arrival until the last byte of their answer was handed to the connection.
//!
//! Ops endpoints are never counted: asking for the count must not change it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::guarded::Guarded;

/// The requests in flight.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<AtomicU64>);

impl InFlight {
    /// How many there are now.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Counts one more until the guard is dropped.
    pub fn enter(&self) -> InFlightGuard {
        self.0.fetch_add(1, Ordering::SeqCst);
        InFlightGuard(Arc::clone(&self.0))
    }
}

/// One counted request.
#[derive(Debug)]
pub struct InFlightGuard(Arc<AtomicU64>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Middleware of the catalogue's routes.
pub async fn count(State(in_flight): State<InFlight>, request: Request, next: Next) -> Response {
    let guard = in_flight.enter();
    let response = next.run(request).await;
    response.map(|body| Body::new(Guarded::new(body, guard)))
}
