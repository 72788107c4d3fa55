//! The next step of one release stream: a canary is judged, the latest release that every gate lets through goes out,
//! what nothing holds is collected. At most one commit a turn rewrites the stream.

mod collect;
mod hook;
mod trial;

use super::super::draft::BATCH;
use crate::action::{Action, PlannedCommit};
use crate::fleet::Fleet;
use crate::gate::Reason;
use crate::gate::release::canary::{Judgement, judge};
use crate::gate::release::deploy;
use crate::gate::release::storage::{has_evidence, may_meet_storage};
use crate::gate::release::trial::{Trial, assess};
use crate::gate::store::unreadable_in;
use crate::gate::task::{self, Hooks};
use crate::gate::version::below;
use crate::moment::Moment;
use crate::release::canary::counted;
use crate::stream::change::{Change, StreamEvent};
use crate::stream::image;
use crate::stream::returning::{again, emergency, while_removed};
use crate::task::Purpose;
use collect::{WITH_ANOTHER, collect, count, forget_signals};
use std::collections::BTreeMap;
use tidegate_proto::commit::Precondition;
use tidegate_proto::compute::Canary;
use tidegate_proto::key::Subject;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::{Fraction, ReleaseRevision, ReleaseTag, StreamName};

/// What a turn decides about one stream.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) actions: Vec<Action>,
    pub(crate) waiting: BTreeMap<ReleaseRevision, Vec<Reason>>,
    /// How many event numbers the actions take.
    pub(crate) events: u64,
}

/// What is done to the stream, in the words of its event; none of them = its counts are stored, which is no event.
struct Step {
    words: Option<(String, String, String)>,
}

impl Step {
    fn recorded(from: impl Into<String>, to: impl Into<String>, because: impl Into<String>) -> Self {
        Self { words: Some((from.into(), to.into(), because.into())) }
    }
}

/// Decides the next step of a stream. `number` is that of its next event.
pub(in crate::plan) fn turn(fleet: &Fleet, moment: &Moment, name: &StreamName, number: u64) -> Turn {
    let mut turn = moved(fleet, moment, name, number);
    for (revision, behind) in below::named(fleet, name) {
        let reasons = turn.waiting.entry(revision).or_default();
        let new: Vec<Reason> = behind.into_iter().filter(|reason| !reasons.contains(reason)).collect();
        reasons.extend(new);
    }
    turn
}

fn moved(fleet: &Fleet, moment: &Moment, name: &StreamName, number: u64) -> Turn {
    let mut turn = Turn::default();
    turn.actions.extend(forget_signals(fleet, name));
    turn.actions.extend(hook::forget(fleet, name));
    let mut change = Change::of(fleet, moment, name);
    if is_at_rest(&change.stream) {
        return turn;
    }
    turn.actions.extend(hook::order(&change, &mut turn.waiting));
    let Some(step) = decide(&mut change, &mut turn.waiting) else { return turn };
    let what = step.words.as_ref().map_or_else(|| "count".to_owned(), |(_, to, _)| to.clone());
    let also = collect(&mut change, WITH_ANOTHER);
    let steps = [Some(step), also].into_iter().flatten().filter_map(|step| step.words);
    for (from, to, because) in steps {
        change.record(StreamEvent { who: "coordinator", from, to, because, number: number + turn.events });
        turn.events += 1;
    }
    let commit = change.commit();
    // What storage is needed for, by other streams too, is written with it.
    if let Some(reason) = unreadable_in(fleet, &commit) {
        for (revision, reasons) in fleet.stream(name).into_iter().flat_map(|stream| held(stream, &reason)) {
            turn.waiting.entry(revision).or_default().extend(reasons);
        }
        turn.events = 0;
        return turn;
    }
    let subject = Subject::Stream(name.clone());
    turn.actions.push(Action::Commit(PlannedCommit::new(subject, what, commit)));
    turn
}

/// Whatever waits, and a canary, held for one reason that concerns all of them.
pub(in crate::plan) fn held(
    stream: &Stream,
    reason: &Reason,
) -> impl Iterator<Item = (ReleaseRevision, Vec<Reason>)> {
    let moving = stream.pending.iter().chain(stream.canary.as_deref());
    moving.map(|head| (head.release.revision, vec![reason.clone()]))
}

/// Whether nothing could happen: what most streams are most of the time.
fn is_at_rest(stream: &Stream) -> bool {
    let named = |tag: &ReleaseTag| stream.deployed.as_ref().is_some_and(|head| head.release.tag == *tag);
    let fulfilled = stream.settings.strategy.manual.as_ref().is_none_or(named);
    stream.pending.is_empty() && stream.canary.is_none() && stream.kept.is_empty() && fulfilled
}

/// The first thing that there is to do, with every reason for what waits.
fn decide(change: &mut Change<'_>, waiting: &mut BTreeMap<ReleaseRevision, Vec<Reason>>) -> Option<Step> {
    let canary = canary(change, waiting);
    let candidates: Vec<(ReleaseRevision, Gates)> =
        change.stream.pending.iter().rev().map(|head| (head.release.revision, gates(change, head))).collect();
    for (revision, gates) in &candidates {
        if let Gates::Shut(reasons) | Gates::Trial(Trial::Waits(reasons)) = gates {
            waiting.insert(*revision, reasons.clone());
        }
    }
    canary
        .or_else(|| candidates.into_iter().find_map(|(revision, gates)| act_on(change, revision, gates)))
        .or_else(|| return_to_manual(change, waiting))
        .or_else(|| removed(change))
        .or_else(|| collect(change, BATCH))
        .or_else(|| count(change))
}

/// What the gates of a waiting release say.
enum Gates {
    /// Not yet, for these reasons.
    Shut(Vec<Reason>),
    /// Nothing but its trial holds it, or its trial must begin or end.
    Trial(Trial),
    /// It goes out, if this still holds.
    Open(Vec<Precondition>),
}

/// Whether a waiting release would go out, or begin its trial, were it not for its hooks.
fn is_held_by_prewarm_alone(change: &Change<'_>, head: &Head) -> bool {
    outer_gates(change, head).is_ok()
}

/// The gates before hooks and trial. A person who goes back waits for storage and the image alone.
fn outer_gates(change: &Change<'_>, head: &Head) -> Result<Vec<Precondition>, Vec<Reason>> {
    let (stream, release) = (&change.stream, &head.release);
    let (compares, mut reasons) = match may_meet_storage(change.fleet, &stream.settings, release) {
        Ok(compares) => (compares, Vec::new()),
        Err(reasons) => (Vec::new(), reasons),
    };
    let by_hand = stream.settings.strategy.manual.is_some();
    reasons.extend(deploy::holds_back(stream, release.revision));
    if head.returns() {
        reasons.extend(deploy::wants(&stream.settings.strategy, head).err().filter(|_| by_hand));
        reasons.extend(match head.at_once {
            true => task::not_withdrawn(change.fleet, change.name, &release.tag),
            false => task::being_removed(change.fleet, change.name, &release.tag),
        });
        return if reasons.is_empty() { Ok(compares) } else { Err(reasons) };
    }
    reasons.extend(deploy::approved(change.name, stream, release).err());
    reasons.extend(deploy::wants(&stream.settings.strategy, head).err());
    reasons.extend(deploy::is_canary_free(stream).err());
    reasons.extend(deploy::room_to_keep(stream, release.revision).err());
    reasons.extend(task::being_removed(change.fleet, change.name, &release.tag));
    if reasons.is_empty() { Ok(compares) } else { Err(reasons) }
}

fn gates(change: &Change<'_>, head: &Head) -> Gates {
    let stream = &change.stream;
    if let Some(reason) = removal_runs(change, head) {
        return Gates::Trial(Trial::Failed(while_removed(&reason)));
    }
    let (compares, mut reasons) = match outer_gates(change, head) {
        Ok(compares) => (compares, Vec::new()),
        Err(reasons) => (Vec::new(), reasons),
    };
    match &stream.settings.prewarm {
        _ if head.at_once => {}
        Some(asked) if reasons.is_empty() => {
            match task::hooks(change.fleet, change.name, Purpose::Prewarm, asked, head) {
                Hooks::Done => {}
                Hooks::Waits(waits) => reasons.extend(waits),
                Hooks::Failed(reason) => {
                    return Gates::Trial(Trial::Failed(not_warmed_up(change, head, &reason.to_string())));
                }
            }
        }
        None if head.returns() => {
            let because = "its image may be gone, and the stream no longer has a prewarm hook";
            return Gates::Trial(Trial::Failed(not_warmed_up(change, head, because)));
        }
        _ => {}
    }
    if head.returns() {
        return if reasons.is_empty() { Gates::Open(compares) } else { Gates::Shut(reasons) };
    }
    match assess(stream.settings.availability.as_ref(), head, reasons) {
        Ok(()) => Gates::Open(compares),
        Err(Trial::Shut(reasons)) => Gates::Shut(reasons),
        Err(trial) => Gates::Trial(trial),
    }
}

/// The removal that an agent began while a rollback without a prewarm waited: it would go out with an image that is gone.
fn removal_runs(change: &Change<'_>, head: &Head) -> Option<Reason> {
    let runs = task::removal_runs(change.fleet, change.name, &head.release.tag);
    runs.filter(|_| head.at_once && head.returns())
}

/// Why a release whose image could not be warmed up has failed.
fn not_warmed_up(change: &Change<'_>, head: &Head, why: &str) -> String {
    match head.release.rollback_of {
        Some(revision) => {
            format!("{why}; what was deployed stays. {}", emergency(change.name, revision))
        }
        None => why.to_owned(),
    }
}

fn act_on(change: &mut Change<'_>, revision: ReleaseRevision, gates: Gates) -> Option<Step> {
    let compares = match gates {
        Gates::Shut(_) | Gates::Trial(Trial::Shut(_) | Trial::Waits(_)) => return None,
        Gates::Trial(Trial::Begins) => return trial::set(change, revision, true),
        Gates::Trial(Trial::Ends) => return trial::set(change, revision, false),
        Gates::Trial(Trial::Failed(because)) => return fail(change, revision, because),
        Gates::Open(compares) => compares,
    };
    change.relies_on(compares);
    let returns = change.stream.head(revision).is_some_and(Head::returns);
    let tried = canary_of(&change.stream, revision).filter(|_| change.stream.deployed.is_some() && !returns);
    match tried {
        Some(canary) => {
            change.begins_canary(revision, canary.fraction).ok()?;
            let to = format!("revision {revision} in canary for {} of starts", canary.fraction);
            Some(Step::recorded(format!("revision {revision} pending"), to, "every gate is open"))
        }
        None => put_out(change, revision, "every gate is open"),
    }
}

/// How a release is tried first: as itself says, or as its stream does.
fn canary_of(stream: &Stream, revision: ReleaseRevision) -> Option<Canary> {
    let own = stream.head(revision).and_then(|head| head.release.canary.clone());
    own.or_else(|| stream.settings.canary.clone())
}

fn put_out(change: &mut Change<'_>, revision: ReleaseRevision, because: &str) -> Option<Step> {
    let from = change.stream.head(revision).map(|head| head.release.status)?;
    let tag = change.stream.head(revision).map(|head| head.release.tag.clone())?;
    change.goes_out(revision).ok()?;
    let to = format!("revision {revision} ({tag}) deployed");
    Some(Step::recorded(format!("revision {revision} {from}"), to, because))
}

fn fail(change: &mut Change<'_>, revision: ReleaseRevision, because: String) -> Option<Step> {
    let from = change.stream.head(revision).map(|head| head.release.status)?;
    change.fails(revision, &because).ok()?;
    Some(Step::recorded(format!("revision {revision} {from}"), format!("revision {revision} error"), because))
}

/// The canary goes out, is withdrawn, or waits.
fn canary(change: &mut Change<'_>, waiting: &mut BTreeMap<ReleaseRevision, Vec<Reason>>) -> Option<Step> {
    let head = change.stream.canary.as_deref()?;
    let (release, revision) = (&head.release, head.release.revision);
    let by_hand = || Canary {
        fraction: head.fraction.unwrap_or(Fraction::ALL),
        promote_after: None,
        tolerate: 0,
        deadline: None,
    };
    let canary = canary_of(&change.stream, revision).unwrap_or_else(by_hand);
    let recorded = counted(change.fleet, change.name, &change.stream);
    match judge(&canary, recorded, head.canary_ms) {
        Judgement::Failed(because) => return fail(change, revision, because),
        Judgement::Open(reason) => {
            // Storage may have come since it began, or the settings changed: a person who promotes it needs to know.
            let lacks = has_evidence(change.fleet, &change.stream.settings, release).err();
            let unapproved = deploy::approved(change.name, &change.stream, release).err();
            let reasons = [reason].into_iter().chain(lacks.into_iter().flatten()).chain(unapproved);
            waiting.insert(revision, reasons.collect());
            return None;
        }
        Judgement::Succeeded => {}
    }
    let mut reasons = Vec::new();
    let compares = may_meet_storage(change.fleet, &change.stream.settings, release)
        .map_err(|found| reasons.extend(found))
        .unwrap_or_default();
    reasons.extend(deploy::holds_back(&change.stream, revision));
    reasons.extend(deploy::approved(change.name, &change.stream, release).err());
    reasons.extend(deploy::wants(&change.stream.settings.strategy, head).err());
    reasons.extend(deploy::room_to_keep(&change.stream, revision).err());
    if !reasons.is_empty() {
        waiting.insert(revision, reasons);
        return None;
    }
    change.relies_on(compares);
    let because = format!("{} computes signalled success", recorded.successes);
    put_out(change, revision, &because)
}

/// The tag that the manual strategy names was superseded: it goes out again, as a new revision.
fn return_to_manual(
    change: &mut Change<'_>,
    waiting: &mut BTreeMap<ReleaseRevision, Vec<Reason>>,
) -> Option<Step> {
    let manual = change.stream.settings.strategy.manual.clone()?;
    let deployed = change.stream.deployed.as_deref()?;
    let still_to_come =
        change.stream.pending.iter().chain(change.stream.canary.as_deref()).any(|h| h.release.tag == manual);
    if deployed.release.tag == manual || still_to_come {
        return None;
    }
    let from = format!("revision {} deployed", deployed.release.revision);
    let wanted: ComputeRelease = change
        .stream
        .kept
        .iter()
        .rev()
        .map(|head| &head.release)
        .find(|r| r.tag == manual && r.status == ReleaseStatus::Superseded && r.deployed_at.is_some())?
        .clone();
    let next = ReleaseRevision::after(change.stream.latest.as_ref().map(|latest| latest.revision));
    let mut reasons = Vec::new();
    let compares = may_meet_storage(change.fleet, &change.stream.settings, &wanted)
        .map_err(|found| reasons.extend(found))
        .unwrap_or_default();
    reasons.extend(deploy::room_to_keep(&change.stream, next).err());
    if !reasons.is_empty() {
        waiting.insert(wanted.revision, reasons);
        return None;
    }
    change.relies_on(compares);
    let revision = again(change, &wanted, "coordinator").ok()?;
    let to = format!("revision {revision} ({manual}) deployed, back to revision {}", wanted.revision);
    Some(Step::recorded(from, to, "the stream's manual strategy names this tag"))
}

/// What was collected is history once its image was removed, or stays for something else that holds it.
fn removed(change: &mut Change<'_>) -> Option<Step> {
    let (revision, because) =
        change.stream.kept.iter().find_map(|head| Some((head.release.revision, end(change, head)?)))?;
    change.departs(revision);
    let (from, to) = (format!("revision {revision} deprecated"), format!("revision {revision} removed"));
    Some(Step::recorded(from, to, because))
}

/// Why nothing is left to do about a collected release; none = its image is still to be removed.
fn end(change: &Change<'_>, head: &Head) -> Option<String> {
    if head.release.status != ReleaseStatus::Deprecated {
        return None;
    }
    let Some(asked) = &change.stream.settings.removal else {
        return Some("the stream has no removal hook".to_owned());
    };
    if let Some(holder) = image::holder_beside(&change.stream, head) {
        return Some(format!("its image is not removed with it: {holder}"));
    }
    let hooks = task::hooks(change.fleet, change.name, Purpose::Removal, asked, head);
    let done = matches!(hooks, Hooks::Done);
    done.then(|| "the removal hook succeeded on every node".to_owned())
}
