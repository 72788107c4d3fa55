//! Phases: one upgrade of a service at a time, and each phase follows the one before it, with its event, its approval and
//! what must be so at the end (rules 0, 9, 10 and 12).

use std::collections::BTreeMap;

use tidegate_proto::key::Subject;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::upgrade::{Phase, PhaseName, RollbackStep, Upgrade};
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Artifact, GateHop, Key, NodeId, ServiceVersion, UpgradeId};

use super::{Judge, is_an_operators_request};
use crate::trace::instance::Instance;

impl Judge<'_> {
    pub(super) fn one_upgrade_a_service(&mut self) {
        for (id, upgrade) in self.after.upgrades.iter().filter(|(_, upgrade)| !upgrade.phase.is_over()) {
            let active = self.after.active.get(&upgrade.spec.service);
            self.holds(9, active == Some(id), || format!("{id} goes on, and {active:?} has the lock"));
            let Some(schema) = upgrade.schema.as_ref().map(|schema| &schema.id) else { continue };
            let active = self.after.active_schemas.get(schema);
            self.holds(9, active == Some(id), || format!("{id} goes on, and {active:?} has {schema}"));
        }
        let services = self.after.active.iter().map(|(service, id)| (service.as_str(), id));
        let schemas = self.after.active_schemas.iter().map(|(schema, id)| (schema.as_str(), id));
        for (locked, id) in services.chain(schemas) {
            let over = self.after.upgrades.get(id).is_none_or(|upgrade| upgrade.phase.is_over());
            self.holds(9, !over, || format!("{locked} is locked by {id}, which has ended"));
        }
    }

    pub(super) fn upgrade(&mut self, id: &UpgradeId, upgrade: &Upgrade) {
        let former = self.before.upgrades.get(id);
        let moves = former.is_none_or(|former| former.phase != upgrade.phase);
        if moves {
            let from = former.map(|former| &former.phase);
            self.holds(9, follows(from, &upgrade.phase), || {
                format!("{id} went from {from:?} to {:?}", upgrade.phase)
            });
            let has_event = self.revision.writes.iter().any(
                |w| matches!(&w.key, Key::Event(Subject::Upgrade(of), _) if of == id && w.put.is_some()),
            );
            self.holds(0, has_event, || format!("{id} went to {} without an event", upgrade.phase));
            let asked = point(upgrade.phase.name()).filter(|point| upgrade.spec.approvals.contains(point));
            let approved = asked.is_none_or(|point| upgrade.approvals.contains_key(&point));
            self.holds(0, approved, || format!("{id} went to {} without an approval", upgrade.phase));
            self.gates(id, upgrade, former);
            self.wave_was_verified(id, upgrade, former);
            let paused = former.is_some_and(|former| former.paused.is_some());
            // A rollback out of preflight has nothing to go back from; only a person may ask for it then.
            let back = match upgrade.phase.name() {
                PhaseName::Failed => self.revision.writes.iter().any(is_an_operators_request),
                name => name == PhaseName::RollingBack,
            };
            self.holds(0, !paused || back, || format!("{id} went to {} while it was paused", upgrade.phase));
        }
        let window_moves =
            self.revision.writes.iter().any(|w| w.key == Key::Window(upgrade.spec.service.clone()));
        if moves || window_moves && !upgrade.phase.is_over() {
            self.window(id, upgrade, moves);
        }
        match &upgrade.phase {
            Phase::Migrate if moves => self.migrate_has_its_floors(id, upgrade),
            Phase::Roll { .. } if moves => self.roll_lowers_no_floor(id, upgrade),
            Phase::Contract { certificate } if moves => self.contract(id, upgrade, certificate),
            Phase::Completed if moves => self.all_serve(12, id, upgrade, upgrade.spec.to),
            Phase::RolledBack { .. } if moves => self.all_serve(10, id, upgrade, upgrade.spec.from),
            _ => {}
        }
    }

    /// Preflight is left forward with every verdict that the spec requires.
    fn gates(&mut self, id: &UpgradeId, upgrade: &Upgrade, former: Option<&Upgrade>) {
        let (phase, spec) = (upgrade.phase.name(), &upgrade.spec);
        let is_left = former.is_some_and(|former| former.phase.name() == PhaseName::Preflight);
        let is_back = matches!(phase, PhaseName::RollingBack | PhaseName::RolledBack | PhaseName::Failed);
        if !is_left || is_back {
            return;
        }
        let to = Artifact::from(&spec.target());
        for required in &spec.requires_gate {
            let is_it = |hop: &GateHop| {
                (&hop.service, hop.tag, hop.from.version, hop.to)
                    == (&spec.service, required.tag, spec.from, to)
            };
            let passed =
                self.before.verdicts.iter().any(|(hop, found)| is_it(hop) && *found == Verdict::Pass);
            let tag = required.tag;
            self.holds(0, passed, || format!("{id} went to {phase:?} without a pass of {tag}"));
        }
    }

    /// A wave is left when one of its instances serves at the new version: one in which all failed shows nothing. What joined
    /// later is in the last wave.
    fn wave_was_verified(&mut self, id: &UpgradeId, upgrade: &Upgrade, former: Option<&Upgrade>) {
        let Some(Phase::Roll { wave }) = former.map(|former| &former.phase) else { return };
        let goes_on =
            matches!(upgrade.phase.name(), PhaseName::Roll | PhaseName::Migrate | PhaseName::Remove);
        let Some(division) = upgrade.waves.as_ref().filter(|_| goes_on && !self.of_former_view) else {
            return;
        };
        let last = u32::try_from(division.sizes.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let pages = self.before.waves.get(id).into_iter().flat_map(|pages| pages.values());
        let drawn: BTreeMap<&NodeId, u32> =
            pages.flat_map(|page| page.members.iter().map(|(node, wave)| (node, *wave))).collect();
        let is_of_it = |node: &NodeId| drawn.get(node).map_or(last, |wave| (*wave).min(last)) == *wave;
        let (seen_up_to, to) = (self.seen_up_to(id), upgrade.spec.to);
        let known = |instance: &Instance| !instance.joined_after(seen_up_to);
        let of_it = || self.after.fleet(&upgrade.spec.service).filter(|(node, i)| is_of_it(node) && known(i));
        let verified = |(_, i): (&NodeId, &Instance)| i.serves(to) || i.served_after(seen_up_to, to);
        let holds = of_it().next().is_none() || of_it().any(verified);
        self.holds(12, holds, || {
            format!("{id} went to {}, and none of wave {wave} serves at {to}", upgrade.phase)
        });
    }

    /// Up to which revision everything was seen when a phase was left: that commit compares the upgrade's record.
    fn seen_up_to(&self, id: &UpgradeId) -> i64 {
        self.before.upgrade_written.get(id).map_or(self.known, |at| self.known.max(*at))
    }

    fn all_serve(&mut self, rule: u8, id: &UpgradeId, upgrade: &Upgrade, version: ServiceVersion) {
        if self.of_former_view {
            return;
        }
        // No coordinator had to know yet of an agent that was started again a moment ago, nor of an instance that served
        // at the version until then, or that joined since.
        let restarted =
            |node: &NodeId| self.agents.restarts.iter().any(|(of, at)| of == node && *at >= self.known);
        let seen_up_to = self.seen_up_to(id);
        let is_known = |node: &NodeId, instance: &Instance| {
            let fell_out = instance.fell_out_after(self.known) && restarted(node);
            !fell_out && !instance.served_after(seen_up_to, version) && !instance.joined_after(seen_up_to)
        };
        let fleet = self.after.fleet(&upgrade.spec.service).filter(|(_, instance)| !instance.serves(version));
        let others = fleet.filter(|(node, instance)| is_known(node, instance));
        let others: Vec<String> = others.map(|(node, _)| node.to_string()).collect();
        self.holds(rule, others.is_empty(), || {
            format!("{id} ended in {}, and {} do not serve at {version}", upgrade.phase, others.join(", "))
        });
    }
}

/// The approval that a phase may ask for.
fn point(phase: PhaseName) -> Option<ApprovalPoint> {
    Some(match phase {
        PhaseName::Stage => ApprovalPoint::Stage,
        PhaseName::Expand => ApprovalPoint::Expand,
        PhaseName::Migrate => ApprovalPoint::Migrate,
        PhaseName::Roll => ApprovalPoint::Roll,
        PhaseName::Remove => ApprovalPoint::Remove,
        PhaseName::Contract => ApprovalPoint::Contract,
        _ => return None,
    })
}

/// Whether there is such a move. Every phase is entered once; a roll goes on by one wave.
fn follows(from: Option<&Phase>, to: &Phase) -> bool {
    use PhaseName::{Contract, Expand, Failed, Migrate, Preflight, Remove, Roll, Stage};
    let Some(from) = from else { return to.name() == Preflight };
    match (from, to) {
        (Phase::Roll { wave }, Phase::Roll { wave: next }) => *next == wave + 1,
        (_, Phase::Roll { wave }) if *wave > 0 => false,
        (Phase::RollingBack { step, .. }, Phase::RollingBack { step: next, .. }) => matches!(
            (step, next),
            (RollbackStep::Restage, RollbackStep::Move)
                | (RollbackStep::Move, RollbackStep::Lower)
                | (RollbackStep::Lower, RollbackStep::Undo)
        ),
        (Phase::RollingBack { from: turned, step, .. }, Phase::RolledBack { .. }) => {
            *turned != Preflight && matches!(step, RollbackStep::Lower | RollbackStep::Undo)
        }
        // What a restored store has in preflight may have been expanded before.
        (Phase::RollingBack { from: turned, step, .. }, Phase::Failed { .. }) => {
            *turned == Preflight && *step == RollbackStep::Undo
        }
        (_, Phase::RollingBack { from: turned, step, .. }) => {
            let back = [Preflight, Stage, Expand, Migrate, Roll, Remove].contains(&from.name());
            let first = if *turned == Preflight { RollbackStep::Undo } else { RollbackStep::Restage };
            back && *turned == from.name() && *step == first
        }
        (_, Phase::Completed) => [Remove, Contract].contains(&from.name()),
        _ => [
            (Preflight, Stage),
            (Preflight, Failed),
            (Stage, Expand),
            (Stage, Roll),
            (Expand, Migrate),
            (Expand, Roll),
            (Migrate, Roll),
            (Roll, Migrate),
            (Migrate, Remove),
            (Roll, Remove),
            (Remove, Contract),
        ]
        .contains(&(from.name(), to.name())),
    }
}
