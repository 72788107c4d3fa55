//! What two processes must agree on: the vocabulary, the keys of the store, the records behind them, and (behind
//! the `wire` feature) the messages of the operators' API.
//!
//! Strings become types here, once. Nothing in this crate opens a socket, asks a clock or decides anything.

mod chain;
pub mod commit;
pub mod compute;
pub mod digest;
pub mod duration;
pub mod form;
pub mod gate;
pub mod key;
pub mod metadata;
pub mod mutant;
pub mod name;
pub mod percent;
pub mod printable;
pub mod record;
pub mod release;
pub mod revision;
pub mod spec;
mod text;
pub mod timing;
pub mod value;
pub mod version;
mod word;

#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "wire")]
pub mod verb;
#[cfg(feature = "wire")]
pub mod wire;

pub use chain::Chain;
pub use commit::{Commit, Precondition, Write};
pub use compute::{Fraction, ReleaseRevision, ReleaseVersion};
pub use digest::Digest;
pub use duration::Span;
pub use gate::{Artifact, GateHop, GateTag};
pub use key::{Key, Prefix};
pub use metadata::MetadataGeneration;
pub use name::{
    Branch, ComputeId, FailureName, GroupLabel, GroupName, HookName, InstanceId, NodeId, PrincipalName,
    SchemaName, ServiceName, StreamName, TaskId, TermId, TokenId, UpgradeId,
};
pub use percent::{Amount, Percent};
pub use record::Record;
pub use release::{Release, ReleaseTag};
pub use revision::{Generation, Revision};
pub use value::Value;
pub use version::ServiceVersion;
