//! Every reason, as an operator reads it at three in the morning: what, who can end it, which command helps, and what
//! happens by itself.

use crate::sim::{later, node, release, service, upgrade_id};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tidegate_planner::gate::{
    BudgetGate, Inclusion, MissingForm, PersonGate, ReleaseGate, RollGate, SchemaGate, StoreGate,
    VerdictGate, VersionGate, Waits,
};
use tidegate_planner::{Cause, Causes, Reason, Sample};
use tidegate_proto::record::report::MAY_HAVE_STOPPED;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Artifact, Digest, GateHop, GateTag, Revision, ServiceVersion, Span};

const DEADLINE: Span = Span::from_millis(60_000);

fn nodes() -> Sample {
    Sample { first: vec![node(1), node(2)], count: 7 }
}

fn out() -> Causes {
    let cause = |n, why: &str| Cause {
        node: node(n),
        why: why.into(),
        failed: false,
        cordoned: n == 1,
        disabled: false,
        may_have_stopped: false,
    };
    Causes { first: vec![cause(1, "node cordoned"), cause(2, "unhealthy: readiness URL fails")], count: 7 }
}

fn failed(why: &str, may_have_stopped: bool) -> Causes {
    let (cordoned, disabled) = (false, false);
    let failed = Cause { node: node(3), why: why.into(), failed: true, cordoned, disabled, may_have_stopped };
    Causes { first: vec![failed], count: 1 }
}

fn all() -> Vec<Reason> {
    before_the_roll().into_iter().chain(in_the_roll()).chain(of_persons_schemas_and_releases()).collect()
}

fn unreadable(key: &str) -> Reason {
    Reason::Store(StoreGate::Unreadable { key: key.into(), why: "is not UTF-8".into() })
}

fn before_the_roll() -> Vec<Reason> {
    vec![
        Reason::Version(VersionGate::Silent { service: service(), nodes: nodes() }),
        Reason::Version(VersionGate::VersionUnknown { service: service(), nodes: nodes() }),
        Reason::Version(VersionGate::NothingRuns {
            service: service(),
            nodes: nodes(),
            above: release(1).version,
            deadline: DEADLINE,
        }),
        unreadable("windows/pantry-api"),
        unreadable("reports/pantry-api/n1"),
        unreadable("evidence/release-9057/release-8100"),
        Reason::Version(VersionGate::Behind {
            service: service(),
            nodes: nodes(),
            needs: release(2).version,
        }),
        Reason::Version(VersionGate::Ahead {
            service: service(),
            nodes: nodes(),
            allowed: release(2).version,
        }),
        Reason::Version(VersionGate::Unreplaced {
            service: service(),
            nodes: nodes(),
            release: release(2).tag,
        }),
        Reason::Version(VersionGate::Unacknowledged {
            service: service(),
            nodes: nodes(),
            window: Revision(77),
        }),
        Reason::Roll(RollGate::Staging { release: release(2).tag, nodes: nodes() }),
        Reason::Roll(RollGate::StageFailed {
            node: node(1),
            release: release(2).tag,
            why: "the disk is full".into(),
        }),
        Reason::Roll(RollGate::Removing { nodes: nodes() }),
    ]
}

fn in_the_roll() -> Vec<Reason> {
    vec![
        Reason::Roll(RollGate::Draining { nodes: nodes(), deadline: DEADLINE }),
        Reason::Roll(RollGate::Replacing { nodes: nodes(), deadline: DEADLINE }),
        Reason::Roll(RollGate::Returning { nodes: nodes() }),
        Reason::Roll(RollGate::NotServing { nodes: out() }),
        Reason::Roll(RollGate::Maintenance { nodes: nodes() }),
        Reason::Roll(RollGate::Declined { nodes: nodes(), rest: Span::from_millis(5_000) }),
        Reason::Roll(RollGate::Recalled { nodes: nodes(), rest: Span::from_millis(5_000) }),
        Reason::Budget(BudgetGate::Capacity { in_service: 4, required: 4, out: Causes::default() }),
        Reason::Budget(BudgetGate::Capacity { in_service: 4, required: 4, out: out() }),
        Reason::Budget(BudgetGate::Capacity {
            in_service: 1,
            required: 1,
            out: failed("failed verifying: not ready", false),
        }),
        Reason::Budget(BudgetGate::Capacity {
            in_service: 1,
            required: 1,
            out: failed("failed draining: requests in flight could not be counted after 30s", true),
        }),
        Reason::Budget(BudgetGate::Unavailable { allowed: 2, out: out() }),
        Reason::Budget(BudgetGate::Domain { domain: "zone-a".into(), out: out() }),
        Reason::Budget(BudgetGate::Held { nodes: nodes() }),
        Reason::Store(StoreGate::StoreRefused {
            what: "drain n1".into(),
            why: "etcdserver: request is too large".into(),
        }),
        Reason::Budget(BudgetGate::Outside { service: service(), window: "[2, 2]".into(), nodes: out() }),
        Reason::Budget(BudgetGate::CapacityUnknown {
            service: service(),
            window: "[2, 2]".into(),
            nodes: out(),
        }),
        Reason::Budget(BudgetGate::Unlabelled { nodes: nodes() }),
        Reason::Roll(RollGate::Skipped { nodes: nodes() }),
        Reason::Roll(RollGate::Failed {
            node: node(1),
            why: "verifying: not healthy within 300 s of its start".into(),
        }),
        Reason::Roll(RollGate::Failed {
            node: node(1),
            why: format!("draining: requests in flight could not be counted after 30s; {MAY_HAVE_STOPPED}"),
        }),
        Reason::Roll(RollGate::EmptyWave { wave: 0, rollback_path: true }),
        Reason::Roll(RollGate::EmptyWave { wave: 0, rollback_path: false }),
        Reason::Version(VersionGate::NoInstances { service: service() }),
        stalled(true),
        stalled(false),
    ]
}

fn stalled(rollback_path: bool) -> Reason {
    Reason::Roll(RollGate::Stalled { for_ms: 600_000, deadline: DEADLINE, out: out(), rollback_path })
}

fn of_persons_schemas_and_releases() -> Vec<Reason> {
    vec![
        Reason::Person(PersonGate::Preflight { finding: "what was found".into(), until: None }),
        Reason::Person(PersonGate::Preflight {
            finding: "what was found".into(),
            until: Some("upgrade of-scheduler is over".into()),
        }),
        Reason::Person(PersonGate::Approval { point: ApprovalPoint::Contract }),
        Reason::Person(PersonGate::Acceptance { why: "SQLite has no list of sessions".into() }),
        Reason::Person(PersonGate::Paused { who: "maria".into(), why: "why".into(), rollback_path: true }),
        Reason::Person(PersonGate::Paused {
            who: "coordinator".into(),
            why: "why".into(),
            rollback_path: false,
        }),
        Reason::Schema(SchemaGate::Schema { job: "expand".into(), progress: "2 of 3 steps".into() }),
        Reason::Schema(SchemaGate::SchemaTrouble { job: "expand".into(), why: "connection refused".into() }),
        Reason::Schema(SchemaGate::SchemaLost {
            job: "expand".into(),
            from: release(1).version,
            to: release(2).version,
            from_env: "PANTRY".into(),
            rollback_path: true,
        }),
        Reason::Schema(SchemaGate::SchemaLost {
            job: "migrate".into(),
            from: release(1).version,
            to: release(2).version,
            from_env: "PANTRY".into(),
            rollback_path: false,
        }),
        Reason::Schema(SchemaGate::BaselineLost {
            from: release(1).version,
            from_env: "PANTRY".into(),
            unfinished: "migration 0001_it is not migrated".into(),
        }),
        shared_form(MissingForm::Lost, true),
        shared_form(MissingForm::RollingBack, true),
        shared_form(MissingForm::RolledBack, true),
        shared_form(MissingForm::RolledBack, false),
        shared_rollback(),
        Reason::Schema(SchemaGate::Unfenced { service: service(), nodes: nodes() }),
        later_contract(false),
        later_contract(true),
        migrate_floor(None, None),
        migrate_floor(Some(release(1).version), None),
        migrate_floor(Some(release(1).version), Some(ServiceVersion::MAX)),
        Reason::Schema(SchemaGate::Certificate { why: "pending_rows: 3 rows are not migrated".into() }),
        Reason::Person(PersonGate::NoRollback {
            why: "contract has started and has dropped what the old version needs".into(),
        }),
        Reason::Release(ReleaseGate::ReleaseFailed {
            why: "12 computes signalled failure".into(),
            overtaken: None,
        }),
        Reason::Release(ReleaseGate::RollsBack {
            revision: tidegate_proto::ReleaseRevision::new(7).unwrap(),
            failed: false,
        }),
        Reason::Release(ReleaseGate::RollsBack {
            revision: tidegate_proto::ReleaseRevision::new(7).unwrap(),
            failed: true,
        }),
        gate(None, Digest::of(b"artifact 1")),
        gate(Some("fail".into()), Digest::ABSENT),
        disregarded(Inclusion::Open),
        disregarded(Inclusion::Widens(release(3).version)),
        disregarded(outside_and_disregarded(3, 1, false)),
        disregarded(outside_and_disregarded(1, 2, true)),
        disregarded(Inclusion::NeedsVersion),
        disregarded(Inclusion::Impossible),
    ]
}

fn outside_and_disregarded(runs: i64, floor: i64, rolled_back: bool) -> Inclusion {
    let (version, floor, ceiling) = (release(runs).version, release(floor).version, release(2).version);
    Inclusion::Outside { version, floor, ceiling, rolled_back }
}

fn disregarded(inclusion: Inclusion) -> Reason {
    Reason::Store(StoreGate::Disregarded { service: service(), nodes: nodes(), inclusion })
}

fn shared_form(missing: MissingForm, rollback_path: bool) -> Reason {
    let upgrade = "of-scheduler".parse().unwrap();
    Reason::Schema(SchemaGate::SharedForm { upgrade, version: release(2).version, missing, rollback_path })
}

fn shared_rollback() -> Reason {
    let (upgrade, service) = ("of-scheduler".parse().unwrap(), "scheduler".parse().unwrap());
    Reason::Schema(SchemaGate::SharedRollback { upgrade, service, version: release(2).version })
}

fn later_contract(rollback_path: bool) -> Reason {
    let contract = later().to_string();
    Reason::Schema(SchemaGate::LaterContract { upgrade: upgrade_id(), contract, rollback_path })
}

fn migrate_floor(floor: Option<ServiceVersion>, by_hand: Option<ServiceVersion>) -> Reason {
    let (service, needs) = ("scheduler".parse().unwrap(), release(2).version);
    Reason::Schema(SchemaGate::MigrateFloor { service, floor, needs, by_hand })
}

fn gate(found: Option<String>, from: Digest) -> Reason {
    let from = Artifact { sha256: from, ..Artifact::from(&release(1)) };
    let (to, tag) = (Artifact::from(&release(2)), GateTag::ZeroDowntime);
    let hop = Box::new(GateHop { service: service(), tag, from, to });
    Reason::Verdict(VerdictGate::GateVerdict { hop, found })
}

#[test]
fn each_reason_has_an_owner_a_next_step_and_a_timeout() {
    let mut text = String::new();
    for reason in all() {
        let reported = reason.explained(Waits::Upgrade(&upgrade_id()));
        writeln!(text, "{}: {}\n    owner: {}", reported.kind, reported.blocked_on, reported.owner).unwrap();
        for (word, said) in [("next step", reported.next_step), ("timeout", reported.timeout)] {
            said.iter().for_each(|said| writeln!(text, "    {word}: {said}").unwrap());
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn operator_guide_has_a_row_for_each_kind_of_reason() {
    let guide = include_str!("../../../../docs/operator-guide.md");
    let cells = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let named: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`')).collect();
    let kinds: BTreeSet<&str> = all().iter().map(Reason::kind).collect();
    let missing: Vec<_> = kinds.difference(&named).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
