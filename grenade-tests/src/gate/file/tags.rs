//! What each asserted tag needs of the rest of a gate file.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_proto::GateTag;

use crate::gate::file::load::{Pace, Senders};
use crate::gate::written::{Arrangement, GateFile};
use crate::load::findings::Findings;
use crate::load::script::{Deed, ScriptStep};

/// A load before the upgrade that is shorter shows nothing.
const SHORTEST_CONTROL: Duration = Duration::from_millis(500);

/// What each tag needs of the rest.
pub(super) fn asserted(
    tags: &BTreeSet<GateTag>,
    arrangements: &[Arrangement],
    pace: &Pace,
    senders: &Senders,
    findings: &mut Findings,
) {
    if tags.is_empty() {
        let allowed = "supports-upgrade, rolling, zero-downtime and zero-impact are allowed";
        findings.add("tags", format!("there is none; {allowed}"));
    }
    if tags.contains(&GateTag::Rolling) && arrangements.is_empty() {
        findings.add("arrangements", "rolling needs at least one frozen mix");
    }
    if tags.contains(&GateTag::ZeroDowntime) && pace.before < SHORTEST_CONTROL {
        let needed = format!("at least {SHORTEST_CONTROL:?} is needed to see what the upgrade changed");
        findings.add("load.before", needed);
    }
    let reads = |step: &ScriptStep| step.deed == Deed::Reads && step.weight > 0;
    if tags.contains(&GateTag::Rolling)
        && senders.script.as_ref().is_some_and(|script| !script.steps.iter().any(reads))
    {
        let needed = "rolling needs a step with a weight that reads what another made (`uses`, with GET)";
        findings.add("load.steps", needed);
    }
}

/// The fields that are written for one tag alone, which the file does not assert.
pub(super) fn unused(tags: &BTreeSet<GateTag>, written: &GateFile) -> Vec<(&'static str, GateTag)> {
    let of_one_tag = [
        (written.arrangements.is_some(), "arrangements", GateTag::Rolling),
        (written.documented.is_some(), "documented", GateTag::SupportsUpgrade),
    ];
    let unused = of_one_tag.into_iter().filter(|(is_written, _, tag)| *is_written && !tags.contains(tag));
    unused.map(|(_, field, tag)| (field, tag)).collect()
}

/// The tags that the strongest asserted one presupposes and that are not asserted, the strongest of them first.
pub fn left_out(tags: &[GateTag]) -> Vec<GateTag> {
    let strongest = tags.iter().max();
    let is_left_out = |tag: &GateTag| Some(tag) < strongest && !tags.contains(tag);
    GateTag::ALL.into_iter().rev().filter(is_left_out).collect()
}

/// The same as a sentence; `None`: all are asserted.
pub fn presupposed(tags: &[GateTag]) -> Option<String> {
    let (strongest, left_out) = (tags.iter().max()?, left_out(tags));
    let words = left_out.into_iter().map(GateTag::word);
    let (last, others) =
        words.collect::<Vec<_>>().split_last().map(|(last, others)| (*last, others.join(", ")))?;
    let left_out = if others.is_empty() { last.to_owned() } else { format!("{others} and {last}") };
    Some(format!("{strongest} presupposes {left_out}, which this gate does not decide"))
}

/// What a load by command cannot show.
pub(super) fn of_command(
    tags: &BTreeSet<GateTag>,
    senders: &Senders,
    survives: bool,
    findings: &mut Findings,
) {
    if senders.command.is_none() {
        return;
    }
    let no_steps = !senders.has_steps;
    if tags.contains(&GateTag::Rolling) && no_steps {
        let needed = "rolling needs `load.steps`: only steps know what each version wrote, and read it through the other one; \
                      add steps beside `load.command`, or leave out the tag";
        findings.add("tags", needed);
    }
    if tags.contains(&GateTag::SupportsUpgrade) && no_steps && !survives {
        let needed = "supports-upgrade needs resources that are read again after the upgrade: add `load.steps` beside \
                      `load.command`, or `survival`, or leave out the tag";
        findings.add("tags", needed);
    }
    if tags.contains(&GateTag::ZeroImpact) {
        let needed = "zero-impact sends the same requests to two pools, and what `load.command` sends cannot be repeated; use \
                      `load.steps` in its place, or leave out the tag";
        findings.add("tags", needed);
    }
}
