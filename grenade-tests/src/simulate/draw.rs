//! Draws a scenario from a seed.

mod faults;
mod narrow;
mod near;
mod network;

pub use faults::{PHASES, kind_named, kinds};
pub(super) use narrow::MAX_REQUEST;
pub use near::near;

use super::dice::Dice;
use super::metadata_plan;
use super::scenario::{
    Change, Fault, Generation, ReleasePlan, Scenario, SchemaPlan, ServicePlan, UpgradePlan, What,
};
use super::stream_plan;
use faults::{faults, fills_after_a_roll, in_seldom_phases, operators, versions_put_back};
use serde_json::json;
use tidegate_proto::GateTag;

/// How many rows one batch of a fill takes.
const BATCH: u64 = 100;

/// In how many of a hundred worlds everything is reinstalled where the store becomes blank.
const REINSTALLED: u64 = 30;

/// The period of a health URL that flaps, in milliseconds: long enough that checks of balancers see it answer 200 for their
/// rise time in between.
const HEALTH_FLAPS: u64 = 4_000;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut drawn = world(seed);
    with_an_empty_service(&mut Dice::of(seed, "empty service"), &mut drawn.schemas);
    without_supervisors(&mut Dice::of(seed, "supervisors"), &mut drawn.services);
    starting_alone(&mut Dice::of(seed, "starting alone"), &mut drawn.services);
    with_flapping_health(&mut Dice::of(seed, "flapping health"), &mut drawn.upgrades);
    let put_back = versions_put_back(&mut Dice::of(seed, "versions put back"), &drawn);
    drawn.faults.extend(put_back);
    let faults = network::hung_watches(&mut Dice::of(seed, "hung watches"), &drawn);
    drawn.faults.extend(faults);
    let faults = network::repeated_requests(&mut Dice::of(seed, "repeated requests"), &drawn);
    drawn.faults.extend(faults);
    drawn.latency = network::latency(&mut Dice::of(seed, "latency"));
    let faults = fills_after_a_roll(&mut Dice::of(seed, "fills after a roll"), &drawn);
    drawn.faults.extend(faults);
    drawn.reinstalled = Dice::of(seed, "reinstalled").percent(REINSTALLED);
    drawn
}

/// The scenario without what has dice of its own: that leaves the rest of the draw as it is.
fn world(seed: u64) -> Scenario {
    let mut dice = Dice::of(seed, "world");
    // Small ones find most and cost least; one in two hundred is large.
    let nodes = match dice.below(200) {
        0 => dice.within(13, 40),
        1..=6 => dice.within(7, 12),
        _ => *dice.pick(&[1, 2, 2, 3, 3, 3, 4, 5]).unwrap_or(&3),
    };
    let spare = if dice.percent(25) { dice.within(1, 2) } else { 0 };
    let zone = |node: u64| ["a", "b", "c"][usize::try_from(node % 3).unwrap_or(0)].to_owned();
    let mut zones: Vec<String> = (0..nodes + spare).map(zone).collect();
    let mut schemas: Vec<SchemaPlan> = (0..dice.within(1, 2)).map(|_| schema(&mut dice)).collect();
    made_by_hand(&mut Dice::of(seed, "baseline"), &mut schemas);
    many_rows(&mut Dice::of(seed, "rows"), &mut schemas);
    let count = match dice.below(100) {
        0..=88 => 1,
        89..=97 => 2,
        _ => 3,
    };
    let mut services: Vec<ServicePlan> = Vec::new();
    for n in 0..count {
        let own = (n < schemas.len() && dice.percent(70)).then_some(n);
        // Most services share the first schema.
        let first = services.first().and_then(|first| first.schema);
        let schema = if n > 0 && dice.percent(60) { first.or(own) } else { own };
        services.push(service(&mut dice, n, (nodes, spare), schema));
    }
    forget_unused(&mut schemas, &mut services);
    let mut upgrades = Vec::new();
    for (place, service) in services.iter().enumerate() {
        let (before, hops) = match service.schema.map(|schema| &schemas[schema]) {
            Some(schema) => (schema.contracted, schema.generations.len() - schema.contracted),
            None => (0, 1 + usize::from(dice.percent(10))),
        };
        // What shares a schema goes as far as that goes.
        let shares = services[..place].iter().any(|other| other.schema == service.schema);
        let changes = service.schema.is_some() && !shares;
        for hop in 0..hops.min(if place == 0 || service.schema == services[0].schema { 4 } else { 1 }) {
            let from = u32::try_from(before + hop + 1).unwrap_or(1);
            upgrades.push(upgrade(&mut dice, place, from, (service, changes)));
        }
    }
    if let [only] = &mut upgrades[..] {
        // Most people who went back once leave it at that.
        only.tried_once = dice.percent(75);
    }
    let mut gates = Dice::of(seed, "gates");
    upgrades.iter_mut().for_each(|upgrade| upgrade.requires_gate = required(&mut gates));
    let mut fills = Dice::of(seed, "fills");
    let lasts = schemas.iter().any(|schema| schema.rows > BATCH);
    let coordinators = if dice.percent(35) || lasts && fills.percent(60) { 2 } else { 1 };
    let mut faults = faults(&mut Dice::of(seed, "mishaps"), &upgrades, &services);
    faults.extend(operators(&mut Dice::of(seed, "persons"), &upgrades, &services));
    faults.extend(in_seldom_phases(&mut Dice::of(seed, "seldom phases"), &upgrades, &services));
    let rows = |upgrade: usize| Some(schemas[services[upgrades[upgrade].service].schema?].rows);
    while_they_are_filled(&mut fills, &mut faults, rows);
    let narrow = &mut Dice::of(seed, "largest request");
    let max_request = narrow::draw(narrow, &mut zones, &mut services, &mut upgrades, &mut faults);
    with_a_newcomer(&faults, &mut services, &mut zones);
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
        max_request,
        latency: 0,
        lies_everywhere: true,
        reinstalled: false,
    }
}

/// The same with no other kinds of faults than these; none = all. Where a version is put back, without compute releases.
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
    if drawn.faults.iter().any(|fault| matches!(fault.what, What::VersionPutBack(_))) {
        // See `versions_put_back`.
        drawn.stream = None;
    }
    Ok(drawn)
}

fn schema(dice: &mut Dice) -> SchemaPlan {
    let hops = match dice.below(100) {
        0..=88 => 1,
        89..=94 => 2,
        95..=97 => 3,
        _ => 4,
    };
    let contracted = if dice.percent(15) { dice.within(1, 3) } else { 0 };
    let generations = (0..contracted + hops).map(|_| Generation {
        change: if dice.percent(70) { Change::Rename } else { Change::Add },
        old_reads: dice.percent(80),
        after_roll: dice.percent(30),
        others_first: dice.percent(30),
        irreversible: dice.percent(15),
    });
    let generations: Vec<Generation> = generations.collect();
    let contracted = usize::try_from(contracted).unwrap_or(0);
    SchemaPlan { generations, rows: dice.within(0, 40), contracted, by_hand: false, empty_service: false }
}

/// No database is made for a schema that no service reads.
fn forget_unused(schemas: &mut Vec<SchemaPlan>, services: &mut [ServicePlan]) {
    for n in (0..schemas.len()).rev() {
        if services.iter().all(|service| service.schema != Some(n)) {
            schemas.remove(n);
            let later = services.iter_mut().filter_map(|service| service.schema.as_mut());
            later.filter(|schema| **schema > n).for_each(|schema| *schema -= 1);
        }
    }
}

/// Where a node joins, there is one that the first service comes to.
fn with_a_newcomer(faults: &[Fault], services: &mut [ServicePlan], zones: &mut Vec<String>) {
    let joins = faults.iter().any(|fault| matches!(fault.what, What::NodeJoins(_)));
    if joins && services.iter().all(|service| service.late.is_empty()) {
        services[0].late.push(zones.len());
        zones.push("b".to_owned());
    }
}

/// Some databases are shared by a service that no node runs yet.
fn with_an_empty_service(dice: &mut Dice, schemas: &mut [SchemaPlan]) {
    if let Some(first) = schemas.first_mut() {
        first.empty_service = dice.percent(6);
    }
}

/// Some services with hooks have no supervisor that starts them again.
fn without_supervisors(dice: &mut Dice, services: &mut [ServicePlan]) {
    for service in services.iter_mut().filter(|service| service.hooks) {
        service.unsupervised = dice.percent(33);
    }
}

/// The agents of some services start what was admitted last while the store is away.
fn starting_alone(dice: &mut Dice, services: &mut [ServicePlan]) {
    for service in services {
        service.starts_alone |= dice.percent(20);
    }
}

/// Half of the releases that flap do so at their health URL, and are never healthy for as long as their upgrades ask for.
fn with_flapping_health(dice: &mut Dice, upgrades: &mut [UpgradePlan]) {
    for upgrade in upgrades.iter_mut().filter(|upgrade| upgrade.release == ReleasePlan::Flaps) {
        if dice.percent(50) {
            (upgrade.release, upgrade.healthy_time) = (ReleasePlan::HealthFlaps(HEALTH_FLAPS), HEALTH_FLAPS);
        }
    }
}

/// Some tables have more rows than one batch of a fill takes.
fn many_rows(dice: &mut Dice, schemas: &mut [SchemaPlan]) {
    for schema in schemas {
        if dice.percent(10) {
            schema.rows = dice.within(200, 800);
        }
    }
}

/// Faults of a fill that lasts begin all the time while it does (a row takes some 8 ms), and end soon after another
/// coordinator may have gone on with it.
fn while_they_are_filled(dice: &mut Dice, faults: &mut [Fault], of: impl Fn(usize) -> Option<u64>) {
    for fault in faults.iter_mut().filter(|fault| fault.phase == "migrate") {
        if let Some(rows) = of(fault.upgrade).filter(|rows| *rows > BATCH) {
            (fault.after, fault.lasts) = (dice.below(8 * rows), dice.within(3_200, 6_500));
        }
    }
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
        unsupervised: false,
        starts_alone: false,
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
        drain_deadline: dice.within(5, 10) * 1000,
        healthy_time: dice.within(1, 2) * 1000,
        tried_once: false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn health_flaps(upgrade: &UpgradePlan) -> bool {
        matches!(upgrade.release, ReleasePlan::HealthFlaps(period) if upgrade.healthy_time >= period)
    }

    #[test]
    fn fifth_of_the_worlds_has_more_than_one_upgrade() {
        let drawn: Vec<Scenario> = (1..=2_000).map(scenario).collect();
        let share =
            |is_it: fn(&Scenario) -> bool| drawn.iter().filter(|one| is_it(one)).count() * 100 / 2_000;
        let shares = [
            ("more than one upgrade", share(|one| one.upgrades.len() > 1), 17..=24),
            ("several services", share(|one| one.services.len() > 1), 9..=14),
            ("a schema", share(|one| !one.schemas.is_empty()), 66..=76),
            ("generations before", share(|one| one.schemas.iter().any(|s| s.contracted > 0)), 8..=18),
            ("a fill of several batches", share(|one| one.schemas.iter().any(|s| s.rows > BATCH)), 5..=12),
            ("an empty service", share(|one| one.schemas.iter().any(|s| s.empty_service)), 2..=6),
            ("no supervisor", share(|one| one.services.iter().any(|s| s.unsupervised)), 14..=22),
            ("agents that start alone", share(|one| one.services.iter().any(|s| s.starts_alone)), 18..=26),
            ("two coordinators", share(|one| one.coordinators > 1), 30..=40),
            ("a stream", share(|one| one.stream.is_some()), 20..=30),
            ("a group", share(|one| one.metadata.is_some()), 7..=13),
            ("a store for small requests", share(|one| one.max_request.is_some()), 1..=5),
            ("reinstalled with a blank store", share(|one| one.reinstalled), 26..=34),
            ("health that flaps", share(|one| one.upgrades.iter().any(health_flaps)), 1..=5),
        ];
        for (what, found, expected) in shares {
            assert!(expected.contains(&found), "{what}: {found} %, expected {expected:?}");
        }
        assert!(
            drawn.iter().any(|one| one.zones.len() > 12) && drawn.iter().any(|one| one.upgrades.len() > 4)
        );
    }

    #[test]
    fn every_schema_that_is_drawn_is_read_by_a_service() {
        for one in (1..=500).map(scenario) {
            let is_read = |n: usize| one.services.iter().any(|service| service.schema == Some(n));
            assert!((0..one.schemas.len()).all(is_read), "seed {}", one.seed);
            let is_there = |service: &ServicePlan| service.schema.is_none_or(|n| n < one.schemas.len());
            assert!(one.services.iter().all(is_there), "seed {}", one.seed);
        }
    }

    #[test]
    fn faults_that_are_of_no_kind_are_refused_with_the_kinds() {
        assert_eq!(kind_named("DatabaseOlder"), Ok("DatabaseOlder".to_owned()));
        let refused = kind_named("DatabaseYounger").unwrap_err();
        assert!(refused.contains("DatabaseOlder"), "{refused}");
    }
}
