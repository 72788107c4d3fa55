//! Compute releases: their numbers, and what whoever posts one says.

mod fraction;
mod number;
mod request;

pub use fraction::{Fraction, NotAFraction};
pub(crate) use number::number;
pub use number::{NotANumber, ReleaseRevision, ReleaseVersion};
pub use request::{Canary, EvidenceRule, ReleaseRequest, canonical};
