//! Draws a plan from a seed.

use serde_json::json;
use std::collections::BTreeSet;

use super::plan::{COORDINATORS, Cut, Fault, MEMBERS, NODES, Plan, UpgradePlan, What};
use crate::simulate::dice::Dice;

/// The phases in which something can happen.
const PHASES: [&str; 7] = ["stage", "expand", "migrate", "roll", "remove", "contract", "rolling-back"];
/// Phases from which a rollback is possible.
const BACK: [&str; 5] = ["stage", "expand", "migrate", "roll", "remove"];
/// How many kinds of faults there are; one that is there twice counts twice.
const KINDS: usize = 38;

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
    /// Places in [`kinds`].
    left: Vec<usize>,
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
            what: kinds(dice)[kind],
        }
    }
}

/// Every kind of fault, at targets that are drawn; those twice that are twice as likely.
fn kinds(dice: &mut Dice) -> [What; KINDS] {
    let node = number(dice.below(NODES as u64));
    let member = number(dice.below(MEMBERS as u64));
    let coordinator = number(dice.below(COORDINATORS as u64));
    let size = *dice.pick(&[5, 90, 3600, 86_400]).unwrap_or(&5);
    let step = if dice.percent(50) { size } else { -size };
    [
        What::MemberKilled(member),
        What::MemberStalled(member),
        What::MemberDiskSlow(member),
        What::Compaction,
        What::Compaction,
        What::LeaderKilled,
        What::LeaderKilled,
        What::LeaderStalled,
        What::FollowerKilled,
        What::FollowerStalled,
        What::AgentKilled(node),
        What::AgentKilled(node),
        What::AgentStalled(node),
        What::ServiceKilled(node),
        What::ServiceStalled(node),
        What::BalancerKilled,
        What::BalancerStalled,
        What::BackendKilled(node),
        What::DatabaseKilled,
        What::DatabaseStalled,
        What::ReplicaPromoted,
        What::Cut(Cut::CoordinatorMember(coordinator, member)),
        What::Cut(Cut::CoordinatorStore(coordinator)),
        What::Cut(Cut::Coordinators),
        What::Cut(Cut::CoordinatorDatabase(coordinator)),
        What::Cut(Cut::CoordinatorAgent(coordinator, node)),
        What::Cut(Cut::AgentMember(node, member)),
        What::Cut(Cut::AgentStore(node)),
        What::Cut(Cut::NodeDatabase(node)),
        What::Cut(Cut::NodeBalancer(node)),
        What::Cut(Cut::Members(member, (member + 1) % MEMBERS)),
        What::Cut(Cut::Replication),
        What::DiskFull(node),
        What::DiskSlow(node),
        What::CoordinatorClock(coordinator, step),
        What::NodeClock(node, step),
        What::DatabaseClock(step),
        What::Cut(Cut::MemberAlone(member)),
    ]
}

/// A kind of fault by its name, as [`What::kind`] has it.
///
/// # Errors
/// Where there is no such kind: with all names.
pub(super) fn kind_named(text: &str) -> Result<String, String> {
    let all: BTreeSet<String> = kinds(&mut Dice::of(0, "kinds")).iter().map(What::kind).collect();
    match all.contains(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("no kind of faults; there are {}", Vec::from_iter(all).join(", "))),
    }
}

fn number(n: u64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

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
        let first: BTreeSet<String> = kinds.take(KINDS).collect();
        // Three kinds are there twice.
        assert_eq!(first.len(), KINDS - 3, "{first:?}");
    }

    /// The names of an enum's variants: serde lists them where it is given another one.
    fn variants<T: DeserializeOwned + Debug>() -> Vec<String> {
        let refused = serde_json::from_str::<T>("\"none\"").unwrap_err().to_string();
        let (_, listed) = refused.split_once("expected one of").unwrap();
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn each_kind_of_fault_can_be_drawn() {
        let cuts = variants::<Cut>().into_iter().map(|cut| format!("Cut {cut}"));
        let others = variants::<What>().into_iter().filter(|what| what != "Cut");
        let all: BTreeSet<String> = others.chain(cuts).collect();
        let drawn: BTreeSet<String> = kinds(&mut Dice::of(1, "kinds")).iter().map(What::kind).collect();
        assert_eq!(drawn, all);
    }

    #[test]
    fn fault_that_is_of_no_kind_is_refused_with_the_kinds() {
        assert_eq!(kind_named("Cut Members"), Ok("Cut Members".to_owned()));
        let refused = kind_named("LeaderKiled").unwrap_err();
        assert!(refused.contains("LeaderKilled") && refused.contains("Cut Members"), "{refused}");
    }

    #[test]
    fn plan_that_is_kept_is_the_same_plan() {
        let drawn = plan(3, 4);
        let kept = serde_json::to_string(&drawn).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&kept).unwrap(), drawn);
    }
}
