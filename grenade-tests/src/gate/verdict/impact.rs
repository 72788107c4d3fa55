//! Whether the tag zero-impact is earned.

use crate::gate::impact::control::moved;
use crate::gate::impact::{Impact, Upgraded};
use crate::gate::verdict::{Check, Evidence, Word, unfailed};

/// What the two pools showed, check by check.
pub(super) fn zero_impact(evidence: &Evidence<'_>) -> Vec<Check> {
    let Some(impact) = evidence.impact else {
        return vec![Check::new(PAIR, Word::Inconclusive, "no pools were compared")];
    };
    let mut checks = impact.fitness.clone();
    let Some(up) = &impact.upgraded else {
        let found = "nothing was upgraded: on this machine the judge cannot tell";
        checks.push(Check::new(PAIR, Word::Inconclusive, found));
        return checks;
    };
    checks.push(passes(up));
    checks.push(failures(evidence, impact, up));
    let [[_, before], [_, during]] = [impact.idle.series(), up.stretch.series()];
    let control = moved(&before, &during);
    let stands = control.verdict == Word::Pass;
    checks.push(control);
    let (look, most) = up.looks;
    checks.extend(up.checks.iter().cloned().map(|mut check| {
        check.found.push_str(&format!(" (look {look} of at most {most})"));
        if !stands {
            // What both pools felt may be the upgrade's.
            check.verdict = Word::Inconclusive;
        }
        check
    }));
    checks
}

const PAIR: &str = "one pool is upgraded beside its twin";

fn passes(up: &Upgraded) -> Check {
    let drains = up.stretch.drains_ms().len();
    match &up.stuck {
        Some(stuck) => Check::new(PAIR, Word::Fail, stuck.clone()),
        None => Check::new(PAIR, Word::Pass, format!("{} passes, {drains} drains", up.passes)),
    }
}

/// No request of the pool may fail where none of its twin does.
fn failures(evidence: &Evidence<'_>, impact: &Impact, up: &Upgraded) -> Check {
    let overloaded = impact.host().overloaded(&evidence.bounds);
    let mut check = unfailed("no request to the pool fails", &up.stretch.treated, overloaded);
    let twin = up.stretch.twin.iter().filter(|entry| !entry.is_ok()).count();
    if twin > 0 && check.verdict == Word::Fail {
        check.verdict = Word::Inconclusive;
    }
    check.found.push_str(&format!("; of the twin {twin} of {}", up.stretch.twin.len()));
    check
}
