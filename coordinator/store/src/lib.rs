//! The one user of the etcd client: range, watch, commit, lease, leader.

pub mod commit;
pub mod endpoints;
pub mod entry;
pub mod error;
pub mod lease;
mod read;
mod retry;
pub mod scope;
pub mod store;

pub use commit::{CommitError, Committed, InvalidCommit, MAX_COMMIT_BYTES};
pub use endpoints::{Credentials, Endpoints, Tls};
pub use entry::{Entry, Snapshot};
pub use error::StoreError;
pub use lease::{Lease, LeaseState};
pub use scope::Scope;
pub use store::Store;
