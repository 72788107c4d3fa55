//! Draws a plan from a seed.

use serde_json::json;

use super::plan::{COORDINATORS, Cut, Fault, MEMBERS, NODES, Plan, UpgradePlan, What};
use crate::simulate::dice::Dice;

/// The phases in which something can happen.
const PHASES: [&str; 7] = ["stage", "expand", "migrate", "roll", "remove", "contract", "rolling-back"];
/// Phases from which a rollback is possible.
const BACK: [&str; 5] = ["stage", "expand", "migrate", "roll", "remove"];
/// How many kinds of faults there are.
const KINDS: u64 = 38;

/// A plan with so many upgrades. A plan with more of them begins with the same ones.
pub fn plan(seed: u64, upgrades: usize) -> Plan {
    let mut deck = Deck { dice: Dice::of(seed, "mishaps"), left: Vec::new() };
    let mut dice = Dice::of(seed, "upgrades");
    let upgrades = (0..upgrades).map(|_| upgrade(&mut dice, &mut deck)).collect();
    Plan { seed, upgrades }
}

fn upgrade(dice: &mut Dice, deck: &mut Deck) -> UpgradePlan {
    let max_unavailable = number(dice.within(1, 3));
    let strategy = match dice.below(3) {
        0 => json!({"canary": {"steps": [1, 3, "rest"]}}),
        1 => json!({"rolling": {"batch": dice.within(2, 4)}}),
        _ => json!("immediate"),
    };
    let points = ["stage", "expand", "migrate", "roll", "remove", "contract"];
    let approvals = points.into_iter().filter(|_| dice.percent(50)).map(str::to_owned).collect();
    let back = dice.percent(40);
    // Drawn in any case: whether one is rolled back moves no other throw.
    let (phase, after) = (dice.pick(&BACK).copied().unwrap_or("roll"), dice.within(300, 6000));
    UpgradePlan {
        strategy,
        min_in_service: NODES - max_unavailable - number(dice.below(2)),
        max_unavailable,
        approvals,
        approves_after: dice.within(500, 3000),
        then: if dice.percent(50) { "pause" } else { "rollback" }.to_owned(),
        rolled_back: back.then(|| (phase.to_owned(), after)),
        faults: (0..dice.within(5, 9)).map(|_| deck.fault(back)).collect(),
    }
}

/// Kinds are dealt like cards: each comes once before any comes again.
struct Deck {
    dice: Dice,
    left: Vec<u64>,
}

impl Deck {
    fn fault(&mut self, back: bool) -> Fault {
        if self.left.is_empty() {
            self.left = (0..KINDS).collect();
        }
        let at = self.dice.below(self.left.len() as u64);
        let kind = self.left.swap_remove(number(at));
        let dice = &mut self.dice;
        let possible = if back { &PHASES[..] } else { &PHASES[..6] };
        let phase = if dice.percent(40) { "roll" } else { dice.pick(possible).copied().unwrap_or("roll") };
        Fault {
            phase: phase.to_owned(),
            after: if phase == "roll" { dice.below(15_000) } else { dice.below(1500) },
            lasts: if dice.percent(50) { dice.within(500, 4000) } else { dice.within(4000, 15_000) },
            what: what(dice, kind),
        }
    }
}

fn what(dice: &mut Dice, kind: u64) -> What {
    let node = number(dice.below(NODES as u64));
    let member = number(dice.below(MEMBERS as u64));
    let coordinator = number(dice.below(COORDINATORS as u64));
    let size = *dice.pick(&[5, 90, 3600, 86_400]).unwrap_or(&5);
    let step = if dice.percent(50) { size } else { -size };
    match kind {
        0 => What::MemberKilled(member),
        1 => What::MemberStalled(member),
        2 => What::MemberDiskSlow(member),
        3 | 4 => What::Compaction,
        5 | 6 => What::LeaderKilled,
        7 => What::LeaderStalled,
        8 => What::FollowerKilled,
        9 => What::FollowerStalled,
        10 | 11 => What::AgentKilled(node),
        12 => What::AgentStalled(node),
        13 => What::ServiceKilled(node),
        14 => What::ServiceStalled(node),
        15 => What::BalancerKilled,
        16 => What::BalancerStalled,
        17 => What::BackendKilled(node),
        18 => What::DatabaseKilled,
        19 => What::DatabaseStalled,
        20 => What::ReplicaPromoted,
        21 => What::Cut(Cut::CoordinatorMember(coordinator, member)),
        22 => What::Cut(Cut::CoordinatorStore(coordinator)),
        23 => What::Cut(Cut::Coordinators),
        24 => What::Cut(Cut::CoordinatorDatabase(coordinator)),
        25 => What::Cut(Cut::CoordinatorAgent(coordinator, node)),
        26 => What::Cut(Cut::AgentMember(node, member)),
        27 => What::Cut(Cut::AgentStore(node)),
        28 => What::Cut(Cut::NodeDatabase(node)),
        29 => What::Cut(Cut::NodeBalancer(node)),
        30 => What::Cut(Cut::Members(member, (member + 1) % MEMBERS)),
        31 => What::Cut(Cut::Replication),
        32 => What::DiskFull(node),
        33 => What::DiskSlow(node),
        34 => What::CoordinatorClock(coordinator, step),
        35 => What::NodeClock(node, step),
        36 => What::DatabaseClock(step),
        _ => What::Cut(Cut::MemberAlone(member)),
    }
}

fn number(n: u64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn longer_plan_of_a_seed_begins_with_the_shorter_one() {
        let (short, long) = (plan(7, 3), plan(7, 9));
        assert_eq!(short.upgrades[..], long.upgrades[..3]);
        assert_ne!(plan(8, 3), short);
    }

    #[test]
    fn every_kind_is_dealt_once_before_any_comes_again() {
        let drawn = plan(1, 30);
        let kinds = drawn.upgrades.iter().flat_map(|upgrade| &upgrade.faults).map(|m| m.what.kind());
        let first: BTreeSet<String> = kinds.take(number(KINDS)).collect();
        // Three kinds have two numbers each.
        assert_eq!(first.len(), number(KINDS) - 3, "{first:?}");
    }

    #[test]
    fn plan_that_is_kept_is_the_same_plan() {
        let drawn = plan(3, 4);
        let kept = serde_json::to_string(&drawn).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&kept).unwrap(), drawn);
    }
}
