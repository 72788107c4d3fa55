//! Makes a failing scenario smaller: of everything that may be left out, what the failure does not need is left out, until
//! nothing more can be.

use super::judge::Breach;
use super::scenario::{Generation, ReleasePlan, Scenario, ServicePlan, UpgradePlan};
use std::collections::BTreeSet;

/// What one failure has in common with the same one in a smaller world: the rule, and the words of what was found, without
/// names and figures. Each word counts once: a smaller world may have the same reason for fewer instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    rule: u8,
    words: BTreeSet<String>,
}

impl Kind {
    /// Of a breach in a world with these services.
    pub(super) fn of(breach: &Breach, services: &[ServicePlan]) -> Self {
        let is_figure = |word: &str| word.contains(|c: char| c.is_ascii_digit() || "[{\"".contains(c));
        let is_name = |word: &str| services.iter().any(|service| word.contains(&service.name));
        let words = breach.what.split_whitespace().filter(|word| !is_figure(word) && !is_name(word));
        let words = words.map(|word| word.trim_matches(|c: char| c.is_ascii_punctuation()).to_owned());
        Self { rule: breach.rule, words: words.collect() }
    }
}

/// Makes it smaller for as long as `fails` says of some smaller one that it fails in the same way. `fails` is given several
/// at a time and answers the place of one that does.
pub(super) fn shrink(
    mut scenario: Scenario,
    mut fails: impl FnMut(&[Scenario]) -> Option<usize>,
) -> Scenario {
    loop {
        let mut is_smaller = false;
        for cut in CUTS {
            let mut place = 0;
            // What comes after the place of the one that was taken was tried before that, in a larger world.
            while let Some((at, smaller)) = first_that_fails(&scenario, *cut, place, &mut fails) {
                scenario = smaller;
                is_smaller = true;
                place = at;
            }
        }
        if !is_smaller {
            return scenario;
        }
    }
}

fn first_that_fails(
    scenario: &Scenario,
    cut: Cut,
    from: usize,
    fails: &mut impl FnMut(&[Scenario]) -> Option<usize>,
) -> Option<(usize, Scenario)> {
    let mut all: Vec<Scenario> = cut(scenario).into_iter().filter(|smaller| smaller != scenario).collect();
    let mut from = from.min(all.len());
    if from == all.len() {
        from = 0;
    }
    let at = from + fails(&all[from..])?;
    Some((at, all.swap_remove(at)))
}

/// The scenarios that are smaller in one respect.
type Cut = fn(&Scenario) -> Vec<Scenario>;

/// What is worth most comes first.
const CUTS: &[Cut] = &[
    half_of_the_faults,
    one_fault,
    one_step_of_the_plan,
    last_upgrade_of_a_service,
    one_service,
    half_of_the_nodes,
    one_node,
    simpler_world,
    simpler_services,
    simpler_upgrades,
    simpler_faults,
];

fn half_of_the_faults(scenario: &Scenario) -> Vec<Scenario> {
    let half = scenario.faults.len() / 2;
    let with = |faults: &[_]| Scenario { faults: faults.to_vec(), ..scenario.clone() };
    vec![with(&scenario.faults[..half]), with(&scenario.faults[half..])]
}

fn one_fault(scenario: &Scenario) -> Vec<Scenario> {
    each(scenario.faults.len(), |n| {
        let mut smaller = scenario.clone();
        smaller.faults.remove(n);
        Some(smaller)
    })
}

fn one_step_of_the_plan(scenario: &Scenario) -> Vec<Scenario> {
    each(scenario.plan.len(), |n| {
        let mut smaller = scenario.clone();
        smaller.plan.remove(n);
        Some(smaller)
    })
}

/// Those before it lead to where it begins. Services that share a schema wait for each other's upgrades to the same version:
/// these are left out together.
fn last_upgrade_of_a_service(scenario: &Scenario) -> Vec<Scenario> {
    each(scenario.upgrades.len(), |n| {
        let UpgradePlan { service, from, .. } = scenario.upgrades[n];
        let schema = scenario.services[service].schema;
        let goes_along = |other: &UpgradePlan| {
            other.service == service || schema.is_some() && scenario.services[other.service].schema == schema
        };
        let mut along = scenario.upgrades.iter().enumerate().filter(|(_, other)| goes_along(other));
        let is_last = along.all(|(at, other)| (other.from, at) <= (from, n));
        let smaller = without_upgrades(scenario.clone(), |other| goes_along(other) && other.from == from);
        (is_last && !smaller.upgrades.is_empty()).then_some(smaller)
    })
}

fn without_upgrades(mut scenario: Scenario, is_one: impl Fn(&UpgradePlan) -> bool) -> Scenario {
    while let Some(n) = scenario.upgrades.iter().position(&is_one) {
        scenario.upgrades.remove(n);
        scenario.faults.retain(|fault| fault.upgrade != n);
        for fault in scenario.faults.iter_mut().filter(|fault| fault.upgrade > n) {
            fault.upgrade -= 1;
        }
    }
    scenario
}

/// What shares its schema does not wait for it in a world without it.
fn one_service(scenario: &Scenario) -> Vec<Scenario> {
    each(scenario.services.len(), |n| {
        let mut smaller = without_upgrades(scenario.clone(), |upgrade| upgrade.service == n);
        smaller.services.remove(n);
        for upgrade in smaller.upgrades.iter_mut().filter(|upgrade| upgrade.service > n) {
            upgrade.service -= 1;
        }
        smaller.stream = smaller.stream.filter(|stream| stream.on != n);
        smaller.metadata = smaller.metadata.filter(|metadata| metadata.on != n);
        let on = smaller.stream.as_mut().map(|stream| &mut stream.on);
        on.into_iter()
            .chain(smaller.metadata.as_mut().map(|metadata| &mut metadata.on))
            .for_each(|on| *on -= usize::from(*on > n));
        (!smaller.upgrades.is_empty()).then_some(smaller)
    })
}

fn half_of_the_nodes(scenario: &Scenario) -> Vec<Scenario> {
    let half = scenario.zones.len() / 2;
    (half > 0)
        .then(|| (half..scenario.zones.len()).rev().fold(scenario.clone(), without_node))
        .into_iter()
        .collect()
}

fn one_node(scenario: &Scenario) -> Vec<Scenario> {
    each(scenario.zones.len(), |n| (scenario.zones.len() > 1).then(|| without_node(scenario.clone(), n)))
}

fn without_node(mut scenario: Scenario, node: usize) -> Scenario {
    let left = |nodes: &[usize]| -> Vec<usize> {
        nodes.iter().filter(|n| **n != node).map(|n| n - usize::from(*n > node)).collect()
    };
    scenario.zones.remove(node);
    for service in &mut scenario.services {
        (service.nodes, service.late) = (left(&service.nodes), left(&service.late));
        if service.nodes.is_empty() {
            service.nodes = vec![0];
            service.late.retain(|n| *n != 0);
        }
    }
    let services = &scenario.services;
    for upgrade in &mut scenario.upgrades {
        let whole = services[upgrade.service].nodes.len() as u64;
        upgrade.max_unavailable = upgrade.max_unavailable.clamp(1, whole);
        upgrade.min_in_service = upgrade.min_in_service.min(whole - upgrade.max_unavailable);
        upgrade.tolerate = upgrade.tolerate.min(whole);
    }
    scenario
}

fn simpler_world(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = vec![
        Scenario { coordinators: 1, ..scenario.clone() },
        Scenario { zones: vec!["a".to_owned(); scenario.zones.len()], ..scenario.clone() },
        Scenario { stream: None, ..scenario.clone() },
        Scenario { metadata: None, ..scenario.clone() },
        Scenario { max_request: None, ..scenario.clone() },
        Scenario { reinstalled: false, ..scenario.clone() },
        Scenario { latency: 0, ..scenario.clone() },
        Scenario { lies_everywhere: false, ..scenario.clone() },
    ];
    for n in 0..scenario.schemas.len() {
        let mut smaller = scenario.clone();
        smaller.schemas[n].rows = 0;
        all.push(smaller);
        let mut smaller = scenario.clone();
        smaller.schemas[n].empty_service = false;
        all.push(smaller);
        for edit in SIMPLER_GENERATIONS {
            let mut smaller = scenario.clone();
            smaller.schemas[n].generations.iter_mut().for_each(edit);
            all.push(smaller);
        }
    }
    all
}

const SIMPLER_GENERATIONS: [fn(&mut Generation); 4] = [
    |generation| generation.others_first = false,
    |generation| generation.irreversible = false,
    |generation| generation.after_roll = false,
    |generation| generation.old_reads = true,
];

fn simpler_services(scenario: &Scenario) -> Vec<Scenario> {
    let edits: [fn(&mut ServicePlan); 9] = [
        |service| service.late.clear(),
        |service| service.hooks = false,
        |service| service.unsupervised = false,
        |service| service.starts_alone = false,
        |service| service.one_url = false,
        |service| service.asks_balancer = false,
        |service| service.counts = false,
        |service| service.lingers = 0,
        |service| service.lease = 2,
    ];
    let mut all = edited(scenario, &edits, |scenario| &mut scenario.services);
    // Where nothing counts requests in flight, preflight lets no such upgrade start, and its failure is another one.
    all.retain(|smaller| {
        let mut that_fail = smaller.upgrades.iter().filter(|upgrade| upgrade.fails_on_deadline);
        that_fail.all(|upgrade| {
            let service = &smaller.services[upgrade.service];
            service.counts || service.asks_balancer
        })
    });
    all
}

fn simpler_upgrades(scenario: &Scenario) -> Vec<Scenario> {
    let edits: [fn(&mut UpgradePlan); 11] = [
        |upgrade| upgrade.strategy = serde_json::json!("immediate"),
        |upgrade| upgrade.strategy = serde_json::json!({"rolling": {"batch": 1}}),
        |upgrade| upgrade.approvals.clear(),
        |upgrade| upgrade.by_zone = false,
        |upgrade| upgrade.tolerate = 0,
        |upgrade| upgrade.release = ReleasePlan::Good,
        |upgrade| "rollback".clone_into(&mut upgrade.then),
        |upgrade| upgrade.drain_deadline = 5000,
        |upgrade| upgrade.healthy_time = 1000,
        |upgrade| upgrade.fails_on_deadline = false,
        |upgrade| upgrade.tried_once = true,
    ];
    // Nothing is simpler than `immediate`, which is a text; the others are objects.
    let may_change = |strategy: &serde_json::Value| strategy.is_object();
    let mut all = edited(scenario, &edits, |scenario| &mut scenario.upgrades);
    all.retain(|smaller| {
        let pairs = smaller.upgrades.iter().zip(&scenario.upgrades);
        pairs.into_iter().all(|(new, old)| new.strategy == old.strategy || may_change(&old.strategy))
    });
    all
}

fn simpler_faults(scenario: &Scenario) -> Vec<Scenario> {
    let edits: [fn(&mut super::scenario::Fault); 5] = [
        // An upgrade in which nothing happens can be left out then.
        |fault| fault.upgrade = 0,
        |fault| fault.after = 0,
        |fault| fault.after = fault.after / 200 * 100,
        |fault| fault.lasts = 200,
        |fault| fault.lasts = (fault.lasts / 200 * 100).max(200),
    ];
    edited(scenario, &edits, |scenario| &mut scenario.faults)
}

fn each(count: usize, make: impl FnMut(usize) -> Option<Scenario>) -> Vec<Scenario> {
    (0..count).rev().filter_map(make).collect()
}

/// Each edit to each of a list.
fn edited<T>(
    scenario: &Scenario,
    edits: &[fn(&mut T)],
    of: impl Fn(&mut Scenario) -> &mut Vec<T>,
) -> Vec<Scenario> {
    let count = of(&mut scenario.clone()).len();
    let each_edit = edits.iter().flat_map(|edit| (0..count).map(move |n| (edit, n)));
    each_edit
        .map(|(edit, n)| {
            let mut smaller = scenario.clone();
            edit(&mut of(&mut smaller)[n]);
            smaller
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::super::scenario::What;
    use super::*;

    fn fails_with(is_bad: impl Fn(&Scenario) -> bool) -> impl FnMut(&[Scenario]) -> Option<usize> {
        move |all| all.iter().position(&is_bad)
    }

    #[test]
    fn shrinking_leaves_out_what_the_failure_does_not_need() {
        let is_kill = |what: &What| matches!(what, What::AgentKilled(_));
        let has_kill = |scenario: &Scenario| scenario.faults.iter().any(|fault| is_kill(&fault.what));
        let large = (1..2000).map(draw::scenario).find(|s| s.faults.len() > 5 && has_kill(s)).unwrap();
        let small = shrink(large, fails_with(has_kill));
        assert_eq!((small.faults.len(), small.upgrades.len(), small.services.len()), (1, 1, 1));
        assert_eq!((small.zones.len(), small.coordinators, small.faults[0].after), (1, 1, 0));
    }

    #[test]
    fn every_smaller_one_is_a_scenario_that_can_be_played() {
        for seed in 1..200 {
            let scenario = draw::scenario(seed);
            for smaller in CUTS.iter().flat_map(|cut| cut(&scenario)) {
                let nodes = smaller.zones.len();
                for service in &smaller.services {
                    assert!(!service.nodes.is_empty(), "{seed}");
                    assert!(service.nodes.iter().chain(&service.late).all(|n| *n < nodes), "{seed}");
                    assert!(service.schema.is_none_or(|schema| schema < smaller.schemas.len()), "{seed}");
                }
                for (n, upgrade) in smaller.upgrades.iter().enumerate() {
                    let whole = smaller.services[upgrade.service].nodes.len() as u64;
                    assert!(upgrade.min_in_service < whole, "{seed}");
                    assert!((1..=whole).contains(&upgrade.max_unavailable), "{seed}");
                    let before = smaller.upgrades[..n].iter().filter(|u| u.service == upgrade.service);
                    let first = smaller.first_version(upgrade.service) as usize;
                    assert_eq!(before.count() + first, upgrade.from as usize, "{seed}");
                    let service = &smaller.services[upgrade.service];
                    assert!(!upgrade.fails_on_deadline || service.counts || service.asks_balancer, "{seed}");
                }
                assert!(smaller.faults.iter().all(|m| m.upgrade < smaller.upgrades.len()), "{seed}");
            }
        }
    }

    #[test]
    fn upgrades_that_wait_for_each_other_are_cut_together() {
        let shares = |drawn: &Scenario| !drawn.sharing(0).is_empty();
        let drawn: Vec<Scenario> = (1..500).map(draw::scenario).filter(shares).collect();
        let count = |of: &Scenario| of.upgrades.iter().filter(|upgrade| upgrade.service == 0).count();
        let is_cut = |large: &Scenario| {
            let smaller = last_upgrade_of_a_service(large);
            smaller.iter().any(|smaller| count(smaller) < count(large))
        };
        assert!(drawn.iter().any(is_cut), "the last version of a schema can be left out");
        for smaller in drawn.iter().flat_map(|large| CUTS.iter().flat_map(move |cut| cut(large))) {
            for upgrade in &smaller.upgrades {
                let schema = smaller.services[upgrade.service].schema;
                let also = |n: &usize| schema.is_some() && smaller.services[*n].schema == schema;
                let goes_there = |n: usize| {
                    smaller.upgrades.iter().any(|other| (other.service, other.from) == (n, upgrade.from))
                };
                let mut all = (0..smaller.services.len()).filter(also);
                assert!(all.all(goes_there), "{}: one waits for what was cut", smaller.seed);
            }
        }
    }

    fn kind(rule: u8, what: &str) -> Kind {
        // They are pantry and larder.
        let drawn = (1..500).map(draw::scenario).find(|drawn| drawn.services.len() == 2).unwrap();
        Kind::of(&Breach { at: 0, rule, what: what.to_owned() }, &drawn.services)
    }

    #[test]
    fn failures_are_of_a_kind_by_rule_and_words_without_names() {
        let one = kind(4, "revision 344: n03 was taken out beside the budget");
        assert_eq!(one, kind(4, "revision 9: n1 was taken out beside the budget"));
        assert_ne!(one, kind(2, "revision 344: n03 was taken out beside the budget"));
        assert_ne!(one, kind(4, "revision 344: 2 are out after n02 was taken out, 1 may be"));
        assert_eq!(kind(1, "larder was asked"), kind(1, "pantry was asked"));
    }

    #[test]
    fn dead_ends_are_of_a_kind_by_phase_and_reason() {
        let one = kind(0, "u0 does not end: Some(Roll), it requires floor 2 of larder; n01 is silent");
        let same = "u3-again does not end: Some(Roll), n02 is silent; it requires floor 3 of pantry";
        assert_eq!(one, kind(0, same));
        assert_eq!(one, kind(0, &format!("{same}; n03 is silent; n04 is silent")));
        for other in [
            "u0 does not end: Some(Expand), it requires floor 2 of larder; n01 is silent",
            "u0 does not end: Some(Roll), it requires floor 2 of larder; n01 is unready",
            "u0 does not end: Some(Roll), it requires an approval; n01 is silent",
            "u0 does not end: Some(Roll), it requires floor 2 of larder",
        ] {
            assert_ne!(one, kind(0, other), "{other}");
        }
    }
}
