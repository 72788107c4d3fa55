//! What can go wrong between us and the store, by what the caller may do about it: try again, correct something,
//! or report to a person. The client's own errors end here.

use etcd_client::Error as ClientError;
use std::error::Error;
use std::fmt;
use tidegate_proto::{Key, record::Malformed};
use tonic::Code;

/// A call to the store that brought no answer that could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No member answered, the answer did not come in time, or the store was too busy to take the call. Worth another try.
    #[error("could not {attempt}: no usable answer from the store at {endpoints}")]
    Unreachable {
        /// What was tried.
        attempt: String,
        /// The endpoints, as configured.
        endpoints: String,
        /// The last cause.
        #[source]
        cause: Cause,
    },
    /// User, password or token were not accepted.
    #[error("could not {attempt}: the store does not accept these credentials")]
    Authentication {
        /// What was tried.
        attempt: String,
        /// The store's own words.
        #[source]
        cause: Cause,
    },
    /// The store understood and said no: no permission, no space, not a valid request.
    #[error("could not {attempt}: the store refused")]
    Refused {
        /// What was tried.
        attempt: String,
        /// The store's own words.
        #[source]
        cause: Cause,
    },
    /// The history that was asked for is compacted: read again from the present.
    #[error(
        "could not {attempt}: that revision is not there (compacted, or the store fell back); read the present state"
    )]
    Compacted {
        /// What was tried.
        attempt: String,
    },
    /// An answer beyond the limit of one message, with a single key asked for.
    #[error("could not {attempt}: the answer exceeds the {limit} bytes that one message may have")]
    TooLarge {
        /// What was tried.
        attempt: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// An answer that breaks the protocol, or a record that is none.
    #[error("could not {attempt}: the store's answer is malformed: {found}")]
    Malformed {
        /// What was tried.
        attempt: String,
        /// What is wrong with it.
        found: String,
    },
    /// The record behind a key cannot be read.
    #[error("the record {key}")]
    Record {
        /// Its key.
        key: Box<Key>,
        /// What is wrong with it.
        #[source]
        cause: Malformed,
    },
    /// The endpoints as configured cannot be used.
    #[error("the store's endpoints cannot be used: {0}")]
    Configuration(String),
}

impl StoreError {
    /// Whether the same call may succeed later without any other change.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Compacted { .. })
    }
}

/// The client's error in one line: the code, and every cause that says something new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause(String);

impl Cause {
    pub(crate) fn of(error: &ClientError) -> Self {
        let mut text = match error {
            ClientError::GRpcStatus(status) => status.message().to_owned(),
            other => other.to_string(),
        };
        let mut next = chain_start(error);
        while let Some(cause) = next {
            let words = cause.to_string();
            if !words.is_empty() && !text.contains(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            next = cause.source();
        }
        if let ClientError::GRpcStatus(status) = error {
            text.push_str(&format!(" ({:?})", status.code()));
        }
        Self(text)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Cause {}

/// What an error of the client means for the one who called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing was carried out: no connection was made, or the store was too busy to take the call.
    NotTaken,
    /// It is not known whether it was carried out.
    Unknown,
    Authentication,
    Refused,
    /// The lease is gone.
    NoLease,
    Compacted,
    TooLarge,
}

/// Sorts an error of the client. What does not come from the store itself is unknown, never refused.
pub(crate) fn meaning(error: &ClientError) -> Meaning {
    match error {
        ClientError::GRpcStatus(status) => meaning_of_status(status, error),
        ClientError::LeaseKeepAliveError(text) if text.contains("not found") => Meaning::NoLease,
        ClientError::InvalidArgs(_) | ClientError::InvalidUri(_) | ClientError::InvalidMetadataValue(_) => {
            Meaning::Refused
        }
        _ => Meaning::Unknown,
    }
}

fn meaning_of_status(status: &tonic::Status, error: &ClientError) -> Meaning {
    let text = status.message();
    let from_store = text.contains("etcdserver:") || text.contains("auth:");
    match status.code() {
        Code::Unavailable if never_connected(error) => Meaning::NotTaken,
        // Before it proposes the request: what was committed before is yet to be applied.
        Code::ResourceExhausted if from_store && text.contains("too many requests") => Meaning::NotTaken,
        Code::Unauthenticated => Meaning::Authentication,
        // A future revision was asked for: the store fell back behind it. Either way the present must be read.
        Code::OutOfRange if text.contains("compacted") || text.contains("future revision") => {
            Meaning::Compacted
        }
        Code::OutOfRange if text.contains("message length") => Meaning::TooLarge,
        Code::NotFound if text.contains("lease") => Meaning::NoLease,
        _ if text.contains("invalid auth token") || text.contains("authentication failed") => {
            Meaning::Authentication
        }
        // "authentication is not enabled" and the like: credentials that this store has no use for.
        Code::FailedPrecondition if text.contains("authentication is not enabled") => Meaning::Authentication,
        Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition | Code::Unimplemented => {
            Meaning::Refused
        }
        Code::ResourceExhausted | Code::OutOfRange | Code::NotFound if from_store => Meaning::Refused,
        _ => Meaning::Unknown,
    }
}

fn chain_start(error: &ClientError) -> Option<&(dyn Error + 'static)> {
    match error {
        ClientError::GRpcStatus(status) => status.source(),
        ClientError::TransportError(transport) => transport.source(),
        _ => None,
    }
}

fn never_connected(error: &ClientError) -> bool {
    let mut next = chain_start(error);
    while let Some(cause) = next {
        if cause.is::<tonic::ConnectError>() {
            return true;
        }
        next = cause.source();
    }
    false
}

/// Puts an error of the client into our words.
pub(crate) fn explain(attempt: &str, endpoints: &str, limit: usize, error: &ClientError) -> StoreError {
    let (attempt, cause) = (attempt.to_owned(), Cause::of(error));
    match meaning(error) {
        Meaning::NotTaken | Meaning::Unknown => {
            StoreError::Unreachable { attempt, endpoints: endpoints.to_owned(), cause }
        }
        Meaning::Authentication => StoreError::Authentication { attempt, cause },
        Meaning::Refused | Meaning::NoLease => StoreError::Refused { attempt, cause },
        Meaning::Compacted => StoreError::Compacted { attempt },
        Meaning::TooLarge => StoreError::TooLarge { attempt, limit },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_that_is_too_busy_is_asked_again_and_a_full_one_not() {
        let answer = |text: &str| ClientError::GRpcStatus(tonic::Status::resource_exhausted(text));
        let busy = answer("etcdserver: too many requests");
        assert_eq!(meaning(&busy), Meaning::NotTaken);
        assert!(explain("commit", "etcd:2379", 0, &busy).retryable());
        let full = answer("etcdserver: mvcc: database space exceeded");
        assert_eq!(meaning(&full), Meaning::Refused);
        assert!(!explain("commit", "etcd:2379", 0, &full).retryable());
    }
}
