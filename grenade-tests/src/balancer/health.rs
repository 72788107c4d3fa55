//! Whether a server is up, by HAProxy's counting. Pure.
//!
//! ```text
//!            rise checks pass in a row
//!   DOWN ────────────────────────────────► UP
//!     ▲                                     │
//!     └─────────────────────────────────────┘
//!            fall checks fail in a row
//! ```
//!
//! One counter holds both ways, as in HAProxy: below `rise` the server is down and counts its successes, at or above it
//! is up, and `rise + fall - 1` is full health. Unlike HAProxy, a server begins down: nothing is sent where nothing was
//! seen.

use std::fmt;

/// How many checks in a row change a server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Failures that take a server out, at least 1.
    pub fall: u32,
    /// Successes that bring it back, at least 1.
    pub rise: u32,
}

/// The health of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    thresholds: Thresholds,
    counter: u32,
}

/// What a check changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that a client would notice.
    None,
    /// It takes requests from now on.
    WentUp,
    /// It takes none from now on.
    WentDown,
}

impl Health {
    /// A server that was not checked yet.
    pub fn unseen(thresholds: Thresholds) -> Self {
        Self { thresholds, counter: 0 }
    }

    /// Whether it takes requests.
    pub fn is_up(&self) -> bool {
        self.counter >= self.thresholds.rise
    }

    /// The raw counter, HAProxy's `check_health`.
    pub fn counter(&self) -> u32 {
        self.counter
    }

    /// Takes in the outcome of one check.
    pub fn observe(&mut self, passed: bool) -> Change {
        let (before, Thresholds { fall, rise }) = (self.is_up(), self.thresholds);
        self.counter = match (passed, before) {
            (true, true) => rise + fall - 1,
            (true, false) if self.counter + 1 >= rise => rise + fall - 1,
            (true, false) => self.counter + 1,
            (false, true) if self.counter > rise => self.counter - 1,
            (false, _) => 0,
        };
        match (before, self.is_up()) {
            (false, true) => Change::WentUp,
            (true, false) => Change::WentDown,
            _ => Change::None,
        }
    }
}

impl fmt::Display for Health {
    /// HAProxy's words: `UP`, `UP 1/2` (going down), `DOWN`, `DOWN 1/2` (going up).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Thresholds { fall, rise } = self.thresholds;
        match self.counter {
            0 => f.write_str("DOWN"),
            n if n < rise => write!(f, "DOWN {n}/{rise}"),
            n if n < rise + fall - 1 => write!(f, "UP {}/{fall}", n - rise + 1),
            _ => f.write_str("UP"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Health, Thresholds};

    #[test]
    fn checks_are_counted_and_named_as_by_haproxy() {
        let mut health = Health::unseen(Thresholds { fall: 2, rise: 2 });
        let mut seen = vec![health.to_string()];
        for passed in [true, false, true, true, false, true, false, false, false] {
            health.observe(passed);
            seen.push(health.to_string());
        }
        let expected =
            ["DOWN", "DOWN 1/2", "DOWN", "DOWN 1/2", "UP", "UP 1/2", "UP", "UP 1/2", "DOWN", "DOWN"];
        assert_eq!(seen, expected);
    }

    #[test]
    fn change_is_returned_once() {
        let mut health = Health::unseen(Thresholds { fall: 1, rise: 1 });
        let changes: Vec<_> = [true, true, false, false].map(|passed| health.observe(passed)).into();
        assert_eq!(changes, [Change::WentUp, Change::None, Change::WentDown, Change::None]);
    }
}
