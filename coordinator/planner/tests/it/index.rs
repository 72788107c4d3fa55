//! The index is what a count of every instance gives, whatever happened in which order; and a fleet that is loaded at
//! once is the one that grew record by record.

use crate::sim::{node, release, service, spec, upgrade_id};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use tidegate_planner::{Fleet, Instance, Known, Standing};
use tidegate_proto::key::Kind;
use tidegate_proto::record::upgrade::{Former, Phase, PhaseName, RollbackStep};
use tidegate_proto::{Key, NodeId, Revision, ServiceVersion, Value};

/// What happens to one key.
#[derive(Debug, Clone)]
enum Happening {
    Put(Key, Json),
    Garbage(Key),
    Gone(Key),
}

const NODES: usize = 9;

fn report() -> impl Strategy<Value = Json> {
    let staged = prop::sample::subsequence(vec!["pantry-1.0.0", "pantry-2.0.0", "stray"], 0..=3);
    let step = prop::sample::select(vec![
        json!({"name": "serving"}),
        json!({"name": "verifying"}),
        json!({"name": "draining"}),
        json!({"name": "drained"}),
        json!({"name": "failed", "at": "verifying", "reason": "never healthy"}),
    ]);
    let version = prop::sample::select(vec![json!(null), json!(1), json!(2)]);
    let rotation = prop::sample::select(vec!["in", "leaving", "returning", "unknown", "out", "maintenance"]);
    (staged, step, version, rotation, any::<bool>(), 0..4i64, 0..3i64, 0..4i64).prop_map(
        |(staged, step, version, rotation, failed, admission, window, generation)| {
            let failures = if failed { json!({"pantry-2.0.0": "no space"}) } else { json!({}) };
            json!({
                "schema": 1, "version": version, "admission": admission, "health": "healthy",
                "rotation": rotation, "step": step, "generation": generation, "window": window,
                "staged": staged, "release": staged.last(), "stage_failures": failures,
                "identity": {"nonce": "n", "boot": "b"},
            })
        },
    )
}

fn inventory() -> impl Strategy<Value = Json> {
    let labels = prop::sample::select(vec![json!({"zone": "a"}), json!({"zone": "b"}), json!({})]);
    (1..3, labels).prop_map(|(version, labels)| {
        json!({
            "schema": 1, "version": version, "labels": labels,
            "identity": {"nonce": "n", "boot": "b"}, "at": 0,
        })
    })
}

fn directive() -> impl Strategy<Value = Json> {
    let disposition = prop::sample::select(vec![
        json!({"name": "serve"}),
        json!({"name": "serve", "returning": true}),
        json!({"name": "drain"}),
        json!({"name": "replace", "release": release(2)}),
    ]);
    let releases = prop::sample::subsequence(vec![release(1), release(2)], 0..=2);
    (disposition, releases).prop_map(|(disposition, releases)| {
        json!({
            "schema": 1, "upgrade": upgrade_id(), "disposition": disposition, "releases": releases,
            "drain": {}, "health": {}, "term": "t",
        })
    })
}

fn back(step: RollbackStep) -> Phase {
    Phase::RollingBack { from: PhaseName::Roll, step, because: "why".to_owned() }
}

fn upgrade() -> impl Strategy<Value = Json> {
    let phase = prop::sample::select(vec![
        Phase::Preflight,
        Phase::Stage,
        Phase::Roll { wave: 1 },
        Phase::Remove,
        back(RollbackStep::Restage),
        back(RollbackStep::Lower),
        Phase::Completed,
    ]);
    phase.prop_map(|phase| {
        let spec = spec(json!({"failure_domain": "zone"}));
        let former = Former { release: release(1), window: None, window_set_by: None };
        json!({
            "schema": 1, "digest": spec.digest(), "spec": spec, "by": "op", "at": 0, "phase": phase,
            "former": former, "waves": {"pages": 1, "sizes": [1, 4, 4]},
        })
    })
}

/// Something about an instance, by the keys that it has.
fn of_an_instance() -> impl Strategy<Value = Happening> {
    let key = |kind: Kind, n: usize| {
        let make = match kind {
            Kind::Report => Key::Report,
            Kind::Inventory => Key::Inventory,
            Kind::Directive => Key::Directive,
            _ => Key::Decommission,
        };
        make(service(), node(n))
    };
    let kind =
        || prop::sample::select(vec![Kind::Report, Kind::Inventory, Kind::Directive, Kind::Decommission]);
    prop_oneof![
        8 => (0..NODES, report()).prop_map(move |(n, body)| Happening::Put(key(Kind::Report, n), body)),
        4 => (0..NODES, inventory()).prop_map(move |(n, body)| Happening::Put(key(Kind::Inventory, n), body)),
        4 => (0..NODES, directive()).prop_map(move |(n, body)| Happening::Put(key(Kind::Directive, n), body)),
        1 => (0..NODES, 0..4i64).prop_map(move |(n, admission)| {
            let word = json!({"schema": 1, "admission": admission, "who": "op", "why": "gone", "at": 0});
            Happening::Put(key(Kind::Decommission, n), word)
        }),
        2 => (kind(), 0..NODES).prop_map(move |(kind, n)| Happening::Gone(key(kind, n))),
        1 => (kind(), 0..NODES).prop_map(move |(kind, n)| Happening::Garbage(key(kind, n))),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let locked = Happening::Put(Key::Active(service()), json!({"schema": 1, "upgrade": upgrade_id()}));
    let cordon = json!({"schema": 1, "who": "op", "why": "disk", "at": 0});
    prop_oneof![
        30 => of_an_instance(),
        2 => upgrade().prop_map(|body| Happening::Put(Key::Upgrade(upgrade_id()), body)),
        1 => Just(locked),
        1 => Just(Happening::Gone(Key::Active(service()))),
        1 => (0..NODES).prop_map(move |n| Happening::Put(Key::Maintenance(node(n)), cordon.clone())),
        1 => (0..NODES).prop_map(|n| Happening::Gone(Key::Maintenance(node(n)))),
        1 => (1..3i64).prop_map(|ceiling| {
            let window = json!({"schema": 1, "floor": 1, "ceiling": ceiling, "set_by": upgrade_id()});
            Happening::Put(Key::Window(service()), window)
        }),
        3 => (0..2u32, prop::collection::vec((0..NODES, 0..3u32), 0..=NODES)).prop_map(|(page, waves)| {
            let members: Vec<_> = waves.into_iter().map(|(n, wave)| (node(n), wave)).collect();
            Happening::Put(Key::Waves(upgrade_id(), page), json!({"schema": 1, "members": members}))
        }),
        1 => of_all().prop_map(Happening::Gone),
        1 => of_all().prop_map(Happening::Garbage),
    ]
}

/// A key of the whole service.
fn of_all() -> impl Strategy<Value = Key> {
    prop::sample::select(vec![
        Key::Upgrade(upgrade_id()),
        Key::Active(service()),
        Key::Window(service()),
        Key::Maintenance(node(0)),
        Key::Waves(upgrade_id(), 0),
        Key::Waves(upgrade_id(), 1),
    ])
}

/// Everything that is asked of a fleet's index, by name.
fn answers(fleet: &Fleet) -> BTreeMap<&'static str, Vec<NodeId>> {
    let Some(pantry) = fleet.service(&service()) else { return BTreeMap::new() };
    let two = ServiceVersion::new(2).unwrap();
    let mut answers = BTreeMap::new();
    macro_rules! ask {
        ($($question:ident($($argument:expr),*)),* $(,)?) => {$(
            let those = pantry.$question($($argument),*);
            let names: Vec<NodeId> = those.each.map(|instance| instance.node.clone()).collect();
            assert_eq!(names.len(), those.count, "as many are counted as there are");
            answers.insert(stringify!($question($($argument),*)), names);
        )*};
    }
    ask!(
        silent(),
        unknown(),
        below(two),
        above(ServiceVersion::ABSENT),
        unacknowledged(),
        ordered(),
        misdirected(),
        unstaged(),
        unstaged_silent(),
        stage_failed(),
        stranded(),
        unreplaced(),
        cluttered(),
        standing(Standing::Ready, 1),
        standing(Standing::Unhealthy, 2),
        standing(Standing::OutOfRotation, 2),
        out(),
        standing(Standing::Silent, 2),
        standing(Standing::Cordoned, 2),
        standing(Standing::DisabledByPerson, 2),
        unlabelled_out(),
    );
    answers.insert("all", pantry.instances().map(|instance| instance.node.clone()).collect());
    answers
}

/// What a count of every instance gives, of some of the same questions.
fn counted(fleet: &Fleet) -> (usize, usize, usize) {
    let Some(pantry) = fleet.service(&service()) else { return (0, 0, 0) };
    let of = |is: &dyn Fn(&Instance) -> bool| pantry.instances().filter(|i| is(i)).count();
    (of(&|_| true), of(&|i| !i.is_in_service()), of(&|i| i.known() == Known::Silent))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn index_equals_recount_and_loaded_fleet_equals_grown(
        happenings in prop::collection::vec(happening(), 1..120),
    ) {
        let mut grown = Fleet::new();
        let mut stored = BTreeMap::new();
        for (at, happening) in happenings.into_iter().enumerate() {
            // Few revisions, so that reports do name admissions, windows and generations that there are.
            let at = Revision(at as i64 % 4);
            let (key, value) = match happening {
                Happening::Put(key, json) => {
                    let value = Value::decode(&key, json.to_string().as_bytes());
                    prop_assert!(value.is_ok(), "{key}: {value:?}");
                    (key, Some(value))
                }
                Happening::Garbage(key) => (key.clone(), Some(Value::decode(&key, b"garbage"))),
                Happening::Gone(key) => (key, None),
            };
            match value {
                Some(value) => {
                    stored.insert(key.clone(), (value.clone(), at));
                    grown.put(key, value, at);
                }
                None => {
                    stored.remove(&key);
                    grown.delete(&key);
                }
            }
            if let Some(pantry) = grown.service(&service()) {
                prop_assert!(pantry.index_is_true());
                prop_assert_eq!(counted(&grown), (pantry.len(), pantry.out().count, pantry.silent().count));
            }
        }
        let records = stored.into_iter().map(|(key, (value, at))| (key, value, at));
        let loaded = Fleet::load(records, Revision(1));
        if let Some(pantry) = loaded.service(&service()) {
            prop_assert!(pantry.index_is_true());
            prop_assert_eq!(answers(&loaded), answers(&grown));
        }
    }
}

/// Tests rely on it: a query for the first few returns the same names, in whatever order nodes came.
#[test]
fn groups_go_by_the_names_in_whatever_order_nodes_came() {
    let report = json!({"schema": 1, "version": 1, "identity": {"nonce": "n", "boot": "b"}});
    let mut fleet = Fleet::new();
    let names: Vec<NodeId> = (0..500).map(|n| format!("n{:03}", n * 7 % 500).parse().unwrap()).collect();
    for name in &names {
        let key = Key::Report(service(), name.clone());
        let value = Value::decode(&key, report.to_string().as_bytes());
        fleet.put(key, value, Revision(1));
    }
    let pantry = fleet.service(&service()).unwrap();
    let unknown: Vec<NodeId> = pantry.unknown().each.map(|instance| instance.node.clone()).collect();
    let mut sorted = names;
    sorted.sort();
    assert_eq!(unknown, sorted);
}
