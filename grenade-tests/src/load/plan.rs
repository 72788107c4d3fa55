//! What a load is to do. Parsed values only.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

/// How long after its instant a request may still be sent.
pub const SEND_LIMIT: Duration = Duration::from_secs(1);
/// How long after sending an answer may take; for an upload, beyond its own length.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// When a request is to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// Its place in the order, from 0.
    pub seq: u64,
    /// Its instant.
    pub at: Instant,
}

/// How often a load sends, whatever it sends.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Requests per second, 1 to 5000.
    pub rate: u32,
    /// Decides every choice that the load makes.
    pub seed: u64,
    /// Each request is due somewhere in its own part of time, as this seed decides; absent: always at the beginning. What
    /// happens at regular intervals on the machine meets requests of two even schedules unevenly.
    pub jitter: Option<u64>,
    /// Where each request is written down: a CSV file, created empty.
    pub ledger: PathBuf,
}

impl Pace {
    /// From one request to the next.
    ///
    /// # Errors
    /// When the rate is 0 or above 5000.
    pub fn period(&self) -> Result<Duration, LoadError> {
        match self.rate {
            1..=5000 => Ok(Duration::from_nanos(1_000_000_000 / u64::from(self.rate))),
            rate => Err(LoadError::Rate(rate)),
        }
    }
}

/// Why a load could not run or be accounted for.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A rate outside of what one client can keep up.
    #[error("a rate of {0} requests a second; 1 to 5000 is allowed")]
    Rate(u32),
    /// The ledger could not be written.
    #[error("could not write the ledger {path}")]
    Ledger {
        /// Its file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: csv::Error,
    },
    /// A ledger cannot be read.
    #[error("could not read the ledger {path}")]
    Unreadable {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it, and where.
        #[source]
        source: csv::Error,
    },
    /// A ledger has a time that no load has.
    #[error("{}:{line}: {wrong} is no time of a load; milliseconds from its start are allowed, up to thirty days", path.display())]
    NoTime {
        /// Its file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is there.
        wrong: f64,
    },
    /// Requests were lost by the load itself: the count is worthless.
    #[error("{sent} requests came due, but {ok} + {failed} + {not_sent} have an outcome")]
    Unbalanced {
        /// Requests that came due.
        sent: u64,
        /// Of these, answered as they should.
        ok: u64,
        /// Of these, not.
        failed: u64,
        /// Of these, not sent in time.
        not_sent: u64,
    },
    /// The task that schedules or writes down ended by itself.
    #[error("a task of the load ended before its time")]
    Broken(#[source] tokio::task::JoinError),
}
