//! How upgrades ended, and what they left: versions, objects of the load, resources of the survival check.
//!
//! What takes too long on a machine that cannot keep up is inconclusive. A failure that time does not explain is one on any
//! machine.

use std::collections::BTreeMap;

use crate::gate::deaths::Death;
use crate::gate::drive::Ended;
use crate::gate::late::Wrong;
use crate::gate::survival::Survived;
use crate::gate::upgrade::Upgraded;
use crate::gate::verdict::{Check, Word};
use crate::load::sweep::Sweep;
use tidegate_proto::printable::one_line;

/// A check that fails, unless it is for want of time on a machine that was overloaded.
pub(super) fn excused(check: &str, tried: Result<String, Wrong>, overloaded: Option<&str>) -> Check {
    match (tried, overloaded) {
        (Ok(found), _) => Check::new(check, Word::Pass, found),
        (Err(Wrong { what, of_time: true }), Some(why)) => {
            Check::new(check, Word::Inconclusive, format!("{what}; but {why}"))
        }
        (Err(Wrong { what, .. }), _) => Check::new(check, Word::Fail, what),
    }
}

/// Whether the resources of the survival check were there.
pub(super) fn survived(Survived { stage, wrong, of_time }: &Survived, overloaded: Option<&str>) -> Check {
    let wrong = wrong.clone().map(|what| Wrong { what, of_time: *of_time });
    let tried = wrong.map_or_else(|| Ok("verified".to_owned()), Err);
    excused(&format!("the resources of the survival check: {stage}"), tried, overloaded)
}

/// Whether every object of the load is as it was written; `None`: the load has none.
pub(super) fn stored(check: &str, up: &Upgraded, overloaded: Option<&str>) -> Option<Check> {
    Some(objects(check, up.sweep.as_ref()?, overloaded))
}

/// Whether the objects that were read again are as they were written.
pub(super) fn objects(check: &str, sweep: &Sweep, overloaded: Option<&str>) -> Check {
    let Sweep { read, wrong, unread } = sweep;
    let tried = match (wrong.first(), unread.first()) {
        (Some(first), _) => {
            Err(Wrong::of_service(format!("{} of {read} objects: first: {first}", wrong.len())))
        }
        (None, Some(first)) => {
            let what = format!("{} of {read} objects could not be read: first: {first}", unread.len());
            Err(Wrong { what, of_time: true })
        }
        (None, None) if *read == 0 => {
            return Check::new(check, Word::Inconclusive, "the load left no object that a step reads");
        }
        (None, None) => Ok(format!("all of {read} objects are as they were left")),
    };
    excused(check, tried, overloaded)
}

/// Whether an upgrade that was rolled back ended with every instance where it had been. That is known without a look at it:
/// the first one may have had no answer.
pub(super) fn back(check: &str, up: &Upgraded, overloaded: Option<&str>) -> Check {
    excused(check, went(up, "rolled-back", up.from), overloaded)
}

/// Whether an upgrade completed with every instance at the target, in rotation, and the service's own contract with it.
pub(super) fn completed(check: &str, up: &Upgraded, overloaded: Option<&str>) -> Check {
    let contracted = up.ended.contract.clone().map_or(Ok(()), Err);
    excused(check, contracted.and_then(|()| went(up, "completed", up.to)), overloaded)
}

/// Whether it ended so, and every instance is at the version that it should be at.
fn went(up: &Upgraded, right: &str, at: u32) -> Result<String, Wrong> {
    let Ended { word, because, phases, .. } = &up.ended;
    let phases: Vec<String> =
        phases.iter().map(|(phase, seconds)| format!("{phase} {seconds:.1} s")).collect();
    let (phases, died) = (phases.join(", "), died(&up.deaths));
    if word != right {
        let because = because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let what = format!("it ended {word}{because}; {phases}{died}");
        // A process that ended by itself is not slow.
        return Err(Wrong { what, of_time: up.deaths.is_empty() });
    }
    // What it says of itself is not enough.
    let last = last_seen(up);
    match last.iter().find(|(_, (version, serves))| !serves || *version != Some(at)) {
        Some((node, seen @ (version, _))) => {
            let what =
                format!("it says that it {}, but {node} is left {}{died}", verb(right), standing(seen));
            let is_elsewhere = version.is_some_and(|version| version != at);
            Err(Wrong { what, of_time: !is_elsewhere && up.deaths.is_empty() })
        }
        None if right == "completed" => Ok(phases),
        None => Ok(format!("all of {} instances are where they were", last.len())),
    }
}

fn verb(word: &str) -> &str {
    if word == "rolled-back" { "rolled back" } else { word }
}

/// The first process that ended unasked, with the last line of its log; empty: none did.
pub(super) fn died(deaths: &[Death]) -> String {
    let Some(first) = deaths.first() else { return String::new() };
    let last = first.log.lines().last().map(|line| format!(", its last line: {}", one_line(line)));
    let more = match deaths.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("; {}{}{more}", first.words(), last.unwrap_or_default())
}

/// What was seen last of each node: its version, and whether it is in rotation.
fn last_seen(up: &Upgraded) -> BTreeMap<&str, (Option<u32>, bool)> {
    up.changes.iter().map(|change| (change.node.as_str(), (change.version, change.in_rotation))).collect()
}

fn standing((version, serves): &(Option<u32>, bool)) -> String {
    let version = version.map_or("at no version".to_owned(), |version| format!("at version {version}"));
    if *serves { version } else { format!("{version}, out of rotation") }
}
