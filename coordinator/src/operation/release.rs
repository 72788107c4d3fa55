//! What is asked about compute releases: one file a verb, called by every door alike. Bodies that doors pass on as JSON
//! become types here.

mod approve;
mod configure;
mod create;
mod evidence;
mod explain;
mod get;
mod history;
mod list;
mod pin;
mod promote;
mod read;
mod report;
mod retry;
mod roll_back;
mod settings;
mod start;
mod streams;
pub mod view;
mod written;

pub use approve::approve_release;
pub use configure::configure_stream;
pub use create::create_release;
pub use evidence::{list_evidence, record_evidence};
pub use explain::explain_release;
pub use get::{active_release, get_release};
pub use history::stream_history;
pub use list::list_releases;
pub use pin::{pin_compute, unpin_compute};
pub use promote::promote_release;
pub use report::{report_available, report_running, report_signal};
pub use retry::retry_release;
pub use roll_back::roll_back_release;
pub use settings::release_settings;
pub use start::{start_compute, started};
pub use streams::{list_streams, show_stream};

use super::body::read as body;
use super::{OperationError, parse};
use tidegate_planner::{Fleet, Stored};
use tidegate_proto::record::stream::Stream;
use tidegate_proto::{ReleaseRevision, StreamName};
use written::reply;

pub use tidegate_proto::compute::DEFAULT_STREAM;

/// Reads the name of a stream; empty = the default one.
fn stream_name(text: &str) -> Result<StreamName, OperationError> {
    parse(if text.is_empty() { DEFAULT_STREAM } else { text })
}

/// A stream as this coordinator sees it.
fn find<'a>(fleet: &'a Fleet, name: &StreamName) -> Result<&'a Stored<Stream>, OperationError> {
    let missing = || format!("there is no release stream {name}: the first release that is created makes it");
    fleet.stream(name).ok_or_else(|| OperationError::NotFound(missing()))
}

/// Reads a revision that an operator typed.
fn revision(number: u64) -> Result<ReleaseRevision, OperationError> {
    ReleaseRevision::new(number).map_err(|e| OperationError::BadInput(e.to_string()))
}
