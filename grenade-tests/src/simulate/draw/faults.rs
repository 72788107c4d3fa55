//! Draws what goes wrong, and when.

use super::super::dice::Dice;
use super::super::scenario::{Fault, Scenario, ServicePlan, UpgradePlan, What};
use super::super::slot::Hiccup;
use std::collections::BTreeSet;

/// The phases in which something can happen.
pub const PHASES: [&str; 8] =
    ["preflight", "stage", "expand", "migrate", "roll", "remove", "contract", "rolling-back"];

/// Until people see that an upgrade has ended, something may happen to its service.
const COMPLETED: &str = "completed";

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

/// The same for one or two more faults, which bring each kind to the phases that it would seldom begin in.
const SELDOM: [(&str, usize, usize); 5] =
    [("contract", 9, 0), ("migrate", 4, 0), ("expand", 4, 0), ("remove", 3, 1), ("rolling-back", 3, 1)];

/// In how many of a hundred of these a database is slow, in any phase: of all kinds, that is drawn least often.
const SLOW: u64 = 12;

/// What goes wrong.
pub(super) fn faults(dice: &mut Dice, upgrades: &[UpgradePlan], services: &[ServicePlan]) -> Vec<Fault> {
    let count = match dice.below(20) {
        0 => 0,
        1..=5 => dice.within(1, 2),
        6..=12 => dice.within(3, 6),
        _ => dice.within(5, 9),
    };
    let mut faults = Vec::new();
    for _ in 0..count {
        let (upgrade, phases) = one_of(dice, upgrades, services);
        let phase = *dice.pick(&phases).unwrap_or(&"roll");
        let what = what(dice, &services[upgrades[upgrade].service]);
        faults.extend(roll_back(dice, upgrade, phase));
        let lasts = length(dice, &what);
        faults.push(Fault { upgrade, phase: phase.to_owned(), after: begins(dice, phase), lasts, what });
    }
    faults
}

/// One or two more faults in phases that are short or that few upgrades reach.
pub(super) fn in_seldom_phases(
    dice: &mut Dice,
    upgrades: &[UpgradePlan],
    services: &[ServicePlan],
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for _ in 0..dice.within(1, 2) {
        let is_slow = dice.percent(SLOW);
        let weights = if is_slow { &WEIGHTS[..] } else { &SELDOM[..] };
        let (upgrade, phases) = weighed(dice, weights, upgrades, services);
        let phase = *dice.pick(&phases).unwrap_or(&"remove");
        let service = &services[upgrades[upgrade].service];
        let slow = Some(What::DatabaseSlow).filter(|slow| is_slow && can_happen(slow, service));
        let what = slow.unwrap_or_else(|| what(dice, service));
        faults.extend(roll_back(dice, upgrade, phase));
        let lasts = length(dice, &what);
        faults.push(Fault { upgrade, phase: phase.to_owned(), after: begins(dice, phase), lasts, what });
    }
    faults
}

/// How long after the beginning of its phase a fault begins, in milliseconds: every phase but a roll is short.
fn begins(dice: &mut Dice, phase: &str) -> u64 {
    match phase {
        "preflight" => 0,
        "roll" if dice.percent(60) => dice.below(15_000),
        "rolling-back" if dice.percent(40) => dice.below(4_000),
        _ if dice.percent(50) => 0,
        _ => dice.below(400),
    }
}

/// How long it lasts, in milliseconds.
pub(super) fn length(dice: &mut Dice, what: &What) -> u64 {
    match what {
        What::Person | What::TwoPersons => dice.within(500, 15_000),
        What::VersionPutBack(_) => dice.within(5_000, 10_000),
        // It comes back after all others have moved.
        What::NodeLeaves(_) if dice.percent(50) => dice.within(30_000, 60_000),
        _ if dice.percent(50) => dice.within(200, 4000),
        // Longer than every lease.
        _ if dice.percent(70) => dice.within(4000, 10_000),
        _ => dice.within(10_000, 30_000),
    }
}

/// One of the upgrades, and its phases, each as often as it weighs.
pub(super) fn one_of(
    dice: &mut Dice,
    upgrades: &[UpgradePlan],
    services: &[ServicePlan],
) -> (usize, Vec<&'static str>) {
    weighed(dice, &WEIGHTS, upgrades, services)
}

fn weighed(
    dice: &mut Dice,
    weights: &[(&'static str, usize, usize)],
    upgrades: &[UpgradePlan],
    services: &[ServicePlan],
) -> (usize, Vec<&'static str>) {
    let upgrade = usize::try_from(dice.below(upgrades.len() as u64)).unwrap_or(0);
    let changes = services[upgrades[upgrade].service].schema.is_some();
    let each = weights.iter().flat_map(|(phase, with_schema, without)| {
        std::iter::repeat_n(*phase, if changes { *with_schema } else { *without })
    });
    (upgrade, each.collect())
}

/// The rollback that most upgrades would not come to by themselves, where something is drawn for it.
pub(super) fn roll_back(dice: &mut Dice, upgrade: usize, phase: &str) -> Option<Fault> {
    let is_ordered = phase == "rolling-back" && dice.percent(70);
    is_ordered.then(|| {
        let (phase, after) = ("roll".to_owned(), dice.below(6_000));
        Fault { upgrade, phase, after, lasts: 200, what: What::RollBack }
    })
}

/// People who ask for all sorts of things, in three of ten worlds.
pub(super) fn operators(dice: &mut Dice, upgrades: &[UpgradePlan], services: &[ServicePlan]) -> Vec<Fault> {
    let count = if dice.percent(30) { dice.within(1, 3) } else { 0 };
    let mut faults = Vec::new();
    for _ in 0..count {
        let (upgrade, phases) = one_of(dice, upgrades, services);
        let phase = *dice.pick(&phases).unwrap_or(&"roll");
        faults.extend(roll_back(dice, upgrade, phase));
        let after = if phase == "roll" { dice.below(8_000) } else { 0 };
        let what = if dice.percent(50) { What::Person } else { What::TwoPersons };
        let lasts = length(dice, &what);
        faults.push(Fault { upgrade, phase: phase.to_owned(), after, lasts, what });
    }
    faults
}

/// In a quarter of the worlds, a person puts a version back: once an upgrade is completed, or in one of its phases. Not beside
/// compute releases: no instance is drained because it is below what they need.
pub(super) fn versions_put_back(dice: &mut Dice, world: &Scenario) -> Vec<Fault> {
    if world.stream.is_some() || !dice.percent(25) {
        return Vec::new();
    }
    let (upgrade, phases) = one_of(dice, &world.upgrades, &world.services);
    let phase = if dice.percent(35) { COMPLETED } else { *dice.pick(&phases).unwrap_or(&"roll") };
    let node = usize::try_from(dice.below(40)).unwrap_or(0);
    let what = What::VersionPutBack((!dice.percent(60)).then_some(node));
    let mut faults: Vec<Fault> = roll_back(dice, upgrade, phase).into_iter().collect();
    let after = match phase {
        "roll" => dice.below(8_000),
        "rolling-back" | COMPLETED => dice.below(3_000),
        _ => 0,
    };
    let lasts = length(dice, &what);
    faults.push(Fault { upgrade, phase: phase.to_owned(), after, lasts, what });
    faults
}

/// In one of ten worlds with rows that are filled after a roll, a node dies as the fill begins, and the database is slow until
/// every coordinator knows that the node is silent: what the roll has passed may be unknown when its fill has ended.
pub(super) fn fills_after_a_roll(dice: &mut Dice, world: &Scenario) -> Vec<Fault> {
    let fills_late = |place: &usize| {
        let plan = &world.upgrades[*place];
        let schema = world.owned_schema(plan.service);
        schema.is_some_and(|schema| world.is_filled_after_roll(schema, plan.from))
    };
    let places: Vec<usize> = (0..world.upgrades.len()).filter(fills_late).collect();
    let Some(upgrade) = dice.pick(&places).copied().filter(|_| dice.percent(10)) else { return Vec::new() };
    let node = usize::try_from(dice.below(40)).unwrap_or(0);
    let during = |what, lasts| Fault { upgrade, phase: "migrate".to_owned(), after: 0, lasts, what };
    // The longest lease is 6 s.
    let slow = during(What::DatabaseSlow, dice.within(9_000, 14_000));
    vec![during(What::NodeDies(node), dice.within(20_000, 40_000)), slow]
}

/// Every kind of fault, at a node; those twice that are twice as likely.
pub fn kinds(node: usize) -> Vec<What> {
    vec![
        What::BadNetwork,
        What::AgentCut(node),
        What::CoordinatorCut(node),
        What::StreamsEnd,
        What::WatchesHang,
        What::RequestsRepeat,
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
        What::VersionPutBack(Some(node)),
        What::VersionPutBack(None),
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

/// The kind of faults of this name.
///
/// # Errors
/// Where there is no such kind: with all names.
pub fn kind_named(text: &str) -> Result<String, String> {
    let all: BTreeSet<String> = kinds(0).iter().map(What::kind).collect();
    match all.contains(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("no kind of faults; there are {}", Vec::from_iter(all).join(", "))),
    }
}

fn what(dice: &mut Dice, service: &ServicePlan) -> What {
    let has_own_dice = |what: &What| {
        matches!(
            what,
            What::Person
                | What::TwoPersons
                | What::VersionPutBack(_)
                | What::WatchesHang
                | What::RequestsRepeat
        )
    };
    one_that(dice, |what| can_happen(what, service) && !has_own_dice(what))
}

/// Whether there is in a service what it happens to.
pub(super) fn can_happen(what: &What, service: &ServicePlan) -> bool {
    match what {
        What::DatabaseAway | What::DatabaseSlow | What::DatabaseOlder | What::LateRow => {
            service.schema.is_some()
        }
        What::HooksHang(_) | What::HooksFail(_) | What::HooksLie(_) => service.hooks,
        _ => true,
    }
}

/// One of the possible kinds, at some node.
pub(super) fn one_that(dice: &mut Dice, is_possible: impl Fn(&What) -> bool) -> What {
    let node = usize::try_from(dice.below(40)).unwrap_or(0);
    let mut possible = kinds(node);
    possible.retain(is_possible);
    dice.pick(&possible).cloned().unwrap_or(What::Compaction)
}

#[cfg(test)]
mod tests {
    use super::super::{scenario, scenario_with};
    use super::*;

    #[test]
    fn versions_are_put_back_in_worlds_without_a_stream() {
        let drawn: Vec<Scenario> = (1..=1_000).map(scenario).collect();
        let is_it = |fault: &Fault| matches!(fault.what, What::VersionPutBack(_));
        let with: Vec<&Scenario> = drawn.iter().filter(|one| one.faults.iter().any(is_it)).collect();
        assert!((140..=240).contains(&with.len()), "{} of 1,000", with.len());
        assert!(with.iter().all(|one| one.stream.is_none()));
        let at_the_end = |one: &&&Scenario| one.faults.iter().any(|fault| fault.phase == COMPLETED);
        let ended = with.iter().filter(at_the_end).count();
        assert!((40..=100).contains(&ended), "{ended} of 1,000 once an upgrade is completed");
    }

    #[test]
    fn worlds_with_only_versions_put_back_have_no_stream() {
        let have_streams = |kind: &str| {
            let kinds = [kind.to_owned()];
            let drawn = (1..=100).map(|seed| scenario_with(seed, &kinds).unwrap());
            drawn.filter(|one| !one.faults.is_empty()).any(|one| one.stream.is_some())
        };
        assert!(have_streams("Pause"));
        assert!(!have_streams("VersionPutBack"));
    }

    #[test]
    fn each_world_has_more_faults_in_seldom_phases() {
        let of = |one: &Scenario| {
            in_seldom_phases(&mut Dice::of(one.seed, "seldom phases"), &one.upgrades, &one.services)
        };
        let drawn: Vec<Fault> = (1..=1_000).map(scenario).flat_map(|one| of(&one)).collect();
        let times = |is: &dyn Fn(&Fault) -> bool| drawn.iter().filter(|fault| is(fault)).count();
        let shares = [
            ("contract", 320..=450),
            ("migrate", 130..=230),
            ("expand", 130..=230),
            ("remove", 250..=400),
            ("rolling-back", 250..=400),
        ];
        for (phase, share) in shares {
            let times = times(&|fault| fault.phase == phase && fault.what != What::RollBack);
            assert!(share.contains(&times), "{phase}: {times} in 1,000");
        }
        let slow = times(&|fault| fault.what == What::DatabaseSlow);
        assert!((110..=190).contains(&slow), "{slow} in 1,000");
    }

    #[test]
    fn node_dies_in_some_slow_fills_after_a_roll() {
        let of = |one: &Scenario| fills_after_a_roll(&mut Dice::of(one.seed, "fills after a roll"), one);
        let drawn = (1..=1_000).map(scenario).map(|world| (of(&world), world));
        let with: Vec<(Vec<Fault>, Scenario)> = drawn.filter(|(faults, _)| !faults.is_empty()).collect();
        assert!((8..=40).contains(&with.len()), "{} of 1,000", with.len());
        for (faults, world) in with {
            assert!(world.faults.ends_with(&faults), "seed {}", world.seed);
            let plan = &world.upgrades[faults[0].upgrade];
            let schema = world.owned_schema(plan.service).unwrap();
            assert!(world.is_filled_after_roll(schema, plan.from), "seed {}", world.seed);
        }
    }
}
