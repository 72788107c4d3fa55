//! Mutations of compute releases by operators and CI. Each verb is a function from a snapshot to the commit that
//! applies it, to "that is so already", or to a refusal. If the stream changes meanwhile, a precondition fails and the
//! mutation is planned again.

mod approve;
mod configure;
mod create;
mod evidence;
mod explain;
mod pin;
mod promote;
mod report;
mod retry;
pub(crate) mod roll_back;

pub use approve::approve;
pub use configure::configure;
pub use create::{create, home};
pub use evidence::evidence;
pub use explain::explain;
pub use pin::{pin, unpin};
pub use promote::promote;
pub use report::{available, running, signal};
pub use retry::retry;
pub use roll_back::roll_back;

use super::{Asker, Refusal};
use crate::fleet::{Fleet, Stored};
use crate::gate::Reason;
use crate::moment::Moment;
use crate::stream::change::{Change, StreamEvent};
use tidegate_proto::commit::Commit;
use tidegate_proto::compute::DEFAULT_STREAM;
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::{Key, ReleaseRevision, ReleaseTag, StreamName};

/// What is done about something that was asked of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The stream: not always the one that was named, where streams are grouped.
    pub stream: StreamName,
    /// The revision concerned, where there is one.
    pub revision: Option<ReleaseRevision>,
    /// What grants it; none = it is so already, and nothing is written.
    pub commit: Option<Commit>,
}

impl Asked {
    fn already(stream: &StreamName, revision: Option<ReleaseRevision>) -> Self {
        Self { stream: stream.clone(), revision, commit: None }
    }
}

/// A change that a person asked for.
fn granted(
    mut change: Change<'_>,
    asker: &Asker,
    revision: Option<ReleaseRevision>,
    from: String,
    to: String,
) -> Asked {
    let stream = change.name.clone();
    let number = change.moment.next_event;
    let event = StreamEvent { who: &asker.who, from, to, because: asker.why.clone(), number };
    change.record(event);
    Asked { stream, revision, commit: Some(change.commit()) }
}

/// The stream, which must be there and readable.
fn find<'a>(fleet: &'a Fleet, name: &StreamName) -> Result<&'a Stored<Stream>, Refusal> {
    readable(fleet, name)?;
    fleet.stream(name).ok_or_else(|| Refusal::not_found(format!(
            "there is no release stream {name}: `tidegate release stream {name} --set FILE` makes it, and the first \
             release makes {DEFAULT_STREAM}"
        )))
}

/// Refuses what concerns a record that cannot be read.
fn readable(fleet: &Fleet, name: &StreamName) -> Result<(), Refusal> {
    let key = Key::Stream(name.clone());
    match fleet.unreadable_at(&key) {
        Some(why) => Err(Refusal::state(format!(
            "the record {key} {why}: nothing is changed before it is restored (`tidegate release explain --stream {name}` \
                 says how)"
        ))),
        None => Ok(()),
    }
}

/// A release that anything may still happen to.
fn find_head<'a>(
    stream: &'a Stream,
    name: &StreamName,
    revision: ReleaseRevision,
    verb: &str,
) -> Result<&'a Head, Refusal> {
    if let Some(head) = stream.head(revision) {
        return Ok(head);
    }
    match &stream.latest {
        Some(latest) if revision <= latest.revision => Err(Refusal::state(format!(
            "cannot {verb} revision {revision} of {name}: it is history; nothing of it is kept"
        ))),
        _ => Err(Refusal::not_found(format!("{name} has no revision {revision}"))),
    }
}

/// Refuses to let anything out that the stream's manual strategy does not name: the next turn would undo it.
fn heeds_manual(stream: &Stream, name: &StreamName, tag: &ReleaseTag) -> Result<(), Refusal> {
    match &stream.settings.strategy.manual {
        Some(manual) if manual != tag => Err(Refusal::state(format!(
            "strategy.manual of {name} names {manual}, and manual wins: change it instead"
        ))),
        _ => Ok(()),
    }
}

/// Every reason in one sentence.
fn sentence(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A stream that is not there yet is made by what is asked of it.
fn begun<'a>(fleet: &'a Fleet, moment: &'a Moment, name: &'a StreamName) -> Result<Change<'a>, Refusal> {
    readable(fleet, name)?;
    if fleet.stream(name).is_none() && fleet.streams().count() >= MAX_STREAMS {
        return Err(Refusal::state(format!(
            "there are {MAX_STREAMS} release streams, and {name} would be one more"
        )));
    }
    Ok(Change::of(fleet, moment, name))
}

/// The most release streams below one prefix: each has an entry in the needs of a service, which is one record.
pub const MAX_STREAMS: usize = 1_000;
