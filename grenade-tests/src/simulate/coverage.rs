//! Whether enough happened in many schedules: a world in which a fault never begins says nothing about it.

use super::draw::{PHASES, kinds};
use std::collections::{BTreeMap, BTreeSet};

/// So many schedules are enough to demand every kind in every phase.
const ENOUGH: u64 = 3_000;

/// How often each kind begins in each phase then, at least.
const LEAST: u64 = 10;

/// What was counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted<'a> {
    /// Schedules.
    pub done: u64,
    /// By kind of fault and phase.
    pub fired: &'a BTreeMap<(String, String), u64>,
    /// Schedules in which some upgrade reached a phase.
    pub reached: &'a BTreeMap<String, u64>,
    /// Schedules in which some upgrade reached contract or was rolled back.
    pub far: u64,
}

/// What is missing; nothing where there were too few schedules to judge.
pub(super) fn gaps(counted: Counted<'_>) -> Vec<String> {
    if counted.done < ENOUGH {
        return Vec::new();
    }
    let mut gaps = Vec::new();
    let roll = counted.reached.get("roll").copied().unwrap_or(0);
    if roll * 2 < counted.done {
        gaps.push(format!("{roll} of {} schedules reached roll, at least half must", counted.done));
    }
    if counted.far * 5 < counted.done {
        gaps.push(format!(
            "{} of {} schedules reached contract or rolled-back, at least a fifth must",
            counted.far, counted.done
        ));
    }
    for kind in kinds(0).iter().map(super::scenario::What::kind).collect::<BTreeSet<_>>() {
        for phase in PHASES {
            let times = counted.fired.get(&(kind.clone(), phase.to_owned())).copied().unwrap_or(0);
            if times < LEAST {
                gaps.push(format!("{kind} began {times} times in {phase}, at least {LEAST} are needed"));
            }
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_that_never_began_is_a_gap_after_enough_schedules() {
        let all = kinds(0);
        let cells = all.iter().flat_map(|what| PHASES.map(|phase| ((what.kind(), phase.to_owned()), LEAST)));
        let mut fired: BTreeMap<_, _> = cells.collect();
        let reached: BTreeMap<_, _> = [("roll".to_owned(), 2_000)].into();
        let gaps_of =
            |fired: &BTreeMap<_, _>, done, far| gaps(Counted { done, fired, reached: &reached, far });
        assert_eq!(gaps_of(&fired, ENOUGH, 700), Vec::<String>::new());
        assert_eq!(gaps_of(&fired, ENOUGH, 500).len(), 1);
        fired.remove(&("Compaction".to_owned(), "contract".to_owned()));
        assert_eq!(gaps_of(&fired, ENOUGH, 700).len(), 1);
        assert_eq!(gaps_of(&fired, ENOUGH - 1, 700), Vec::<String>::new());
    }
}
