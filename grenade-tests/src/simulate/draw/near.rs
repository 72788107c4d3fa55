//! Draws schedules near kept scenarios: what once failed, with a few more faults.

use super::super::dice::Dice;
use super::super::scenario::{Fault, Scenario, What};
use super::faults::{PHASES, can_happen, length, one_of, one_that};
use super::network::latency;
use super::{starting_alone, with_a_newcomer};

/// How much later than another fault one begins that is beside it, in milliseconds.
const BESIDE: [i64; 6] = [0, 0, 50, 500, 2_000, -500];

/// The schedule of a seed: one of these scenarios with one to three more faults, in half of the schedules with other
/// latencies, in some farther from the store, in some with agents that start alone. None where none is kept.
pub fn near(seed: u64, kept: &[Scenario]) -> Option<Scenario> {
    let mut dice = Dice::of(seed, "near");
    let mut drawn = dice.pick(kept)?.clone();
    if dice.percent(50) {
        drawn.seed = dice.below(1_000_000);
    }
    for _ in 0..dice.within(1, 3) {
        let more = fault(&mut dice, &drawn);
        drawn.faults.push(more);
    }
    drawn.latency = drawn.latency.max(latency(&mut Dice::of(seed, "latency")));
    starting_alone(&mut Dice::of(seed, "starting alone"), &mut drawn.services);
    with_a_newcomer(&drawn.faults, &mut drawn.services, &mut drawn.zones);
    Some(drawn)
}

/// One more fault of a world: in 60 % in the phase of one that is there, and in 60 % of these beside it.
fn fault(dice: &mut Dice, world: &Scenario) -> Fault {
    // Once an upgrade has ended, nothing is drawn that happens in it.
    let is_under_way = |fault: &&Fault| PHASES.contains(&fault.phase.as_str());
    let there: Vec<&Fault> = world.faults.iter().filter(is_under_way).collect();
    let same_phase = dice.pick(&there).copied().filter(|_| dice.percent(60));
    let (upgrade, phase) = match same_phase {
        Some(other) => (other.upgrade, other.phase.clone()),
        None => {
            let (upgrade, phases) = one_of(dice, &world.upgrades, &world.services);
            (upgrade, (*dice.pick(&phases).unwrap_or(&"roll")).to_owned())
        }
    };
    let what = what(dice, world, upgrade);
    let beside = same_phase.filter(|_| dice.percent(60));
    let after = match (phase.as_str(), beside) {
        ("preflight", _) => 0,
        (_, Some(other)) => other.after.saturating_add_signed(*dice.pick(&BESIDE).unwrap_or(&0)),
        (_, None) => match dice.below(3) {
            0 => 0,
            1 => dice.below(500),
            _ => dice.below(6_000),
        },
    };
    let lasts = match what {
        What::Person | What::TwoPersons | What::VersionPutBack(_) => length(dice, &what),
        _ => match dice.below(3) {
            0 => dice.within(200, 4_000),
            1 => dice.within(4_000, 12_000),
            _ => dice.within(12_000, 60_000),
        },
    };
    Fault { upgrade, phase, after, lasts, what }
}

/// What can happen in an upgrade of this world. A version is put back once, and not beside compute releases.
fn what(dice: &mut Dice, world: &Scenario, upgrade: usize) -> What {
    let is_put_back = |what: &What| matches!(what, What::VersionPutBack(_));
    let puts_back = world.stream.is_none() && !world.faults.iter().any(|fault| is_put_back(&fault.what));
    let service = &world.services[world.upgrades[upgrade].service];
    one_that(dice, |what| can_happen(what, service) && (puts_back || !is_put_back(what)))
}

#[cfg(test)]
mod tests {
    use super::super::scenario;
    use super::*;

    /// Scenarios with what is drawn near them.
    fn drawn(seeds: u64) -> Vec<(Scenario, Scenario)> {
        let near_one = |seed| {
            let kept = scenario(seed);
            let drawn = near(seed, std::slice::from_ref(&kept)).unwrap();
            (kept, drawn)
        };
        (1..=seeds).map(near_one).collect()
    }

    #[test]
    fn seed_near_kept_scenarios_decides_everything() {
        let kept: Vec<Scenario> = (1..=5).map(scenario).collect();
        let all: Vec<Scenario> = (1..=100).map(|seed| near(seed, &kept).unwrap()).collect();
        assert!((1..=100).zip(&all).all(|(seed, drawn)| near(seed, &kept).as_ref() == Some(drawn)));
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        let is_taken = |one: &Scenario| all.iter().any(|drawn| drawn.seed == one.seed);
        assert!(kept.iter().all(is_taken));
        let same = all.iter().filter(|drawn| kept.iter().any(|one| one.seed == drawn.seed)).count();
        assert!((30..=70).contains(&same), "{same} of 100 have the latencies of the kept scenario");
        assert_eq!(near(1, &[]), None);
    }

    #[test]
    fn schedule_near_a_kept_scenario_only_has_more_faults() {
        for (kept, drawn) in drawn(500) {
            assert!(drawn.faults.starts_with(&kept.faults), "seed {}", kept.seed);
            assert!((1..=3).contains(&(drawn.faults.len() - kept.faults.len())), "seed {}", kept.seed);
            let nodes = kept.zones.len();
            assert!((nodes..=nodes + 1).contains(&drawn.zones.len()), "seed {}", kept.seed);
            let Scenario { seed, zones, services, faults, .. } = kept.clone();
            assert_eq!(Scenario { seed, zones, services, faults, ..drawn }, kept);
        }
    }

    #[test]
    fn faults_near_a_kept_scenario_can_happen_in_its_world() {
        let is_put_back = |fault: &&Fault| matches!(fault.what, What::VersionPutBack(_));
        let (mut joins, mut put_back) = (0, 0);
        for (kept, drawn) in drawn(1_000) {
            for fault in &drawn.faults[kept.faults.len()..] {
                let service = &drawn.services[drawn.upgrades[fault.upgrade].service];
                assert!(can_happen(&fault.what, service), "seed {}: {fault:?}", kept.seed);
                let changes = ["expand", "migrate", "contract"].contains(&fault.phase.as_str());
                assert!(!changes || service.schema.is_some(), "seed {}: {fault:?}", kept.seed);
                assert!(PHASES.contains(&fault.phase.as_str()), "seed {}: {fault:?}", kept.seed);
                joins += usize::from(matches!(fault.what, What::NodeJoins(_)));
                put_back += usize::from(is_put_back(&fault));
            }
            let joining = drawn.faults.iter().any(|fault| matches!(fault.what, What::NodeJoins(_)));
            assert!(!joining || drawn.services.iter().any(|service| !service.late.is_empty()));
            let times = drawn.faults.iter().filter(is_put_back).count();
            assert!(times == 0 || times == 1 && drawn.stream.is_none(), "seed {}", kept.seed);
        }
        assert!(joins > 0 && put_back > 0);
    }
}
