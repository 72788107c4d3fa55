//! The one user of the etcd client (and, in `retry`, of `backoff`): range, watch, commit, lease, leader. Keys, records
//! and commits are those of `tidegate-proto`; nothing here knows what they mean, or decides anything.
//!
//! # What others call
//! ```text
//! Reader::connect(&Endpoints, Prefix) -> Result<Reader, StoreError>     Reader::over(etcd_client::Client, Prefix) -> Reader
//! store.get(&Key) -> Result<Option<Entry>, StoreError>                  one linearizable read
//! store.get_many(&[Key]) -> Result<Snapshot, StoreError>                one revision, any number of keys
//! store.list(&Scope) -> Result<Snapshot, StoreError>                    one revision, in pages
//! store.keys(&Scope) -> Result<Vec<Key>, StoreError>                    without their records
//! store.watch(Vec<Scope>, CancellationToken) -> WatchStream             .recv().await -> Option<Seen>
//! store.campaign(TermId, address, ttl, CancellationToken) -> Result<Leadership, CampaignError>
//!     create_revision term lost is_held() lease() resign().await
//!     writes() -> Fenced     .commit(&Commit): every write of a leader compares its key and term
//! store.current_leader() -> Result<Option<(Record<Leader>, Revision)>, StoreError>
//!
//! Store (a Reader that also writes; agents)
//! store.commit(&Commit) -> Result<Committed { revision }, CommitError>
//! store.commit_leased(&Commit, &Lease) -> the same                      its reports and leader key live under the lease
//! store.lease(Duration) -> Result<Lease, StoreError>                    kept alive in the background
//!     id() ttl() state() watch() lost().await pause_keep_alive(bool) revoke().await
//!
//! process::spawn(future) -> JoinHandle                                  what a simulation can stop
//! ```
//!
//! # Invariants
//! * A write is sent once. Where its outcome is unknown the store is asked what it holds; only what it provably did not
//!   take (no connection was made, or it was too busy) is sent again.
//! * Each call has a time limit; a read is repeated within it, a watch and a lease come back by themselves.
//! * A compacted history, a lost connection and a store that fell back are three things, and kept distinct.

pub mod commit;
mod dial;
pub mod endpoints;
pub mod entry;
pub mod error;
pub mod leader;
pub mod lease;
pub mod process;
mod read;
mod retry;
pub mod scope;
pub mod store;
pub mod watch;

pub use commit::{CommitError, Committed, InvalidCommit, MAX_COMMIT_BYTES};
pub use endpoints::{Credentials, Endpoints, Tls};
pub use entry::{Entry, Snapshot};
pub use error::StoreError;
pub use leader::{CampaignError, Fenced, Leadership};
pub use lease::{Lease, LeaseState};
pub use scope::Scope;
pub use store::{Reader, Store};
pub use watch::{Change, Seen, WatchStream};
