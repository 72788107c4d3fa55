//! How large each wave is: five percent of 30 nodes is two.

use tidegate_proto::spec::{CanaryStep, Strategy};

/// The sizes of the waves of a fleet; they add up to `fleet`, and none is 0.
pub fn sizes(strategy: &Strategy, fleet: usize) -> Vec<usize> {
    let steps: Vec<usize> = match strategy {
        Strategy::Immediate => vec![fleet],
        Strategy::Rolling { batch } => vec![batch.rounded_up(fleet).max(1); fleet],
        Strategy::Canary { steps } => steps.iter().map(|step| canary(*step, fleet)).collect(),
    };
    take(steps, fleet)
}

/// Heat: a share of the fleet as it was when the roll began, rounded up, at least 1; then the rest.
fn canary(step: CanaryStep, fleet: usize) -> usize {
    match step {
        CanaryStep::Rest => fleet,
        CanaryStep::Of(amount) => amount.rounded_up(fleet).max(1),
    }
}

/// The steps in order until the fleet is used up; what no step takes is a last wave of its own.
fn take(steps: Vec<usize>, fleet: usize) -> Vec<usize> {
    let mut left = fleet;
    let mut waves = Vec::new();
    for step in steps.into_iter().chain([fleet]) {
        let size = step.min(left);
        if size > 0 {
            waves.push(size);
        }
        left -= size;
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::Amount;

    fn canary_of(steps: &[&str]) -> Strategy {
        let step = |text: &&str| {
            if *text == "rest" { CanaryStep::Rest } else { CanaryStep::Of(text.parse().unwrap()) }
        };
        Strategy::Canary { steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn heats_canary_is_1_then_1_5_and_20_percent_then_the_rest() {
        let heat = canary_of(&["1", "1%", "5%", "20%", "rest"]);
        assert_eq!(sizes(&heat, 100), [1, 1, 5, 20, 73]);
        assert_eq!(sizes(&heat, 30), [1, 1, 2, 6, 20]);
        assert_eq!(sizes(&heat, 6), [1, 1, 1, 2, 1]);
        assert_eq!(sizes(&heat, 3), [1, 1, 1]);
        assert_eq!(sizes(&heat, 1), [1]);
        assert_eq!(sizes(&heat, 20_000), [1, 200, 1000, 4000, 14_799]);
    }

    #[test]
    fn rolling_and_immediate() {
        assert_eq!(sizes(&Strategy::Rolling { batch: Amount::Count(2) }, 5), [2, 2, 1]);
        assert_eq!(sizes(&Strategy::Rolling { batch: "10%".parse().unwrap() }, 50), [5; 10]);
        assert_eq!(sizes(&Strategy::Immediate, 7), [7]);
        assert!(sizes(&Strategy::Immediate, 0).is_empty());
    }

    #[test]
    fn instances_of_no_step_are_a_last_wave() {
        assert_eq!(sizes(&canary_of(&["1", "10%"]), 20), [1, 2, 17]);
    }
}
