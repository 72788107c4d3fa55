//! Draws what the network between processes and the store is like, with dice of its own.

use super::super::dice::Dice;
use super::super::scenario::{Fault, Scenario, What};
use super::super::slot::Hiccup;
use super::faults::{length, one_of, roll_back};

/// In three of ten worlds, messages to the store and from it take their time: then a process is also killed, or stalls, between
/// a request and its answer.
pub(super) fn latency(dice: &mut Dice) -> u64 {
    if dice.percent(30) { *dice.pick(&[2, 8, 30]).unwrap_or(&2) } else { 0 }
}

/// In a quarter of the worlds, watches of coordinators hang; in most of these, instances fail meanwhile, which no coordinator
/// sees.
pub(super) fn hung_watches(dice: &mut Dice, world: &Scenario) -> Vec<Fault> {
    if !dice.percent(25) {
        return Vec::new();
    }
    let (upgrade, phase, mut faults) = within(dice, world);
    let after = match phase {
        "roll" => dice.below(15_000),
        "rolling-back" => dice.below(4_000),
        _ => dice.below(400),
    };
    let lasts = length(dice, &What::WatchesHang);
    let during = |after, lasts, what| Fault { upgrade, phase: phase.to_owned(), after, lasts, what };
    faults.push(during(after, lasts, What::WatchesHang));
    let fail = if dice.percent(70) { dice.within(1, 3) } else { 0 };
    for _ in 0..fail {
        let node = usize::try_from(dice.below(40)).unwrap_or(0);
        let what = match dice.below(3) {
            0 => What::NodeDies(node),
            1 => What::Crash(node),
            _ => What::OneHiccup(node, Hiccup::Ready),
        };
        let since = dice.below(lasts.min(3_000));
        let lasts = length(dice, &what);
        faults.push(during(after + since, lasts, what));
    }
    faults
}

/// In a sixth of the worlds, some requests reach the store twice.
pub(super) fn repeated_requests(dice: &mut Dice, world: &Scenario) -> Vec<Fault> {
    if !dice.percent(16) {
        return Vec::new();
    }
    let (upgrade, phase, mut faults) = within(dice, world);
    let after = if phase == "roll" { dice.below(10_000) } else { 0 };
    let (what, lasts) = (What::RequestsRepeat, length(dice, &What::RequestsRepeat));
    faults.push(Fault { upgrade, phase: phase.to_owned(), after, lasts, what });
    faults
}

/// In which upgrade and phase something happens, with what brings the upgrade there.
fn within(dice: &mut Dice, world: &Scenario) -> (usize, &'static str, Vec<Fault>) {
    let (upgrade, phases) = one_of(dice, &world.upgrades, &world.services);
    let phase = *dice.pick(&phases).unwrap_or(&"roll");
    (upgrade, phase, roll_back(dice, upgrade, phase).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::scenario;
    use super::*;

    #[test]
    fn watches_hang_in_some_worlds_while_instances_fail() {
        let of = |seed| hung_watches(&mut Dice::of(seed, "hung watches"), &scenario(seed));
        let drawn: Vec<Vec<Fault>> = (1..=1_000).map(of).filter(|faults| !faults.is_empty()).collect();
        assert!((200..=300).contains(&drawn.len()), "{} of 1,000", drawn.len());
        let fails = |what: &What| matches!(what, What::NodeDies(_) | What::Crash(_) | What::OneHiccup(..));
        let with = drawn.iter().filter(|faults| faults.iter().any(|fault| fails(&fault.what))).count();
        assert!(with * 2 > drawn.len(), "{with} of {}", drawn.len());
        for faults in &drawn {
            let hung = faults.iter().find(|fault| fault.what == What::WatchesHang).unwrap();
            let during = hung.after..hung.after + hung.lasts;
            assert!(
                faults.iter().filter(|fault| fails(&fault.what)).all(|fault| during.contains(&fault.after))
            );
        }
    }

    #[test]
    fn requests_repeat_in_some_worlds() {
        let of = |seed| repeated_requests(&mut Dice::of(seed, "repeated requests"), &scenario(seed));
        let drawn = (1..=1_000).filter(|seed| !of(*seed).is_empty()).count();
        assert!((120..=200).contains(&drawn), "{drawn} of 1,000");
    }

    #[test]
    fn messages_take_their_time_in_some_worlds() {
        let drawn = (1..=1_000).map(|seed| latency(&mut Dice::of(seed, "latency")));
        let far = drawn.filter(|latency| *latency > 0).count();
        assert!((250..=350).contains(&far), "{far} of 1,000");
    }
}
