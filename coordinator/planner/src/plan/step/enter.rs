//! What entering a phase needs besides the phase before it: a person's approval where the spec asks for one, and,
//! for the roll, the stored waves and a raised ceiling.

use super::super::Draft;
use crate::fleet::ServiceFleet;
use crate::reason::Reason;
use crate::upgrade::phase::Move;
use crate::wave::{Drawn, draw, pages, redraw};
use tidegate_proto::Key;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::upgrade::Division;
use tidegate_proto::record::waves::WavePage;
use tidegate_proto::spec::{ApprovalPoint, Spec};

/// Whether the phase is approved, or needs no approval; waits otherwise.
pub(super) fn approved(draft: &mut Draft<'_>, point: ApprovalPoint) -> bool {
    let asked = draft.spec().approvals.contains(&point);
    let given = draft.upgrade.approvals.contains_key(&point);
    if asked && !given {
        draft.wait(Reason::Approval { point });
    }
    !asked || given
}

/// Enters the roll: the waves are drawn and stored, page by page, then one transaction raises the ceiling.
pub(super) fn roll(draft: &mut Draft<'_>, happened: Move, because: &str) {
    if !approved(draft, ApprovalPoint::Roll) {
        return;
    }
    let Some(service) = draft.service() else { return };
    let drawn = divide(draft.id, service, draft.spec());
    let wanted = pages(&drawn);
    if !store_pages(draft, &wanted) {
        return;
    }
    let spec = draft.spec();
    let extra = draft.window(Commit::new(), spec.from, spec.to);
    let division = Division { pages: wanted.len() as u32, sizes: drawn.sizes };
    draft.advance(happened, extra, move |body| body.waves = Some(division), because);
}

/// A wave that nobody is left in is drawn again from those that are not done.
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
    if store_pages(draft, &wanted) {
        let division = Division { pages: wanted.len() as u32, sizes: drawn.sizes };
        let because = format!("nobody was left in wave {}", wave + 1);
        draft.rewrite(
            Commit::new(),
            move |body| body.waves = Some(division),
            "draw again".to_owned(),
            "roll, waves drawn again",
            &because,
        );
    }
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

/// Whether the pages are stored as drawn; plans what is missing.
fn store_pages(draft: &mut Draft<'_>, wanted: &[WavePage]) -> bool {
    const PAGES_A_COMMIT: usize = 10;
    let stored: std::collections::BTreeMap<u32, _> = draft.fleet.wave_pages(draft.id).collect();
    let differs = |(number, page): &(u32, &WavePage)| {
        stored.get(number).is_none_or(|have| have.members != page.members)
    };
    let missing: Vec<(u32, &WavePage)> =
        wanted.iter().enumerate().map(|(n, page)| (n as u32, page)).filter(differs).collect();
    for batch in missing.chunks(PAGES_A_COMMIT) {
        let commit = batch.iter().fold(draft.commit(), |commit, (number, page)| {
            let key = Key::Waves(draft.id.clone(), *number);
            let at = stored.get(number).map_or(tidegate_proto::Revision::ABSENT, |have| have.at);
            commit.when(Precondition::At(key.clone(), at)).put(key, (*page).clone())
        });
        let phase = draft.upgrade.phase.name().word();
        draft.push(commit, "draw waves".to_owned(), phase, phase, "the fleet is divided into waves");
    }
    missing.is_empty()
}
