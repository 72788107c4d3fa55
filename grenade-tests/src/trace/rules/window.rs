//! The window of a service is that of the phase (rules 1, 2 and 10).

use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName, RollbackStep, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::{ServiceVersion, UpgradeId};

use super::{Judge, RECONCILIATION};
use crate::trace::instance::At;
use crate::trace::seen::follows_needs;

/// Who sets a window by hand.
const BY_HAND: &str = "operator";

impl Judge<'_> {
    /// Whether the end of a rollback leaves the window as it was before the upgrade, or open where there was none, with the
    /// floor that compute releases need by now, up to the one that the rollback found. The commit compares the needs only
    /// where it lowers the floor: one that follows them may also be that of a need which has fallen since it was planned.
    fn is_put_back(&self, upgrade: &Upgrade) -> bool {
        let service = &upgrade.spec.service;
        let former = upgrade.former.as_ref().and_then(|former| former.window);
        let Some(now) = self.after.windows.get(service) else { return former.is_none() };
        let now = &now.body;
        let (floor, ceiling) = former.unwrap_or((ServiceVersion::ABSENT, ServiceVersion::MAX));
        let found = self.before.windows.get(service).map_or(floor, |window| window.body.floor);
        let need = self.after.needs.get(service);
        let highest = need.and_then(|need| need.highest());
        let lowest = highest.map_or(floor, |(_, holder)| floor.max(holder.minimum.min(found)));
        let was_needed = need.is_some() && follows_needs(now) && (lowest..=found).contains(&now.floor);
        now.ceiling == ceiling && (now.floor == lowest || was_needed)
    }

    /// A floor above the former version, which a reconciliation raised to what agents had obeyed, stays when the roll is
    /// entered: below it may be versions that a contract excludes.
    pub(super) fn roll_lowers_no_floor(&mut self, id: &UpgradeId, upgrade: &Upgrade) {
        let service = &upgrade.spec.service;
        let floor = |window: Option<&At<Window>>| window.map(|at| at.body.floor);
        let (before, after) =
            (floor(self.before.windows.get(service)), floor(self.after.windows.get(service)));
        self.holds(2, after >= before, || {
            format!("{id} went to {}, and the floor of {service} from {before:?} to {after:?}", upgrade.phase)
        });
    }

    /// Each floor that the migrations require is committed when migrate is entered. After a roll, the transaction that enters
    /// it raises the own one. A floor that follows what releases need is no evidence: beside it, nothing runs below.
    pub(super) fn migrate_has_its_floors(&mut self, id: &UpgradeId, upgrade: &Upgrade) {
        for (service, needs) in upgrade.schema.iter().flat_map(|schema| &schema.migrate_floors) {
            let window = self.after.windows.get(service).map(|at| &at.body);
            let is_enough = window.is_some_and(|window| window.floor >= *needs);
            let is_below = |version: ServiceVersion| version < *needs;
            let runs_below = window.is_some_and(follows_needs)
                && self.after.fleet(service).any(|(_, instance)| instance.version().is_some_and(is_below));
            self.holds(1, is_enough && !runs_below, || {
                format!("{id} entered migrate, the window of {service} is {window:?}, {needs} is needed")
            });
        }
    }

    /// The window is the phase's.
    pub(super) fn window(&mut self, id: &UpgradeId, upgrade: &Upgrade, moves: bool) {
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
        // What agents of a restored store claim: the versions that they say that they run, and the floor that they hold to.
        let is_claimed = |floor: ServiceVersion| is_reconciled && is(floor, to) || is_wide(floor);
        let (rule, good) = match &upgrade.phase {
            Phase::Preflight
            | Phase::Failed { .. }
            | Phase::RollingBack { from: PhaseName::Preflight, .. } => return,
            Phase::Migrate if late => (1, is(to, to) || is_wide(to)),
            // It may have been restored to before the roll, or to before the floor was raised.
            Phase::Stage | Phase::Expand | Phase::Migrate => {
                (2, is(from, from) || is_claimed(from) || is_claimed(to))
            }
            Phase::Roll { .. } => (2, is(from, to) || is_claimed(from) || is_claimed(to)),
            // What begins contract or ends has the window of the phase.
            Phase::Remove => (1, is(to, to) || is_wide(to)),
            Phase::Contract { .. } => (1, is(to, to) || is_wide(to) && !moves),
            Phase::Completed => (1, is(to, to)),
            // A person may reconcile the store in any of them, and the floor is withdrawn once more before the end.
            Phase::RollingBack { .. } if set_by == Some(RECONCILIATION) => return,
            Phase::RollingBack { step: RollbackStep::Lower | RollbackStep::Undo, .. } => (10, is(from, from)),
            Phase::RollingBack { .. } => (10, stored.is_some_and(|window| window.floor == from)),
            Phase::RolledBack { .. } => (10, self.is_put_back(upgrade)),
        };
        self.holds(rule, good, || format!("{id} is in {}, the window is {stored:?}", upgrade.phase));
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::seen::BY_RELEASES;
    use crate::trace::{Put, Revision, Trace, Written};
    use tidegate_proto::{ServiceVersion, Value};

    /// The record of an upgrade from version 1 to 2.
    fn upgrade(phase: &str) -> Written {
        let digest = "0".repeat(64);
        let text = format!(
            r#"{{"schema":3,"spec":{{"service":"pantry","from":1,"to":2,
                "release":{{"tag":"pantry-2","sha256":"{digest}"}}}},
                "digest":"{digest}","by":"op","at":1,"phase":{{{phase}}}}}"#
        );
        written("upgrades/u1", &text)
    }

    fn window(set_by: &str, limits: (u32, u32)) -> Written {
        window_of("pantry", set_by, limits)
    }

    fn window_of(service: &str, set_by: &str, (floor, ceiling): (u32, u32)) -> Written {
        let text = format!(r#"{{"schema":1,"floor":{floor},"ceiling":{ceiling},"set_by":"{set_by}"}}"#);
        written(&format!("windows/{service}"), &text)
    }

    fn written(key: &str, text: &str) -> Written {
        Written::of_text(key, Some(text), 1)
    }

    /// An instance of a service is admitted at a version in the first revision, and reports it.
    fn runs(service: &str, version: u32) -> [Written; 2] {
        let identity = r#""identity":{"nonce":"n","boot":"b"}"#;
        let inventory = format!(r#"{{"schema":1,"version":{version},{identity},"at":1}}"#);
        let report = format!(
            r#"{{"schema":1,"version":{version},"admission":1,"rotation":"in","health":"healthy",
                "step":{{"name":"serving"}},{identity}}}"#
        );
        [
            written(&format!("inventory/{service}/n1"), &inventory),
            written(&format!("reports/{service}/n1"), &report),
        ]
    }

    /// Whether the last of these revisions, which begin with 1, breaks a rule.
    fn last_breaks(rule: u8, all: Vec<Vec<Written>>) -> bool {
        let revisions: Vec<Revision> =
            all.into_iter().zip(1..).map(|(writes, number)| Revision { number, writes }).collect();
        let last = revisions.len() as i64;
        let trace = Trace { revisions, ..Trace::default() };
        trace.breaches().iter().any(|broken| broken.rule == rule && broken.at == last)
    }

    /// Whether a window breaks rule 2 while an upgrade from version 1 to 2 is in a phase.
    fn breaks(phase: &str, set_by: &str, limits: (u32, u32)) -> bool {
        let phase = format!(r#""name":"{phase}""#);
        last_breaks(2, vec![vec![upgrade(&phase)], vec![window(set_by, limits)]])
    }

    /// Whether rule 10 is broken where a rollback to version 2 ends with a window: `former` is the one before the upgrade,
    /// `needed` what a compute release needs at the end.
    fn ends_wrong(former: Option<(u32, u32)>, needed: Option<u32>, set_by: &str, limits: (u32, u32)) -> bool {
        let mut ended = upgrade(r#""name":"rolled-back","because":"it is bad""#);
        if let Some(Put { value: Value::Upgrade(record), .. }) = &mut ended.put {
            let (window, digest) = (serde_json::to_string(&former).unwrap(), "0".repeat(64));
            let release = format!(r#"{{"tag":"pantry-2","sha256":"{digest}","version":2}}"#);
            let text = format!(r#"{{"release":{release},"window":{window}}}"#);
            record.body.former = Some(serde_json::from_str(&text).unwrap());
            record.body.spec.from = ServiceVersion::new(2).unwrap();
            record.body.spec.to = ServiceVersion::new(3).unwrap();
        }
        let need = needed.map(|minimum| {
            let of = r#""revision":1,"tag":"compute-1","version":1,"hold":"deployed""#;
            let text = format!(r#"{{"schema":1,"streams":{{"compute":{{"minimum":{minimum},{of}}}}}}}"#);
            written("needs/pantry", &text)
        });
        let before = [window("u1", (2, 2))].into_iter().chain(need).collect();
        last_breaks(10, vec![before, vec![ended, window(set_by, limits)]])
    }

    #[test]
    fn rollback_leaves_the_floor_that_releases_need() {
        let max = ServiceVersion::MAX.get();
        for former in [None, Some((1, max))] {
            assert!(!ends_wrong(former, None, "u1", (1, max)), "{former:?}: as it was");
            for needed in [2, 3] {
                assert!(!ends_wrong(former, Some(needed), BY_RELEASES, (2, max)), "{former:?}: {needed}");
            }
            assert!(!ends_wrong(former, Some(1), BY_RELEASES, (2, max)), "{former:?}: the need has fallen");
            assert!(ends_wrong(former, Some(2), "u1", (1, max)), "{former:?}: below the need");
            assert!(ends_wrong(former, Some(2), BY_RELEASES, (1, max)), "{former:?}: that follows needs");
            assert!(ends_wrong(former, Some(1), "u1", (2, max)), "{former:?}: no need has that floor");
            assert!(ends_wrong(former, None, BY_RELEASES, (2, max)), "{former:?}: nothing is needed");
            assert!(ends_wrong(former, Some(3), BY_RELEASES, (3, max)), "{former:?}: what runs is refused");
            assert!(ends_wrong(former, Some(2), "u1", (2, 2)), "{former:?}: the ceiling stays");
        }
        assert!(!ends_wrong(Some((1, 2)), None, "operator", (1, 2)), "a person had set it");
        assert!(!ends_wrong(Some((1, 2)), Some(2), "operator", (2, 2)), "with the floor that is needed");
        assert!(ends_wrong(Some((1, 2)), None, "operator", (2, 2)), "no need has that floor");
    }

    #[test]
    fn roll_that_lowers_a_reconciled_floor_is_found() {
        let entered = |more: Option<Written>| {
            let roll = upgrade(r#""name":"roll","wave":0"#);
            let before = vec![upgrade(r#""name":"stage""#), window("reconciliation", (2, 2))];
            last_breaks(2, vec![before, [roll].into_iter().chain(more).collect()])
        };
        assert!(entered(Some(window("u1", (1, 2)))), "version 1 may come in again");
        assert!(!entered(None), "it stays as it was");
    }

    #[test]
    fn migrate_below_a_floor_that_it_requires_is_found() {
        let digest = "0".repeat(64);
        let binding = format!(
            r#"{{"id":"s1","migrations":"{digest}","order":"before-roll","old_reads_migrated":true,
                "migrate_floors":{{"larder":2}}}}"#
        );
        let entered = |larder: Vec<Written>| {
            let mut migrate = upgrade(r#""name":"migrate""#);
            if let Some(Put { value: Value::Upgrade(record), .. }) = &mut migrate.put {
                record.body.schema = Some(serde_json::from_str(&binding).unwrap());
            }
            let mut before = vec![upgrade(r#""name":"expand""#), window("u1", (1, 1))];
            before.extend(larder);
            last_breaks(1, vec![before, vec![migrate]])
        };
        let floor = |floor: u32| vec![window_of("larder", "u2", (floor, 2))];
        assert!(entered(floor(1)), "programs of version 1 may write past the fill");
        assert!(entered(Vec::new()), "every version is admitted");
        assert!(!entered(floor(2)));
        let needed_by_releases = |version: u32| -> Vec<Written> {
            let needed = window_of("larder", BY_RELEASES, (2, ServiceVersion::MAX.get()));
            [needed].into_iter().chain(runs("larder", version)).collect()
        };
        assert!(entered(needed_by_releases(1)), "that floor follows needs, whatever runs");
        assert!(!entered(needed_by_releases(2)));
    }

    #[test]
    fn reconciled_window_may_have_the_floor_that_agents_obeyed() {
        for phase in ["stage", "expand", "migrate"] {
            assert!(!breaks(phase, "u1", (1, 1)), "{phase}: its own window");
            assert!(breaks(phase, "u1", (2, 2)), "{phase}: no upgrade raises the floor before its roll");
            for window in [(1, 2), (2, 2), (1, 3), (2, 3)] {
                assert!(!breaks(phase, "reconciliation", window), "{phase}: {window:?} is what agents claim");
            }
            assert!(breaks(phase, "reconciliation", (3, 3)), "{phase}: it would not admit what is rolled to");
        }
    }
}
