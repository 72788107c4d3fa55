//! What the control plane reports of computes: whether a release answers, success or failure of one compute with a canary,
//! and how many computes run which tag. A repeated report changes nothing.

use super::{Asked, find, find_head, granted};
use crate::ask::{Asker, Refusal};
use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::release::canary::{self, StartRule};
use crate::stream::change::Change;
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::SignalSubject;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::signal::Signal;
use tidegate_proto::record::stream::{MAX_RUNNING_TAGS, Running};
use tidegate_proto::{ComputeId, Key, ReleaseRevision, ReleaseTag, StreamName, mutant};

/// Whether a waiting release answers. One that stops answering restarts its healthy time.
pub fn available(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    revision: ReleaseRevision,
    answers: bool,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let head = find_head(stream, name, revision, "say whether it answers of")?;
    let waits = stream.pending.iter().any(|head| head.release.revision == revision);
    if head.available == Some(answers) || !waits {
        return Ok(Asked::already(name, Some(revision)));
    }
    let mut change = Change::of(fleet, moment, name);
    for head in change.stream.pending.iter_mut().filter(|head| head.release.revision == revision) {
        (head.available, head.available_ms) = (Some(answers), 0);
    }
    let to = format!("revision {revision} {}", if answers { "answers" } else { "does not answer" });
    Ok(granted(change, asker, Some(revision), format!("revision {revision} pending"), to))
}

/// The most words about one canary that are kept.
const MAX_SIGNALS: usize = 30_000;

/// Success or failure of one compute with the canary. The last signal of a compute counts.
pub fn signal(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    revision: ReleaseRevision,
    compute: &ComputeId,
    success: bool,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let head = find_head(stream, name, revision, "count signals of")?;
    if stream.canary.as_ref().is_none_or(|canary| canary.release.revision != revision) {
        return Err(Refusal::state(format!(
            "revision {revision} of {name} is {}, not in canary: nothing is counted",
            head.release.status
        )));
    }
    let ran = canary::start(name, stream, compute).is_some_and(|start| start.by == StartRule::Canary);
    if !ran && !mutant::is("signals-outside-the-fraction-count") {
        return Err(Refusal::state(format!(
            "{compute} is not within the share of starts that use revision {revision} of {name}: its signal does not count. `tidegate release start {compute} --stream {name}` says what it starts with"
        )));
    }
    let subject = SignalSubject::Release(name.clone(), revision);
    let known = fleet.signal(&subject, compute);
    if known.is_some_and(|known| known.success == success) {
        return Ok(Asked::already(name, Some(revision)));
    }
    if known.is_none() && fleet.stored_signals(&subject) >= MAX_SIGNALS {
        return Err(Refusal::state(format!(
            "{MAX_SIGNALS} computes have signalled for revision {revision} of {name}, which is the maximum: promote it, or roll back"
        )));
    }
    let key = Key::Signal(subject, compute.clone());
    let (why, who) = (asker.why.clone(), asker.who.clone());
    let body = Signal { generation: None, success, failure: None, why, who, at: moment.wall };
    // One that cannot be read is replaced: the last signal counts.
    let at = fleet.replaced_at(&key, known.map(|known| known.at));
    // One word a key, so that computes do not wait for each other; the stream itself is not compared.
    let commit = Commit::new().when(Precondition::At(key.clone(), at)).put(key, body);
    Ok(Asked { stream: name.clone(), revision: Some(revision), commit: Some(commit) })
}

/// How many computes run each tag, all of them: the last report counts. `past` has the latest release of each tag that
/// no head has, as far as there is one.
pub fn running(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    counts: &BTreeMap<ReleaseTag, u64>,
    past: &BTreeMap<ReleaseTag, ComputeRelease>,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let counts: BTreeMap<&ReleaseTag, u64> =
        counts.iter().filter(|(_, count)| **count > 0).map(|(tag, count)| (tag, *count)).collect();
    if counts.len() > MAX_RUNNING_TAGS {
        return Err(Refusal::invalid(format!(
            "{} tags are said to run, at most {MAX_RUNNING_TAGS} are allowed",
            counts.len()
        )));
    }
    let mut reported = BTreeMap::new();
    for (tag, count) in counts {
        // One that waits may require more, under a tag that runs already.
        let head = stream.head_that_went_out(tag).or_else(|| stream.head_of(tag));
        let release = head.map(|head| &head.release).or(past.get(tag));
        reported.insert(tag.clone(), Running::of(count, release));
    }
    if stream.running == reported {
        return Ok(Asked::already(name, None));
    }
    let described = |running: &BTreeMap<ReleaseTag, Running>| {
        let computes: u64 = running.values().fold(0, |sum, running| sum.saturating_add(running.count));
        format!("{computes} computes run {} tags", running.len())
    };
    let mut change = Change::of(fleet, moment, name);
    let (from, to) = (described(&stream.running), described(&reported));
    change.stream.running = reported;
    Ok(granted(change, asker, None, from, to))
}
