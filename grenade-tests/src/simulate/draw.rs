//! Draws a scenario from a seed.

use super::dice::Dice;
use super::metadata_plan;
use super::scenario::{
    Change, Fault, Generation, ReleasePlan, Scenario, SchemaPlan, ServicePlan, UpgradePlan, What,
};
use super::slot::Hiccup;
use super::stream_plan;
use serde_json::json;
use tidegate_proto::GateTag;

/// The phases in which something can happen.
pub const PHASES: [&str; 8] =
    ["preflight", "stage", "expand", "migrate", "roll", "remove", "contract", "rolling-back"];

/// In which phases faults are drawn, with their weights for an upgrade that changes a schema and for one that does not: the
/// phases that are short, or that many upgrades never reach, weigh more.
const WEIGHTS: [(&str, usize, usize); 8] = [
    ("preflight", 5, 4),
    ("stage", 7, 4),
    ("expand", 8, 0),
    ("migrate", 10, 0),
    ("roll", 7, 8),
    ("remove", 10, 6),
    ("contract", 13, 0),
    ("rolling-back", 6, 5),
];

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut dice = Dice::of(seed, "world");
    // Small ones find most and cost least; one in a hundred is large.
    let nodes = match dice.below(100) {
        0 => dice.within(13, 40),
        1..=8 => dice.within(7, 12),
        _ => dice.within(1, 5),
    };
    let spare = if dice.percent(30) { dice.within(1, 2) } else { 0 };
    let zones =
        (0..nodes + spare).map(|node| ["a", "b", "c"][usize::try_from(node % 3).unwrap_or(0)].to_owned());
    let mut zones: Vec<String> = zones.collect();
    let mut schemas: Vec<SchemaPlan> = (0..dice.within(1, 2)).map(|_| schema(&mut dice)).collect();
    made_by_hand(&mut Dice::of(seed, "baseline"), &mut schemas);
    let count = match dice.below(20) {
        0..=14 => 1,
        15..=18 => 2,
        _ => 3,
    };
    let mut services: Vec<ServicePlan> = Vec::new();
    for n in 0..count {
        let own = (n < schemas.len() && dice.percent(75)).then_some(n);
        // The first schema is shared as often as not.
        let first = services.first().and_then(|first| first.schema);
        let schema = if n > 0 && dice.percent(45) { first.or(own) } else { own };
        services.push(service(&mut dice, n, (nodes, spare), schema));
    }
    let mut upgrades = Vec::new();
    for (place, service) in services.iter().enumerate() {
        let (before, hops) = match service.schema.map(|schema| &schemas[schema]) {
            Some(schema) => (schema.contracted, schema.generations.len() - schema.contracted),
            None => (0, 1 + usize::from(dice.percent(20))),
        };
        // What shares a schema goes as far as that goes.
        let shares = services[..place].iter().any(|other| other.schema == service.schema);
        let changes = service.schema.is_some() && !shares;
        for hop in 0..hops.min(if place == 0 || service.schema == services[0].schema { 4 } else { 1 }) {
            let from = u32::try_from(before + hop + 1).unwrap_or(1);
            upgrades.push(upgrade(&mut dice, place, from, (service, changes)));
        }
    }
    let mut gates = Dice::of(seed, "gates");
    upgrades.iter_mut().for_each(|upgrade| upgrade.requires_gate = required(&mut gates));
    let coordinators = if dice.percent(40) { 2 } else { 1 };
    let mut faults = faults(&mut Dice::of(seed, "mishaps"), &upgrades, &services);
    faults.extend(operators(&mut Dice::of(seed, "persons"), &upgrades, &services));
    let joins = faults.iter().any(|fault| matches!(fault.what, What::NodeJoins(_)));
    if joins && services.iter().all(|service| service.late.is_empty()) {
        services[0].late.push(zones.len());
        zones.push("b".to_owned());
    }
    let stream = stream_plan::draw(&mut Dice::of(seed, "streams"), &services);
    let metadata = metadata_plan::draw(&mut Dice::of(seed, "metadata"), &services);
    Scenario {
        seed,
        zones,
        services,
        schemas,
        coordinators,
        upgrades,
        faults,
        plan: Vec::new(),
        falsify: None,
        stream,
        metadata,
    }
}

/// The same with no other kinds of faults than these; none = all.
///
/// # Errors
/// Where none is drawn that has one of these kinds.
pub fn scenario_with(seed: u64, kinds: &[String]) -> anyhow::Result<Scenario> {
    let mut drawn = scenario(seed);
    let mut dice = Dice::of(seed, "kinds");
    for fault in drawn.faults.iter_mut().filter(|_| !kinds.is_empty()) {
        let node = usize::try_from(dice.below(40)).unwrap_or(0);
        let mut some = self::kinds(node);
        some.retain(|what| kinds.contains(&what.kind()));
        let picked = dice.pick(&some).cloned();
        fault.what = picked.ok_or_else(|| anyhow::anyhow!("no fault is drawn of the kinds {kinds:?}"))?;
    }
    Ok(drawn)
}

fn schema(dice: &mut Dice) -> SchemaPlan {
    let count = *dice.pick(&[1, 1, 1, 1, 1, 2, 2, 3, 4]).unwrap_or(&1);
    let generations = (0..count).map(|_| Generation {
        change: if dice.percent(70) { Change::Rename } else { Change::Add },
        old_reads: dice.percent(80),
        after_roll: dice.percent(30),
        others_first: dice.percent(30),
        irreversible: dice.percent(15),
    });
    let generations: Vec<Generation> = generations.collect();
    let contracted = if dice.percent(25) { dice.below(generations.len() as u64) } else { 0 };
    let contracted = usize::try_from(contracted).unwrap_or(0);
    SchemaPlan { generations, rows: dice.within(0, 40), contracted, by_hand: false }
}

/// Half of what was there before Tidegate's first upgrade was made by hand.
fn made_by_hand(dice: &mut Dice, schemas: &mut [SchemaPlan]) {
    for schema in schemas.iter_mut().filter(|schema| schema.contracted > 0) {
        if dice.percent(50) {
            schema.by_hand = true;
            for generation in &mut schema.generations[..schema.contracted] {
                (generation.change, generation.irreversible) = (Change::Add, false);
            }
        }
    }
}

fn service(dice: &mut Dice, place: usize, (nodes, spare): (u64, u64), schema: Option<usize>) -> ServicePlan {
    let number = |n: u64| usize::try_from(n).unwrap_or(0);
    let late = (nodes..nodes + spare).map(number).filter(|_| place == 0 || dice.percent(50)).collect();
    let all: Vec<usize> = (0..usize::try_from(nodes).unwrap_or(1)).collect();
    let nodes = match place {
        0 => all,
        // The others run on some of them.
        _ => all.into_iter().filter(|_| dice.percent(60)).collect(),
    };
    let nodes = if nodes.is_empty() { vec![0] } else { nodes };
    ServicePlan {
        name: ["pantry", "larder", "cellar"][place.min(2)].to_owned(),
        nodes,
        late,
        asks_balancer: dice.percent(70),
        counts: dice.percent(70),
        hooks: dice.percent(50),
        one_url: dice.percent(15),
        lease: dice.within(2, 6),
        schema,
        lingers: dice.below(3000),
    }
}

fn upgrade(
    dice: &mut Dice,
    place: usize,
    from: u32,
    (service, changes): (&ServicePlan, bool),
) -> UpgradePlan {
    let nodes = service.nodes.len() as u64;
    let strategy = match dice.below(4) {
        0 => json!("immediate"),
        1 => json!({"rolling": {"batch": dice.within(1, nodes)}}),
        2 => json!({"rolling": {"batch": "50%"}}),
        _ => json!({"canary": {"steps": [1, "20%", "rest"]}}),
    };
    // At its limits as often as inside them.
    let max_unavailable = if dice.percent(50) { 1 } else { dice.within(1, nodes) };
    let min_in_service = if dice.percent(50) { nodes - max_unavailable } else { dice.below(nodes) };
    let release = match dice.below(20) {
        0 => ReleasePlan::NeverStarts,
        1 => ReleasePlan::CrashesAfter(dice.within(500, 3000)),
        2 => ReleasePlan::CrashesAfter(dice.within(8000, 40_000)),
        3 => ReleasePlan::Flaps,
        4 => ReleasePlan::Slow,
        5 => ReleasePlan::Lies,
        _ => ReleasePlan::Good,
    };
    let points: &[&str] = match changes {
        true => &["stage", "expand", "migrate", "roll", "remove", "contract"],
        false => &["stage", "roll", "remove"],
    };
    let approvals: Vec<&str> = points.iter().copied().filter(|_| dice.percent(8)).collect();
    UpgradePlan {
        service: place,
        from,
        strategy,
        min_in_service,
        max_unavailable,
        by_zone: dice.percent(20),
        tolerate: if dice.percent(70) { 0 } else { dice.below(nodes + 1) },
        then: if dice.percent(70) { "rollback" } else { "pause" }.to_owned(),
        approvals: approvals.into_iter().map(str::to_owned).collect(),
        requires_gate: Vec::new(),
        release,
        drain_deadline: dice.within(5, 20) * 1000,
        healthy_time: dice.within(1, 4) * 1000,
        // Where nothing counts requests that is refused.
        fails_on_deadline: dice.percent(30) && (service.counts || service.asks_balancer),
        order: None,
    }
}

/// Gate jobs that must have passed: most specs require none.
fn required(dice: &mut Dice) -> Vec<GateTag> {
    match dice.below(20) {
        0 => vec![GateTag::ZeroDowntime],
        1 => vec![GateTag::Rolling],
        2 => vec![GateTag::Rolling, GateTag::ZeroDowntime],
        _ => Vec::new(),
    }
}

fn faults(dice: &mut Dice, upgrades: &[UpgradePlan], services: &[ServicePlan]) -> Vec<Fault> {
    let count = match dice.below(10) {
        0 => 0,
        1..=3 => dice.within(1, 2),
        4..=6 => dice.within(3, 6),
        _ => dice.within(5, 9),
    };
    let mut faults = Vec::new();
    for _ in 0..count {
        let (upgrade, phases) = one_of(dice, upgrades, services);
        let phase = *dice.pick(&phases).unwrap_or(&"roll");
        let what = what(dice, &services[upgrades[upgrade].service]);
        if phase == "rolling-back" && dice.percent(70) {
            // Most upgrades would not come there.
            let (phase, after) = ("roll".to_owned(), dice.below(6_000));
            faults.push(Fault { upgrade, phase, after, lasts: 200, what: What::RollBack });
        }
        let lasts = match what {
            // It comes back after all others have moved.
            What::NodeLeaves(_) if dice.percent(50) => dice.within(30_000, 120_000),
            _ if dice.percent(50) => dice.within(200, 4000),
            _ => dice.within(4000, 30_000),
        };
        faults.push(Fault {
            upgrade,
            phase: phase.to_owned(),
            // Every phase but a roll is short.
            after: match phase {
                "preflight" => 0,
                "roll" if dice.percent(60) => dice.below(15_000),
                "rolling-back" if dice.percent(40) => dice.below(4_000),
                _ if dice.percent(50) => 0,
                _ => dice.below(400),
            },
            lasts,
            what,
        });
    }
    faults
}

/// One of the upgrades, and its phases, each as often as it weighs.
fn one_of(dice: &mut Dice, upgrades: &[UpgradePlan], services: &[ServicePlan]) -> (usize, Vec<&'static str>) {
    let upgrade = usize::try_from(dice.below(upgrades.len() as u64)).unwrap_or(0);
    let changes = services[upgrades[upgrade].service].schema.is_some();
    let each = WEIGHTS.into_iter().flat_map(|(phase, with_schema, without)| {
        std::iter::repeat_n(phase, if changes { with_schema } else { without })
    });
    (upgrade, each.collect())
}

/// People who ask for all sorts of things, in about a third of the worlds.
fn operators(dice: &mut Dice, upgrades: &[UpgradePlan], services: &[ServicePlan]) -> Vec<Fault> {
    let count = if dice.percent(35) { dice.within(1, 3) } else { 0 };
    let mut faults = Vec::new();
    for _ in 0..count {
        let (upgrade, phases) = one_of(dice, upgrades, services);
        let phase = *dice.pick(&phases).unwrap_or(&"roll");
        if phase == "rolling-back" && dice.percent(70) {
            let (phase, after) = ("roll".to_owned(), dice.below(6_000));
            faults.push(Fault { upgrade, phase, after, lasts: 200, what: What::RollBack });
        }
        let after = if phase == "roll" { dice.below(8_000) } else { 0 };
        let what = if dice.percent(50) { What::Person } else { What::TwoPersons };
        faults.push(Fault { upgrade, phase: phase.to_owned(), after, lasts: dice.within(500, 15_000), what });
    }
    faults
}

/// Every kind of fault, at a node; those twice that are twice as likely.
pub fn kinds(node: usize) -> Vec<What> {
    vec![
        What::BadNetwork,
        What::AgentCut(node),
        What::CoordinatorCut(node),
        What::StreamsEnd,
        What::Compaction,
        What::CoordinatorKilled(node),
        What::CoordinatorKilled(node),
        What::CoordinatorStalled(node),
        What::AgentKilled(node),
        What::AgentKilled(node),
        What::AgentStalled(node),
        What::JournalLost(node),
        What::DiskFull(node),
        What::DiskSlow(node),
        What::NodeDies(node),
        What::OneHiccup(node, Hiccup::Health),
        What::OneHiccup(node, Hiccup::Ready),
        What::OneHiccup(node, Hiccup::Hangs),
        What::OneHiccup(node, Hiccup::Lies),
        What::OneHiccup(node, Hiccup::Heedless),
        What::OneHiccup(node, Hiccup::Works),
        What::AllHiccup(Hiccup::Health),
        What::AllHiccup(Hiccup::Ready),
        What::AllHiccup(Hiccup::Hangs),
        What::AllHiccup(Hiccup::Lies),
        What::AllHiccup(Hiccup::Heedless),
        What::AllHiccup(Hiccup::Works),
        What::Crash(node),
        What::HooksHang(node),
        What::HooksHang(node),
        What::HooksFail(node),
        What::HooksFail(node),
        What::HooksLie(node),
        What::HooksLie(node),
        What::LateRow,
        What::LateRow,
        What::LyingAgent(node),
        What::PersonHides(node),
        What::DatabaseAway,
        What::DatabaseAway,
        What::DatabaseSlow,
        What::DatabaseOlder,
        What::DatabaseOlder,
        What::StoreRestored,
        What::StoreBlank,
        What::NodeLeaves(node),
        What::NodeJoins(node),
        What::Labels(node),
        What::Garbage(node),
        What::Unreadable(node),
        What::SecondAgent(node),
        What::Pause,
        What::RollBack,
        What::WrongCommands,
        What::Cordon(node),
        What::Person,
        What::TwoPersons,
    ]
}

fn what(dice: &mut Dice, service: &ServicePlan) -> What {
    let node = usize::try_from(dice.below(40)).unwrap_or(0);
    let can_happen = |what: &&What| match what {
        What::DatabaseAway | What::DatabaseSlow | What::DatabaseOlder | What::LateRow => {
            service.schema.is_some()
        }
        What::HooksHang(_) | What::HooksFail(_) | What::HooksLie(_) => service.hooks,
        // Drawn from dice of their own.
        What::Person | What::TwoPersons => false,
        _ => true,
    };
    let all = kinds(node);
    let possible: Vec<&What> = all.iter().filter(can_happen).collect();
    dice.pick(&possible).map_or(What::Compaction, |what| (*what).clone())
}
