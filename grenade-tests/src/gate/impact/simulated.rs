//! A machine that exists in numbers only, for the tests of the judge.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::gate::impact::series::{Point, Series};

const RATE: f64 = 200.0;

/// What both pools feel, and what one request feels alone.
pub(in crate::gate) struct Machine {
    dice: StdRng,
    drift: f64,
}

impl Machine {
    pub(in crate::gate) fn new(seed: u64) -> Self {
        Self { dice: StdRng::seed_from_u64(seed), drift: 0.0 }
    }

    /// Of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (a, b): (f64, f64) = (self.dice.random_range(1e-12..1.0), self.dice.random_range(0.0..1.0));
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Two pools for so long: the load of the machine drifts, and both feel it.
    pub(in crate::gate) fn pools(
        &mut self,
        seconds: f64,
        felt: &dyn Fn(f64, f64) -> f64,
    ) -> (Series, Series) {
        let count = (seconds * RATE) as u32;
        let (mut treated, mut twin) = (Vec::new(), Vec::new());
        for n in 0..count {
            let at_ms = f64::from(n) * 1e3 / RATE;
            // Of a drift of five seconds.
            self.drift = self.drift * 0.999 + 0.045 * self.normal() * 0.2;
            let one = |machine: &mut Self| 5.0 * (machine.drift + 0.3 * machine.normal()).exp();
            twin.push(Point { at_ms, latency_ms: one(self) });
            let own = one(self);
            treated.push(Point { at_ms, latency_ms: felt(at_ms, own) });
        }
        (Series::from(treated), Series::from(twin))
    }
}
