//! A metadata group (Heat): its members, what each instance is served, the state of an update, and what follows from
//! that.
//!
//! ```text
//!            exposed             signalled or timed out       the last batch
//!   set ──────────────► batch n ─────────────────────► batch n+1 ───────────────► finished
//!                          │ more failed than is borne
//!                          └──────────────────────────────────────────────────► returned
//! ```
//!
//! Everything that is counted follows from the records: the batches, each instance's signal, how long the last batch
//! has been exposed. So a new leader continues where the former one was.

use crate::fleet::{Fleet, Instance};
use crate::gate::metadata::{batch_passed, readable};
use crate::gate::{Reason, SignalledFailure};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::metadata::{TIMEOUT, UNNAMED};
use tidegate_proto::record::group::{DocumentVersion, ExposureUnknown, Group, GroupUpdate, Members, served};
use tidegate_proto::{GroupName, NodeId};

/// Who belongs to a group.
pub fn members<'a>(
    fleet: &'a Fleet,
    name: &'a GroupName,
    members: &'a Members,
) -> Box<dyn Iterator<Item = &'a NodeId> + 'a> {
    match members {
        Members::Service(service) => {
            let instances = fleet.service(service).into_iter().flat_map(|service| service.instances());
            Box::new(instances.filter(|instance| instance.counts()).map(|instance| &instance.node))
        }
        Members::Named => Box::new(fleet.named_members(name).into_iter().flat_map(|named| &named.instances)),
    }
}

/// Whether an instance belongs to a group.
pub fn is_member(fleet: &Fleet, name: &GroupName, group: &Group, node: &NodeId) -> bool {
    match &group.members {
        Members::Service(service) => {
            fleet.service(service).and_then(|service| service.get(node)).is_some_and(Instance::counts)
        }
        Members::Named => fleet.named_members(name).is_some_and(|named| named.instances.contains(node)),
    }
}

/// What an instance is served; none = there is no document for it yet.
///
/// # Errors
/// [`ExposureUnknown`] where its page of the update cannot be read: it may have been served the new document already.
pub fn document_of(
    fleet: &Fleet,
    name: &GroupName,
    group: &Group,
    node: &NodeId,
) -> Result<Option<DocumentVersion>, ExposureUnknown> {
    let pages = group.update.as_ref().map_or(0, |update| update.pages);
    let page = fleet.exposed_page_of(name, node, pages).map(|page| &page.record.body);
    served(group, page, node)
}

/// How many instances of an update are in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many are exposed.
    pub exposed: usize,
    /// Those that signalled success.
    pub succeeded: usize,
    /// Those that signalled a failure that counts, or nothing in time, where that counts; with the signal.
    pub failed: BTreeMap<NodeId, SignalledFailure>,
    /// How many failed in a way that is expected.
    pub expected_failures: usize,
    /// Those that are waited for.
    pub open: BTreeSet<NodeId>,
    /// How many of those that were drawn a person has decommissioned since: they are neither waited for nor counted.
    pub gone: usize,
}

/// Counts. `waited_ms` is how long the last batch has been exposed; the batches before it had their time.
pub fn tally(fleet: &Fleet, name: &GroupName, update: &GroupUpdate, waited_ms: u64) -> Tally {
    let mut tally = Tally::default();
    let members = fleet.group(name).map(|group| &group.members);
    let is_gone = |node: &NodeId| match members {
        Some(Members::Service(service)) => fleet
            .service(service)
            .and_then(|service| service.get(node))
            .is_none_or(|instance| !instance.counts()),
        _ => false,
    };
    let is_late = waited_ms >= update.terms.timeout.as_millis();
    let expects = |kind: &str| update.terms.expected.iter().any(|expected| expected.as_str() == kind);
    for (node, batch) in drawn(fleet, name, update).filter(|(_, batch)| *batch <= update.batch) {
        if is_gone(node) {
            tally.gone += 1;
            continue;
        }
        tally.exposed += 1;
        let failure = match fleet.group_word(name, update.to.generation, node) {
            Some(word) if word.success => {
                tally.succeeded += 1;
                continue;
            }
            Some(word) => SignalledFailure {
                kind: word.failure.as_ref().map_or(UNNAMED, |kind| kind.as_str()).to_owned(),
                why: word.why.clone(),
            },
            None if batch == update.batch && !is_late => {
                tally.open.insert(node.clone());
                continue;
            }
            None => SignalledFailure {
                kind: TIMEOUT.to_owned(),
                why: format!("no signal within {}", update.terms.timeout),
            },
        };
        if expects(&failure.kind) {
            tally.expected_failures += 1;
        } else {
            tally.failed.insert(node.clone(), failure);
        }
    }
    tally
}

/// Who was drawn for an update, with their batch, as far as the pages can be read.
pub fn drawn<'a>(
    fleet: &'a Fleet,
    name: &'a GroupName,
    update: &'a GroupUpdate,
) -> impl Iterator<Item = (&'a NodeId, u32)> {
    let pages = fleet.exposed_pages(name).map(|(_, page)| page);
    let ours = pages.filter(|page| page.generation == update.to.generation);
    ours.flat_map(|page| page.record.body.members.iter().map(|(node, batch)| (node, *batch)))
}

/// What follows from a tally.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The next batch is exposed.
    Expose,
    /// The new document is in effect for all.
    Finish(String),
    /// The former document is in effect for all again.
    Return(String),
    /// Not yet.
    Wait(Vec<Reason>),
}

/// What an update does next.
pub fn judge(fleet: &Fleet, name: &GroupName, update: &GroupUpdate, waited_ms: u64) -> Next {
    let readable = readable(fleet, name, update);
    if !readable.is_open {
        return Next::Wait(readable.reasons);
    }
    let tally = tally(fleet, name, update, waited_ms);
    let tolerated = update.terms.tolerate.rounded_down(update.drawn as usize);
    if tally.failed.len() > tolerated {
        return Next::Return(failures(&tally, update, tolerated));
    }
    let passed = batch_passed(update, &tally.open, waited_ms);
    if !passed.is_open {
        return Next::Wait(passed.reasons);
    }
    if update.batch + 1 < update.batches {
        return Next::Expose;
    }
    // Unmeasured is not success.
    if tally.succeeded == 0 {
        let expected = tally.expected_failures;
        return Next::Return(format!(
            "no instance signalled success ({expected} failed as expected, {} are gone): unmeasured is not success",
            tally.gone
        ));
    }
    Next::Finish(summary(&tally))
}

fn summary(tally: &Tally) -> String {
    let mut text = format!("{} of {} instances signalled success", tally.succeeded, tally.exposed);
    if !tally.failed.is_empty() {
        text.push_str(&format!("; {} failed, which is tolerated", tally.failed.len()));
    }
    if tally.expected_failures > 0 {
        text.push_str(&format!("; {} failed as expected", tally.expected_failures));
    }
    text
}

fn failures(tally: &Tally, update: &GroupUpdate, tolerated: usize) -> String {
    const NAMED: usize = 3;
    let named = tally.failed.iter().take(NAMED).map(|(node, failure)| match failure.why.as_str() {
        "" => format!("{node} ({})", failure.kind),
        why => format!("{node} ({}: {why:.100})", failure.kind),
    });
    let named: Vec<String> = named.collect();
    let more = match tally.failed.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{} of {} instances failed and {tolerated} are tolerated: {}{more}",
        tally.failed.len(),
        update.drawn,
        named.join(", ")
    )
}
