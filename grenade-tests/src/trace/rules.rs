//! What must hold at each revision of a store, by the number of its rule in `docs/rules.md`.

use std::fmt;

use tidegate_proto::key::Subject;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Rotation;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName, RollbackStep, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Digest, Key, NodeId, ServiceVersion, UpgradeId, Value};

use super::seen::{Instance, Seen};
use super::{LIE, Revision, Written, releases};

/// Who sets a window when a restored store is reconciled.
pub(super) const RECONCILIATION: &str = "reconciliation";

/// Who sets the floor that compute releases need.
const BY_RELEASES: &str = "compute-releases";

/// Who sets a window by hand.
const BY_HAND: &str = "operator";

/// A rule that a revision broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The revision.
    pub at: i64,
    /// The rule's number; 0 is the fence, which holds for all of them.
    pub rule: u8,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, rule {}: {}", self.at, self.rule, self.what)
    }
}

/// One step from `before` to `after`.
pub(super) struct Judge<'a> {
    pub(super) before: &'a Seen,
    pub(super) revision: &'a Revision,
    pub(super) after: &'a Seen,
    restarts: &'a [(NodeId, i64)],
    /// The last revision that a coordinator had seen for certain when it wrote this one.
    known: i64,
    broken: Vec<Broken>,
}

pub(super) fn judge(
    before: &Seen,
    revision: &Revision,
    after: &Seen,
    restarts: &[(NodeId, i64)],
    known: i64,
) -> Vec<Broken> {
    let mut judge = Judge { before, revision, after, restarts, known, broken: Vec::new() };
    judge.only_a_leader_writes();
    judge.nothing_is_forgotten();
    judge.admitted_within_the_window();
    judge.reports();
    judge.capacity();
    judge.one_upgrade_a_service();
    releases::judge(&mut judge);
    for (id, upgrade) in &after.upgrades {
        judge.upgrade(id, upgrade);
    }
    judge.broken
}

impl Judge<'_> {
    pub(super) fn holds(&mut self, rule: u8, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(Broken { at: self.revision.number, rule, what: what() });
        }
    }

    /// What coordinators write is written under a leadership, and names it.
    fn only_a_leader_writes(&mut self) {
        let leader = self.before.leader.as_ref();
        for Written { key, put, .. } in &self.revision.writes {
            if matches!(
                key,
                Key::Report(..) | Key::Inventory(..) | Key::Leader | Key::Term(_) | Key::TaskResult(..)
            ) {
                continue;
            }
            self.holds(0, leader.is_some(), || format!("{key} was written while nobody led"));
            let Some(leader) = leader else { continue };
            match (key, put.as_ref().map(|put| &put.value)) {
                (Key::Directive(..), Some(Value::Directive(directive))) => {
                    let same = directive.body.term == leader.body.term;
                    self.holds(0, same, || format!("{key} bears the term of one who does not lead"));
                }
                (Key::Event(_, seq), _) => {
                    self.holds(0, seq.term == leader.revision, || format!("{key} is of another term"));
                }
                _ => {}
            }
        }
    }

    /// Events are appended, and what was admitted stays in the inventory.
    fn nothing_is_forgotten(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            match (key, put) {
                (Key::Event(..) | Key::Term(_), Some(put)) => {
                    let fresh = put.created == self.revision.number;
                    self.holds(0, fresh, || format!("{key} was written again"));
                }
                (Key::Event(..), None) => self.holds(0, false, || format!("{key} was removed")),
                (Key::Inventory(..), None) => self.holds(3, false, || format!("{key} was removed")),
                (Key::Window(_), None) => self.holds(2, false, || format!("{key} was removed")),
                _ => {}
            }
        }
    }

    fn admitted_within_the_window(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Inventory(service, _), Some(Value::Inventory(inventory))) =
                (key, put.as_ref().map(|put| &put.value))
            else {
                continue;
            };
            let window = self.before.windows.get(service).map(|window| &window.body);
            let version = inventory.body.version;
            let within = window.is_none_or(|window| window.admits(version)) || inventory.body.at == LIE;
            self.holds(2, within, || format!("{key} was admitted at {version}, the window is {window:?}"));
        }
    }

    /// What a report says was admitted since the one before it lapsed, and what an agent has told once it does not forget:
    /// it stands in its journal, unless that is lost as a whole.
    fn reports(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Report(service, node), Some(Value::Report(report))) =
                (key, put.as_ref().map(|put| &put.value))
            else {
                continue;
            };
            let Some(before) = self.before.instances.get(&(service.clone(), node.clone())) else { continue };
            let (report, lapsed) = (&report.body, before.lapsed);
            // One that names no admission counts for nothing until it does, and one that says another version than the
            // admitted one was refused: it counts at the lower of the two. So was one that is out of rotation at a version
            // outside the window that it has acknowledged: every gate that needs that window is closed for it.
            let says = |version| before.inventory.as_ref().is_some_and(|known| known.body.version == version);
            let is_outside = |version| {
                let window = self.before.windows.get(service);
                window.is_some_and(|at| at.revision == report.window.0 && !at.body.admits(version))
            };
            let refused = report.rotation == Rotation::Out && report.version.is_some_and(is_outside);
            let counts = report.version.is_some_and(says) && report.admission.exists() && !refused;
            let returns = before.report.is_none() && counts;
            let since = before.reported;
            let is_anew = |(of, at): &(NodeId, i64)| of == node && since <= *at && *at <= lapsed;
            let admitted = report.admission.0 > lapsed || self.restarts.iter().any(is_anew);
            self.holds(3, !returns || admitted, || {
                format!(
                    "{key} is back after it lapsed at {lapsed}, on the former admission {}",
                    report.admission
                )
            });
            let Some(last) = &before.last_report else { continue };
            let same = report.identity.nonce == last.identity.nonce
                && report.witness.reconciled == last.witness.reconciled;
            for (what, was, is) in
                [("directive", last.generation, report.generation), ("window", last.window, report.window)]
            {
                // What no store can have given was a lie, whatever comes after it.
                let was_told = was.0 <= self.revision.number;
                self.holds(1, !same || !was_told || is >= was || !is.exists(), || {
                    format!("{key} names {what} {is}, and has named {was} before")
                });
            }
        }
    }

    /// Whoever is taken out leaves as many as must stay, under the budget's key.
    fn capacity(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Directive(service, node), Some(put)) = (key, put) else { continue };
            if matches!(&put.value, Value::Directive(d) if matches!(d.body.disposition, Disposition::Serve { .. }))
            {
                // It lets in, and takes nothing out.
                continue;
            }
            let at = (service.clone(), node.clone());
            let serves = |seen: &Seen| seen.instances.get(&at).is_some_and(Instance::is_in_service);
            if !serves(self.before) || serves(self.after) {
                continue;
            }
            let taken = self.revision.writes.iter().any(|w| w.key == Key::Budget(service.clone()));
            self.holds(4, taken, || format!("{node} was taken out beside the budget"));
            let spec = self.after.active.get(service).and_then(|id| self.after.upgrades.get(id));
            let Some(spec) = spec.map(|upgrade| &upgrade.spec) else {
                self.holds(4, false, || format!("{node} was taken out by no upgrade"));
                continue;
            };
            let whole = self.after.fleet(service).count();
            // No coordinator had to know yet of those that fell out by themselves a moment ago.
            let fell_out = |(_, i): &(&NodeId, &Instance)| i.fell_out_after(self.known);
            let left = self.after.in_service(service) + self.after.fleet(service).filter(fell_out).count();
            let least = spec.min_in_service.rounded_up(whole);
            let (out, most) = (whole - left, spec.max_unavailable.rounded_down(whole).max(1));
            self.holds(4, left >= least, || format!("{left} serve after {node} was taken out, {least} must"));
            self.holds(4, out <= most, || format!("{out} are out after {node} was taken out, {most} may be"));
        }
    }

    fn one_upgrade_a_service(&mut self) {
        for (id, upgrade) in self.after.upgrades.iter().filter(|(_, upgrade)| !upgrade.phase.is_over()) {
            let active = self.after.active.get(&upgrade.spec.service);
            self.holds(9, active == Some(id), || format!("{id} goes on, and {active:?} has the lock"));
        }
        for (service, id) in &self.after.active {
            let over = self.after.upgrades.get(id).is_none_or(|upgrade| upgrade.phase.is_over());
            self.holds(9, !over, || format!("{service} is locked by {id}, which has ended"));
        }
    }

    fn upgrade(&mut self, id: &UpgradeId, upgrade: &Upgrade) {
        let former = self.before.upgrades.get(id);
        let moves = former.is_none_or(|former| former.phase != upgrade.phase);
        if moves {
            let from = former.map(|former| &former.phase);
            self.holds(9, follows(from, &upgrade.phase), || {
                format!("{id} went from {from:?} to {:?}", upgrade.phase)
            });
            let told = self.revision.writes.iter().any(
                |w| matches!(&w.key, Key::Event(Subject::Upgrade(of), _) if of == id && w.put.is_some()),
            );
            self.holds(0, told, || format!("{id} went to {} without an event", upgrade.phase));
            let asked = point(upgrade.phase.name()).filter(|point| upgrade.spec.approvals.contains(point));
            let approved = asked.is_none_or(|point| upgrade.approvals.contains_key(&point));
            self.holds(0, approved, || format!("{id} went to {} without an approval", upgrade.phase));
            let paused = former.is_some_and(|former| former.paused.is_some());
            // A rollback out of preflight has nothing to go back from; only a person may ask for it then.
            let back = match upgrade.phase.name() {
                PhaseName::Failed => self.revision.writes.iter().any(is_a_persons_word),
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
            Phase::Contract { certificate } if moves => self.contract(id, upgrade, certificate),
            Phase::Completed if moves => self.all_serve(12, id, upgrade, upgrade.spec.to),
            Phase::RolledBack { .. } if moves => self.all_serve(10, id, upgrade, upgrade.spec.from),
            _ => {}
        }
    }

    /// Whether a window has the floor that compute releases need, and nothing above.
    fn is_needed(&self, window: &Window) -> bool {
        let mut holders = self.after.needs.values().flat_map(|need| need.streams.values());
        window.ceiling == ServiceVersion::MAX && holders.any(|holder| holder.minimum == window.floor)
    }

    /// The window is the phase's.
    fn window(&mut self, id: &UpgradeId, upgrade: &Upgrade, moves: bool) {
        let (from, to) = (upgrade.spec.from, upgrade.spec.to);
        let late = upgrade.schema.as_ref().is_some_and(|schema| schema.order == MigrateOrder::AfterRoll);
        let stored = self.after.windows.get(&upgrade.spec.service).map(|at| &at.body);
        let is = |floor: ServiceVersion, ceiling: ServiceVersion| {
            stored.is_some_and(|window| window.floor == floor && window.ceiling == ceiling)
        };
        let set_by = stored.map(|window| window.set_by.as_str());
        let is_reconciled = matches!(set_by, Some(RECONCILIATION | BY_HAND));
        // A reconciled one also admits what instances claimed to run, until it is known that none does.
        let is_wide = |floor: ServiceVersion| {
            is_reconciled && stored.is_some_and(|w| w.floor == floor && w.ceiling > to)
        };
        let (rule, good) = match &upgrade.phase {
            Phase::Preflight | Phase::Failed { .. } => return,
            Phase::Migrate if late => (1, is(to, to) || is_wide(to)),
            // A restored store may know of less than its nodes did: the window then admits what they say that they run.
            Phase::Stage | Phase::Expand | Phase::Migrate => {
                (2, is(from, from) || is_reconciled && is(from, to) || is_wide(from))
            }
            // Or it was restored to before the floor was raised, which they hold to.
            Phase::Roll { .. } => {
                (2, is(from, to) || is_reconciled && is(to, to) || is_wide(from) || is_wide(to))
            }
            // What begins contract or ends has the window of the phase.
            Phase::Remove => (1, is(to, to) || is_wide(to)),
            Phase::Contract { .. } => (1, is(to, to) || is_wide(to) && !moves),
            Phase::Completed => (1, is(to, to)),
            // A person may reconcile the store in any of them, and the floor is withdrawn once more before the end.
            Phase::RollingBack { .. } if set_by == Some(RECONCILIATION) => return,
            Phase::RollingBack { step: RollbackStep::Lower | RollbackStep::Undo, .. } => (10, is(from, from)),
            Phase::RollingBack { .. } => (10, stored.is_some_and(|window| window.floor == from)),
            Phase::RolledBack { .. } => match upgrade.former.as_ref().and_then(|former| former.window) {
                Some((floor, ceiling)) => (10, is(floor, ceiling)),
                // A release that went out meanwhile has a floor of its own.
                None => (
                    10,
                    stored.is_none_or(|window| {
                        window.is_open() || set_by == Some(BY_RELEASES) || self.is_needed(window)
                    }),
                ),
            },
        };
        self.holds(rule, good, || format!("{id} is in {}, the window is {stored:?}", upgrade.phase));
    }

    /// The certificate is stored; nobody below the floor was seen, and everybody knows it.
    fn contract(&mut self, id: &UpgradeId, upgrade: &Upgrade, certificate: &Digest) {
        let pages = self.after.certificates.get(id);
        let text: String =
            pages.into_iter().flat_map(|pages| pages.values()).map(|p| p.text.as_str()).collect();
        self.holds(1, Digest::of(text.as_bytes()) == *certificate, || {
            format!("the certificate of {id} is not what contract was entered with")
        });
        let shared = upgrade.spec.schema.iter().flat_map(|schema| &schema.shared_with);
        for (service, needs) in std::iter::once((&upgrade.spec.service, &upgrade.spec.to)).chain(shared) {
            // Entering contract writes the window again, with what is contracted from now on: the floor is the former one.
            let window = self.before.windows.get(service);
            let (floor, at) = window.map_or((None, 0), |window| (Some(window.body.floor), window.revision));
            self.holds(1, floor.is_some_and(|floor| floor >= *needs), || {
                format!("{id} entered contract, the floor of {service} is {floor:?}, {needs} is needed")
            });
            let behind: Vec<String> = self
                .after
                .fleet(service)
                .filter(|(_, instance)| !is_beyond(instance, *needs, at))
                .map(|(node, _)| format!("{service}/{node}"))
                .collect();
            self.holds(1, behind.is_empty(), || {
                format!(
                    "{id} entered contract, and {} did not acknowledge the floor at {needs}",
                    behind.join(", ")
                )
            });
        }
    }

    fn all_serve(&mut self, rule: u8, id: &UpgradeId, upgrade: &Upgrade, version: ServiceVersion) {
        let others: Vec<String> = self
            .after
            .fleet(&upgrade.spec.service)
            .filter(|(_, instance)| !instance.serves(version))
            .map(|(node, _)| node.to_string())
            .collect();
        self.holds(rule, others.is_empty(), || {
            format!("{id} ended in {}, and {} do not serve at {version}", upgrade.phase, others.join(", "))
        });
    }
}

/// Whether an event of a person was written: coordinators write under a name of their own.
fn is_a_persons_word(written: &Written) -> bool {
    let value = written.put.as_ref().map(|put| &put.value);
    matches!(value, Some(Value::Event(event)) if event.body.who != "coordinator")
}

/// What an instance said last: at least this version, admitted, and the window of this revision acknowledged. A report
/// that is gone since is harmless, because a return needs an admission.
fn is_beyond(instance: &Instance, version: ServiceVersion, window: i64) -> bool {
    let (Some(report), Some(inventory)) = (&instance.last_report, &instance.inventory) else { return false };
    inventory.body.version >= version
        && report.admission.0 == inventory.revision
        // What ended since it was read for the certificate has no version now, and needs an admission to come back.
        && report.version.is_none_or(|running| running >= version)
        && report.window.0 == window
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
        (Phase::RollingBack { step, .. }, Phase::RolledBack { .. }) => {
            matches!(step, RollbackStep::Lower | RollbackStep::Undo)
        }
        (_, Phase::RollingBack { from: turned, step, .. }) => {
            let back = [Stage, Expand, Migrate, Roll, Remove].contains(&from.name());
            back && *turned == from.name() && *step == RollbackStep::Restage
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

#[cfg(test)]
mod tests {
    use super::super::{Put, Trace};
    use super::*;
    use tidegate_proto::Prefix;

    /// A history of one instance of version 1: admitted in revision 2, silent since 4, and back in revision 6 under the
    /// window of revision 5, which begins at version 2.
    fn comes_back(rotation: &str, window: i64) -> Trace {
        let report = |rotation: &str, window: i64| {
            format!(
                r#"{{"schema":1,"version":1,"admission":2,"rotation":"{rotation}","health":"healthy",
                    "step":{{"name":"drained"}},"window":{window},"identity":{{"nonce":"n","boot":"b"}}}}"#
            )
        };
        let admitted = r#"{"schema":1,"version":1,"identity":{"nonce":"n","boot":"b"},"at":1}"#.to_owned();
        let floor = |floor: u32| format!(r#"{{"schema":1,"floor":{floor},"ceiling":2,"set_by":"u1"}}"#);
        let writes = [
            (1, "windows/pantry", Some(floor(1))),
            (2, "inventory/pantry/n1", Some(admitted)),
            (3, "reports/pantry/n1", Some(report("in", 1))),
            (4, "reports/pantry/n1", None),
            (5, "windows/pantry", Some(floor(2))),
            (6, "reports/pantry/n1", Some(report(rotation, window))),
        ];
        let written = writes.into_iter().map(|(number, key, put)| {
            let path = format!("/tidegate/{key}");
            let key = Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
            let value = put.map(|text| Value::decode(&key, text.as_bytes()).unwrap());
            let (gone, put) = (value.is_none(), value.map(|value| Put { value, created: number }));
            Revision { number, writes: vec![Written { key, put, gone }] }
        });
        Trace { revisions: written.collect(), ..Trace::default() }
    }

    fn broke_rule_3(trace: &Trace) -> bool {
        trace.breaches().iter().any(|broken| broken.rule == 3 && broken.at == 6)
    }

    #[test]
    fn refused_drained_instance_is_not_back_on_its_former_admission() {
        assert!(!broke_rule_3(&comes_back("out", 5)));
        assert!(broke_rule_3(&comes_back("in", 5)), "it is in rotation below the floor, unadmitted");
        assert!(broke_rule_3(&comes_back("out", 1)), "it has not asked under the window that refuses it");
    }
}
