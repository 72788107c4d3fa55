//! Whether the steps that were executed are those that are documented.

use crate::gate::file::documented::{Documented, is_documented};
use crate::gate::steps::Step;
use crate::gate::verdict::{Check, Word};

const CHECK: &str = "the documented steps are those that were executed";

/// Compares both lists step by step. What a plan asked for is in no documentation. An upgrade that did not complete has not
/// come to its last steps: whether it should have, another check says.
pub(super) fn as_documented(documented: &Documented, steps: &[Step], completed: bool) -> Check {
    let executed: Vec<&Step> = steps.iter().filter(|step| !step.of_plan).collect();
    let at = |step: &Step| format!("`{}` was executed at {:.1} s", step.command, step.at_ms / 1e3);
    let fail = |found| Check::new(CHECK, Word::Fail, found);
    for (n, step) in executed.iter().enumerate() {
        let number = n + 1;
        match documented.steps().get(n) {
            None => return fail(format!("step {number}: {}, and no further step is documented", at(step))),
            Some(right) if !is_documented(right, &step.command) => {
                return fail(format!("step {number}: `{right}` is documented, and {}", at(step)));
            }
            Some(_) => {}
        }
        if let Some(why) = &step.failed {
            return fail(format!("step {number}: {}, and failed: {why}", at(step)));
        }
    }
    match documented.steps().get(executed.len()) {
        None => Check::new(CHECK, Word::Pass, format!("all of {} steps", executed.len())),
        Some(missing) => {
            let (number, word) =
                (executed.len() + 1, if completed { Word::Fail } else { Word::Inconclusive });
            let found = format!("step {number}: `{missing}` is documented, and nothing more was executed");
            Check::new(CHECK, word, found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::file::documented::documented_of;
    use crate::load::findings::Findings;

    const EXECUTED: [&str; 3] = [
        "tidegate upgrade start /w/upgrade.yaml --id gate",
        "items expand",
        "tidegate upgrade approve gate roll",
    ];

    fn judged(documented: &[&str], executed: &[&str], completed: bool) -> Check {
        let documented = documented.iter().map(|step| (*step).to_owned()).collect();
        let documented = documented_of(Some(documented), &mut Findings::default()).unwrap();
        let step = |(n, command): (usize, &&str)| Step {
            at_ms: n as f64 * 1e3,
            command: (*command).to_owned(),
            failed: None,
            of_plan: command.contains("pause"),
        };
        let steps: Vec<Step> = executed.iter().enumerate().map(step).collect();
        as_documented(&documented, &steps, completed)
    }

    #[test]
    fn same_steps_in_the_same_order_pass() {
        let documented =
            ["tidegate upgrade start … --id …", "items expand", "tidegate upgrade approve … roll…"];
        let check = judged(&documented, &EXECUTED, true);
        assert_eq!((check.verdict, check.found.as_str()), (Word::Pass, "all of 3 steps"));
        let with_plan = [EXECUTED[0], "tidegate upgrade pause gate", EXECUTED[1], EXECUTED[2]];
        assert_eq!(judged(&documented, &with_plan, true).verdict, Word::Pass);
    }

    #[test]
    fn first_difference_fails_and_is_named() {
        let [start, expand, approve] = EXECUTED;
        for (documented, found) in [
            (
                vec![start, approve, expand],
                "step 2: `tidegate upgrade approve gate roll` is documented, and `items expand` was executed at 1.0 s",
            ),
            (
                vec![start, expand],
                "step 3: `tidegate upgrade approve gate roll` was executed at 2.0 s, and no further step is documented",
            ),
            (
                vec![start, expand, approve, "items contract"],
                "step 4: `items contract` is documented, and nothing more was executed",
            ),
        ] {
            let check = judged(&documented, &EXECUTED, true);
            assert_eq!((check.verdict, check.found.as_str()), (Word::Fail, found));
        }
    }

    #[test]
    fn step_that_was_not_reached_is_inconclusive() {
        let check = judged(&EXECUTED, &EXECUTED[..2], false);
        assert_eq!(check.verdict, Word::Inconclusive, "{check:?}");
        let another = judged(&EXECUTED, &["items expand"], false);
        assert_eq!(another.verdict, Word::Fail, "{another:?}");
    }
}
