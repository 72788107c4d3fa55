//! Every reason, as an operator reads it at three in the morning: what, who can end it, which command helps, and what
//! happens by itself.

use crate::sim::{node, release, service, upgrade_id};
use std::fmt::Write as _;
use tidegate_planner::{Cause, Causes, Reason, Sample};
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Revision, Span};

fn all() -> Vec<Reason> {
    let nodes = || Sample { first: vec![node(1), node(2)], count: 7 };
    let (service, tag, version) = (service(), release(2).tag, release(2).version);
    let cause = |n, why: &str| Cause { node: node(n), why: why.into(), failed: false };
    let out = || Causes {
        first: vec![cause(1, "node cordoned"), cause(2, "unhealthy: readiness URL fails")],
        count: 7,
    };
    let gave_up = Cause { node: node(3), why: "failed verifying: not ready".into(), failed: true };
    let failed = Causes { first: vec![gave_up], count: 1 };
    let deadline = Span::from_millis(60_000);
    let why = || "why".to_owned();
    vec![
        Reason::Silent { service: service.clone(), nodes: nodes() },
        Reason::VersionUnknown { service: service.clone(), nodes: nodes() },
        Reason::Unreadable { key: "windows/pantry-api".into(), why: "is not UTF-8".into() },
        Reason::Behind { service: service.clone(), nodes: nodes(), needs: version },
        Reason::Ahead { service: service.clone(), nodes: nodes(), allowed: version },
        Reason::Unacknowledged { service: service.clone(), nodes: nodes(), window: Revision(77) },
        Reason::Staging { release: tag.clone(), nodes: nodes() },
        Reason::StageFailed { node: node(1), release: tag, why: "the disk is full".into() },
        Reason::Removing { nodes: nodes() },
        Reason::Draining { nodes: nodes(), deadline },
        Reason::Replacing { nodes: nodes(), deadline },
        Reason::Returning { nodes: nodes() },
        Reason::NotServing { nodes: out() },
        Reason::Maintained { nodes: nodes() },
        Reason::Capacity { in_service: 4, required: 4, out: Causes::default() },
        Reason::Capacity { in_service: 4, required: 4, out: out() },
        Reason::Capacity { in_service: 1, required: 1, out: failed },
        Reason::Unavailable { allowed: 2, out: out() },
        Reason::Domain { domain: "zone-a".into(), out: out() },
        Reason::Held { nodes: nodes() },
        Reason::StoreRefused { what: "drain n1".into(), why: "etcdserver: request is too large".into() },
        Reason::Outside { service: service.clone(), window: "[2, 2]".into(), nodes: out() },
        Reason::Unlabelled { nodes: nodes() },
        Reason::Skipped { nodes: nodes() },
        Reason::Failed { node: node(1), why: "verifying: not healthy within 300 s of its start".into() },
        Reason::EmptyWave { wave: 0 },
        Reason::NoInstances { service: service.clone() },
        Reason::Stalled { for_ms: 600_000, deadline, out: out() },
        Reason::Preflight { finding: "what was found".into() },
        Reason::Approval { point: ApprovalPoint::Contract },
        Reason::Acceptance { why: "SQLite has no list of sessions".into() },
        Reason::Paused { who: "maria".into(), why: why(), way_back: true },
        Reason::Paused { who: "coordinator".into(), why: why(), way_back: false },
        Reason::Schema { job: "expand".into(), progress: "2 of 3 steps".into() },
        Reason::SchemaTrouble { job: "expand".into(), why: "connection refused".into() },
        Reason::SchemaLost {
            job: "expand".into(),
            from: release(1).version,
            to: release(2).version,
            way_back: true,
        },
        Reason::SchemaLost {
            job: "migrate".into(),
            from: release(1).version,
            to: release(2).version,
            way_back: false,
        },
        Reason::MigrateFloor {
            service: "scheduler".parse().unwrap(),
            floor: None,
            needs: release(2).version,
        },
        Reason::MigrateFloor {
            service: "scheduler".parse().unwrap(),
            floor: Some(release(1).version),
            needs: release(2).version,
        },
        Reason::Certificate { why: "pending_rows: 3 rows are not migrated".into() },
        Reason::NoWayBack { why: "there is no way back from contract".into() },
        Reason::ReleaseFailed { why: "12 computes told of failure".into(), overtaken: None },
        Reason::RollsBack { revision: tidegate_proto::ReleaseRevision::new(7).unwrap(), failed: false },
        Reason::RollsBack { revision: tidegate_proto::ReleaseRevision::new(7).unwrap(), failed: true },
        Reason::Disregarded { service, nodes: nodes() },
    ]
}

#[test]
fn each_says_who_what_helps_and_what_happens_by_itself() {
    let mut text = String::new();
    for reason in all() {
        let told = reason.for_people(&upgrade_id());
        writeln!(text, "{}: {}\n    who: {}", told.kind, told.what, told.who).unwrap();
        for (word, said) in [("helps", told.command), ("deadline", told.deadline)] {
            said.iter().for_each(|said| writeln!(text, "    {word}: {said}").unwrap());
        }
    }
    insta::assert_snapshot!(text);
}
