//! What entering a phase needs besides the phase before it: a person's approval where the spec asks for one, and,
//! for the roll, the stored waves and a raised ceiling.

use super::super::Draft;
use crate::fleet::ServiceFleet;
use crate::gate::person::approved;
use crate::upgrade::phase::Move;
use crate::wave::{Drawn, draw, pages, redraw};
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::upgrade::Division;
use tidegate_proto::record::waves::WavePage;
use tidegate_proto::spec::{ApprovalPoint, Spec};
use tidegate_proto::{Key, Revision};

/// Enters the roll: the waves are drawn and stored, page by page, then one transaction raises the ceiling.
pub(super) fn roll(draft: &mut Draft<'_>, happened: Move, because: &str) {
    if !draft.passes(approved(&draft.view(), ApprovalPoint::Roll)) {
        return;
    }
    let Some(service) = draft.service() else { return };
    let drawn = divide(draft.id, service, draft.spec());
    let wanted = pages(&drawn);
    let missing = page_changes(draft, &wanted);
    if !missing.is_empty() {
        return store_pages(draft, missing);
    }
    let extra = if is_above(service, draft.spec()) {
        Commit::new()
    } else {
        draft.window(Commit::new(), draft.spec().from, draft.spec().to)
    };
    let division = Division { pages: wanted.len() as u32, sizes: drawn.sizes };
    draft.advance(happened, extra, move |body| body.waves = Some(division), because);
}

/// Whether the floor is above `from`: reconciling a restored store raised it to what agents had obeyed. It admits `to`
/// already, and a contract that the store forgot, or a compute release, may need it: only a rollback lowers it.
fn is_above(service: &ServiceFleet, spec: &Spec) -> bool {
    service.window().is_some_and(|window| window.floor > spec.from)
}

/// Redraws an empty wave from the instances that are not done.
pub(super) fn roll_again(draft: &mut Draft<'_>, service: &ServiceFleet, wave: u32) {
    let Some(division) = &draft.upgrade.waves else { return };
    let last = (division.sizes.len() as u32).saturating_sub(1);
    let mut left: Vec<(u32, tidegate_proto::NodeId)> = Vec::new();
    let mut settled = Vec::new();
    for instance in service.instances() {
        let drawn = instance.wave.unwrap_or(last);
        if drawn > wave {
            left.push((drawn, instance.node.clone()))
        } else {
            settled.push((instance.node.clone(), drawn))
        }
    }
    left.sort_unstable();
    let drawn = redraw(settled, left.into_iter().map(|(_, node)| node).collect(), &division.sizes, wave);
    let wanted = pages(&drawn);
    let division = Division { pages: wanted.len() as u32, sizes: drawn.sizes };
    // The last page and the upgrade record are written in one transaction, so a wave is never stored in part.
    let mut changes = page_changes(draft, &wanted);
    let last = changes.pop().unwrap_or_default();
    store_pages(draft, changes);
    let because = format!("no instance was left in wave {}", wave + 1);
    draft.rewrite(
        last,
        move |body| body.waves = Some(division),
        "draw again".to_owned(),
        "roll, waves drawn again",
        &because,
    );
}

/// The fleet as it is now, divided.
fn divide(id: &tidegate_proto::UpgradeId, service: &ServiceFleet, spec: &Spec) -> Drawn {
    let domain = |i: &crate::fleet::Instance| {
        spec.failure_domain.as_deref().and_then(|label| i.label(label)).map(str::to_owned).unwrap_or_default()
    };
    let with: Vec<(tidegate_proto::NodeId, String)> =
        service.instances().map(|i| (i.node.clone(), domain(i))).collect();
    draw(id.as_str(), &spec.strategy, with.iter().map(|(node, domain)| (node, domain.as_str())))
}

/// What makes the stored pages those that are wanted, some at a time.
fn page_changes(draft: &Draft<'_>, wanted: &[WavePage]) -> Vec<Commit> {
    const PAGES_A_COMMIT: usize = 10;
    let stored: BTreeMap<u32, _> = draft.fleet.wave_pages(draft.id).collect();
    let have = |number: u32| stored.get(&number).map_or(Revision::ABSENT, |have| have.at);
    let differs = |(number, page): &(u32, &WavePage)| {
        stored.get(number).is_none_or(|have| have.members != page.members)
    };
    let put = (0..).zip(wanted).filter(differs).map(|(number, page)| (number, Some(page)));
    let removed = stored.keys().filter(|number| **number as usize >= wanted.len()).map(|n| (*n, None));
    let changes: Vec<(u32, Option<&WavePage>)> = put.chain(removed).collect();
    let commit = |changes: &[(u32, Option<&WavePage>)]| {
        changes.iter().fold(Commit::new(), |commit, (number, page)| {
            let key = Key::Waves(draft.id.clone(), *number);
            let commit = commit.when(Precondition::At(key.clone(), have(*number)));
            match page {
                Some(page) => commit.put(key, (*page).clone()),
                None => commit.delete(key),
            }
        })
    };
    changes.chunks(PAGES_A_COMMIT).map(commit).collect()
}

/// Plans these changes of pages.
fn store_pages(draft: &mut Draft<'_>, changes: Vec<Commit>) {
    let phase = draft.upgrade.phase.name().word();
    for change in changes {
        let commit = draft.commit().with(change);
        draft.push(commit, "draw waves".to_owned(), phase, phase, "the fleet is divided into waves");
    }
}
