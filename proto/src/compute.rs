//! Compute releases: their numbers, and the fields of a request that posts one.

mod fraction;
mod number;
mod pull_request;
mod request;

pub use fraction::{Fraction, NotAFraction};
pub(crate) use number::number;
pub use number::{NotANumber, ReleaseRevision, ReleaseVersion};
pub use pull_request::label as pull_request_label;
pub use request::{Canary, EvidenceRule, ReleaseRequest, canonical};

/// The stream that is meant where none is named, and the only one that a release makes by itself.
pub const DEFAULT_STREAM: &str = "compute";
