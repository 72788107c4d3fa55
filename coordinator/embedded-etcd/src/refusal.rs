//! Why a request was refused, in etcd's own codes and texts, so that clients written for etcd behave.
//!
//! Only the texts below reach a client; nothing else in this crate builds a status for a bad request.

use tonic::{Code, Status};

/// A request that was not carried out; nothing has changed when one of these is returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    #[error("etcdserver: key not found")]
    KeyNotFound,
    #[error("etcdserver: value is provided")]
    ValueProvided,
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    #[error("etcdserver: too many operations in txn request")]
    TooManyOps,
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    #[error("etcdserver: request is too large")]
    TooLarge,
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    #[error("etcdserver: mvcc: required revision is a future revision")]
    FutureRevision,
    #[error("etcdserver: requested lease not found")]
    LeaseNotFound,
    #[error("etcdserver: lease already exists")]
    LeaseExists,
    #[error("etcdserver: too large lease TTL")]
    LeaseTtlTooLarge,
    #[error("etcdserver: authentication is not enabled")]
    AuthNotEnabled,
    #[error("etcdserver: server stopped")]
    Stopped,
    /// The disk refused a write: what was in flight may or may not be there after a restart.
    #[error("embedded store: could not write to its file: {0}; the outcome is unknown, restart the store")]
    Disk(String),
    /// The disk is full: the request was not begun.
    #[error(
        "embedded store: no space is left for its file ({0}); nothing was changed, free some space and it goes on by itself"
    )]
    Full(String),
    /// The disk became full while the request was under way.
    #[error(
        "embedded store: no space is left for its file ({0}); the outcome is unknown until there is some, then it goes on by itself"
    )]
    FullInFlight(String),
    /// A part of etcd's API that the embedded store does not have.
    #[error("embedded store: {0} is not offered; it needs a real etcd")]
    NotOffered(&'static str),
}

impl Refusal {
    fn code(&self) -> Code {
        match self {
            Self::EmptyKey
            | Self::KeyNotFound
            | Self::ValueProvided
            | Self::LeaseProvided
            | Self::TooManyOps
            | Self::DuplicateKey
            | Self::TooLarge => Code::InvalidArgument,
            Self::Compacted | Self::FutureRevision | Self::LeaseTtlTooLarge => Code::OutOfRange,
            Self::LeaseNotFound => Code::NotFound,
            Self::LeaseExists | Self::AuthNotEnabled => Code::FailedPrecondition,
            Self::Stopped | Self::Disk(_) | Self::Full(_) | Self::FullInFlight(_) => Code::Unavailable,
            Self::NotOffered(_) => Code::Unimplemented,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Status::new(refusal.code(), refusal.to_string())
    }
}
