//! A made-up fleet in the middle of a roll, as the records that agents and coordinator would have written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tidegate_planner::{Fleet, Leading, Moment, ViewAge};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::directive::{Directive, Disposition, Drain, HealthTimes};
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::leader::Term;
use tidegate_proto::record::report::{Abilities, Health, Identity, Report, Rotation, Step, Witness};
use tidegate_proto::record::upgrade::{Division, Former, Phase, Upgrade};
use tidegate_proto::record::waves::{PAGE_MEMBERS, WavePage};
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::Spec;
use tidegate_proto::{
    Digest, Key, NodeId, Release, Revision, ServiceName, ServiceVersion, TermId, UpgradeId, Value,
};

/// Why the literals below can be parsed.
const LITERAL: &str = "a literal of this file";

/// The service.
pub fn service() -> ServiceName {
    "pantry-api".parse().expect(LITERAL)
}

/// The `n`th node.
pub fn node(n: usize) -> NodeId {
    format!("node-{n:06}").parse().expect(LITERAL)
}

/// The upgrade that is under way.
pub fn upgrade_id() -> UpgradeId {
    "bench".parse().expect(LITERAL)
}

fn term() -> TermId {
    "a-term".parse().expect(LITERAL)
}

/// The release with a version.
pub fn release(version: i64) -> Release {
    Release {
        tag: format!("pantry-{version}.0.0").parse().expect(LITERAL),
        sha256: Digest::of(format!("artifact {version}").as_bytes()),
        version: ServiceVersion::new(version).expect(LITERAL),
    }
}

fn identity(n: usize) -> Identity {
    Identity { nonce: format!("5f0c9a{n:026}"), boot: "7d5bb1f0-33a8-4b6f-9b1c-1df22c3a0a11".to_owned() }
}

/// The admission of a node at a version.
pub fn inventory(n: usize, version: i64) -> Inventory {
    Inventory {
        version: release(version).version,
        release: Some(release(version).tag),
        labels: [("zone".to_owned(), ["a", "b", "c"][n % 3].to_owned())].into(),
        identity: identity(n),
        at: Timestamp(1_790_000_000_000),
    }
}

/// The report of a node that serves at a version, under that admission.
pub fn report(n: usize, version: i64, admission: Revision) -> Report {
    Report {
        version: Some(release(version).version),
        probed: None,
        nothing_runs: false,
        never_admitted: false,
        release: Some(release(version).tag),
        release_digest: Some(release(version).sha256),
        admission,
        health: Health::Healthy,
        rotation: Rotation::In,
        step: Step::Serving,
        generation: Revision::ABSENT,
        declined: false,
        window: Revision::ABSENT,
        staged: vec![release(1).tag, release(2).tag],
        stage_failures: BTreeMap::new(),
        identity: identity(n),
        abilities: Abilities {
            replace: Some("process".into()),
            drain: Some("haproxy".into()),
            artifacts: vec![release(1).tag, release(2).tag],
            settle: None,
            ready_by_health: false,
            counts_nothing: false,
        },
        in_flight: None,
        witness: Witness::default(),
        fault: None,
        answers: None,
        balancers: Vec::new(),
        balancer_unreachable: None,
    }
}

/// What was asked for.
pub fn spec() -> Spec {
    serde_json::from_value(json!({
        "service": "pantry-api", "from": 1, "to": 2,
        "release": {"tag": release(2).tag, "sha256": release(2).sha256},
        "strategy": {"canary": {}}, "max_unavailable": 1,
    }))
    .expect(LITERAL)
}

fn directive(disposition: Disposition) -> Directive {
    Directive {
        upgrade: upgrade_id(),
        disposition,
        releases: vec![release(1), release(2)],
        drain: Drain::default(),
        health: HealthTimes::default(),
        term: term(),
        declared_stopped: false,
        presumes_out: false,
        after_decline: false,
    }
}

fn upgrade(size: usize) -> Upgrade {
    let spec = spec();
    Upgrade {
        digest: spec.digest(),
        spec: Box::new(spec),
        by: "bench".to_owned(),
        at: Timestamp(1_790_000_000_000),
        phase: Phase::Roll { wave: 1 },
        paused: None,
        approvals: BTreeMap::new(),
        former: Some(Former { release: release(1), window: None, window_set_by: None }),
        schema: None,
        certificate: None,
        waves: Some(Division { pages: size.div_ceil(PAGE_MEMBERS) as u32, sizes: vec![1, size as u32 - 1] }),
        failed: BTreeMap::new(),
        skipped: BTreeMap::new(),
        resumed: 0,
        stalled_ms: 0,
        phase_ms: 0,
        done: size as u32 / 2,
        timetable: Vec::new(),
    }
}

/// Which node of a fleet is draining: the one in the middle; every node before it is at version 2.
pub fn draining(size: usize) -> usize {
    size / 2
}

/// Every record of a fleet of `size` in the middle of its roll, in the order of keys, each with its mod_revision.
pub fn records(size: usize) -> Vec<(Key, Value, Revision)> {
    let mut records: Vec<(Key, Value)> = Vec::with_capacity(3 * size + size / PAGE_MEMBERS + 8);
    let version = |n: usize| if n < draining(size) { 2 } else { 1 };
    let at = |index: usize| Revision(index as i64 + 1);
    records.push((Key::Active(service()), Active { upgrade: upgrade_id() }.into()));
    for n in 0..size {
        let disposition = match n {
            _ if n == draining(size) => Disposition::Drain,
            _ if version(n) == 2 => Disposition::Replace { release: release(2) },
            _ => Disposition::Serve { returning: false },
        };
        records.push((Key::Directive(service(), node(n)), directive(disposition).into()));
    }
    let first = records.len();
    for n in 0..size {
        records.push((Key::Inventory(service(), node(n)), inventory(n, version(n)).into()));
    }
    for n in 0..size {
        let mut body = report(n, version(n), at(first + n));
        body.generation = at(1 + n);
        body.witness =
            Witness { term: Some(term()), floor: Some(release(1).version), reconciled: Revision::ABSENT };
        if n == draining(size) {
            (body.step, body.rotation) = (Step::Draining, Rotation::Leaving);
        }
        records.push((Key::Report(service(), node(n)), body.into()));
    }
    let led = Term { address: "http://bench.invalid".to_owned(), at: Timestamp(1_790_000_000_000) };
    records.push((Key::Term(term()), led.into()));
    records.push((Key::Upgrade(upgrade_id()), upgrade(size).into()));
    let members: Vec<_> = (0..size).map(|n| (node(n), u32::from(n > 0))).collect();
    for (page, members) in members.chunks(PAGE_MEMBERS).enumerate() {
        let page = Key::Waves(upgrade_id(), page as u32);
        records.push((page, WavePage { members: members.to_vec() }.into()));
    }
    let versions = (release(1).version, release(2).version);
    let window = Window { floor: versions.0, ceiling: versions.1, set_by: upgrade_id(), contracted: None };
    records.push((Key::Window(service()), window.into()));
    records.into_iter().enumerate().map(|(index, (key, value))| (key, value, at(index))).collect()
}

/// Every record of a fleet of `size` that is staging, with as much to do as there can be: every instance has its
/// directive, and none has the new release yet nor has acknowledged the window.
pub fn staging(size: usize) -> Vec<(Key, Value, Revision)> {
    let serve = || directive(Disposition::Serve { returning: false });
    let mut records = records(size);
    records.retain(|(key, _, _)| !matches!(key, Key::Waves(..)));
    for (_, value, _) in &mut records {
        match value {
            Value::Directive(record) => record.body = serve(),
            Value::Inventory(record) => {
                record.body.version = release(1).version;
                record.body.release = Some(release(1).tag);
            }
            Value::Report(record) => {
                let at_1 = report(0, 1, record.body.admission);
                record.body = Report {
                    identity: record.body.identity.clone(),
                    generation: record.body.generation,
                    staged: vec![release(1).tag],
                    ..at_1
                };
            }
            Value::Upgrade(record) => {
                record.body.phase = Phase::Stage;
                (record.body.waves, record.body.done) = (None, 0);
            }
            _ => {}
        }
    }
    records
}

/// The fleet of these records.
pub fn of(records: Vec<(Key, Value, Revision)>) -> Fleet {
    let mut fleet = Fleet::new();
    for (key, value, at) in records {
        fleet.put(key, Ok(value), at);
        fleet.set_revision(at);
    }
    fleet
}

/// A moment in which the roll goes on.
pub fn moment() -> Moment {
    Moment {
        leader: Leading { term: term(), revision: Revision(1) },
        wall: Timestamp(1_790_000_000_000),
        elapsed: BTreeMap::new(),
        next_event: 0,
        uncounted: BTreeMap::new(),
        group_uncounted: BTreeMap::new(),
        declined_ms: BTreeMap::new(),
        recalled_ms: BTreeMap::new(),
        leading_ms: 0,
        schemas: BTreeMap::new(),
        report_grace_left_ms: 0,
        view: ViewAge::default(),
        unanswered: BTreeSet::new(),
    }
}
