//! What became of one request.

use std::borrow::Cow;
use std::time::Duration;

use thiserror::Error;
use tidegate_proto::printable::one_line;
use tokio::time::Instant;

use crate::load::plan::Due;
use crate::load::wire::NoAnswer;

/// Why a request was not answered as it should be.
#[derive(Debug, Error)]
pub enum Failure {
    /// The load itself was late: no failure of the service.
    #[error("not sent within 1 s of its instant")]
    NotSent,
    /// No answer in time.
    #[error("no answer in 10 s")]
    Silence,
    /// No whole answer.
    #[error("{}", match .0 { NoAnswer::Connect(_) => "not connected", _ => "reset" })]
    Reset(#[source] NoAnswer),
    /// A status that was not asked for.
    #[error("status {0}")]
    Status(u16, String),
    /// An answer that contradicts what is known.
    #[error("wrong content")]
    Content(String),
}

/// Statuses by which an instance or a balancer says that it cannot keep up.
pub const BUSY: [u16; 3] = [429, 503, 504];

impl Failure {
    /// Whether a machine that cannot keep up explains it as well as a fault of the service does.
    pub fn is_of_time(&self) -> bool {
        match self {
            Self::NotSent | Self::Silence | Self::Reset(_) => true,
            Self::Status(status, _) => BUSY.contains(status),
            Self::Content(_) => false,
        }
    }

    /// More than the kind: what the service answered, in one line that no terminal acts on.
    pub fn detail(&self) -> String {
        let detail = match self {
            Self::Reset(cause) => cause.to_string(),
            Self::Status(_, said) | Self::Content(said) => said.clone(),
            Self::NotSent | Self::Silence => String::new(),
        };
        one_line(detail.trim_end()).into_owned()
    }
}

/// What became of one request.
#[derive(Debug)]
pub struct Outcome {
    /// Its place in the order.
    pub seq: u64,
    /// What it did.
    pub kind: Cow<'static, str>,
    /// When it was due.
    pub scheduled: Instant,
    /// When it was sent.
    pub sent: Instant,
    /// When the head of its answer was there.
    pub first: Option<Instant>,
    /// When its outcome was known.
    pub done: Instant,
    /// How long it takes without any fault of the service.
    pub own_length: Duration,
    /// The status of its answer, where there was one.
    pub status: Option<u16>,
    /// Which version answered, where that is known.
    pub version: Option<u32>,
    /// Which node answered.
    pub node: String,
    /// Which version wrote what was read.
    pub written_by: Option<u32>,
    /// Bytes of the answer.
    pub bytes: usize,
    /// Whether it was sent over a connection that an earlier request had made.
    pub kept: bool,
    /// `None` if all was well.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// Of a request that is sent now; its outcome is not known yet.
    pub fn begun(due: Due, kind: impl Into<Cow<'static, str>>, own_length: Duration) -> Self {
        let now = Instant::now();
        Self {
            seq: due.seq,
            kind: kind.into(),
            scheduled: due.at,
            sent: now,
            first: None,
            done: now,
            own_length,
            status: None,
            version: None,
            node: String::new(),
            written_by: None,
            bytes: 0,
            kept: false,
            failure: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn answer_of_a_service_is_one_line_without_control_codes() {
        let failure = Failure::Status(500, "oops\u{1b}[2J\nline two\n".to_owned());
        assert_eq!(failure.detail(), "oops\\u001b[2J\\nline two");
    }
}
