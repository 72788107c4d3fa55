//! The ways in which the fleet is rolled, and the least that each takes.

use crate::bench::overhead::fleets::{Fleets, HOOK, tag};
use crate::fixture::node::SERVICE;

/// One way.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Its word in figures.
    pub word: &'static str,
    /// As the spec has it.
    strategy: &'static str,
    /// How many may be out at once.
    at_once: u32,
    /// The waves that it should come to.
    pub waves: Vec<u32>,
}

impl Plan {
    /// One at a time; a tenth at a time; by canary waves, a tenth at a time.
    pub(super) fn all(nodes: u32) -> Vec<Self> {
        let share = |percent: u32| (nodes * percent).div_ceil(100).max(1);
        let tenth = share(10);
        let mut canary = vec![1, share(1), share(5), share(20)];
        canary.push(nodes - canary.iter().sum::<u32>());
        vec![
            Self {
                word: "by 1",
                strategy: "{rolling: {batch: 1}}",
                at_once: 1,
                waves: vec![1; nodes as usize],
            },
            Self {
                word: "by 10 %",
                strategy: "{rolling: {batch: 10%}}",
                at_once: tenth,
                waves: chunks(nodes, tenth),
            },
            Self { word: "canary", strategy: "{canary: {}}", at_once: tenth, waves: canary },
        ]
    }

    /// The sizes of what goes through side by side, in order: each wave in turns of as many as may be out.
    pub(super) fn batches(&self) -> Vec<u32> {
        self.waves.iter().flat_map(|wave| chunks(*wave, self.at_once)).collect()
    }

    /// How many of them there are.
    pub(super) fn turns(&self) -> usize {
        self.batches().len()
    }

    /// The least seconds that it takes: in each turn, one hook after the other.
    pub(super) fn ideal(&self) -> f64 {
        self.turns() as f64 * 2.0 * HOOK.as_secs_f64()
    }

    /// The spec of a hop: nothing is waited for by design.
    pub(super) fn spec(&self, from: u32, to: u32) -> String {
        format!(
            "service: {SERVICE}\nfrom: {from}\nto: {to}\nrelease: {{tag: {tag}, sha256: {sha256}}}\n\
             strategy: {strategy}\nmax_unavailable: {at_once}\n\
             health: {{min_healthy_time: 0s, healthy_deadline: 1m, progress_deadline: 2m}}\n\
             drain: {{evidence: settle, settle: 0s, deadline: 30s, on_deadline: fail}}\n",
            tag = tag(to),
            sha256 = Fleets::digest(to),
            strategy = self.strategy,
            at_once = self.at_once,
        )
    }
}

fn chunks(whole: u32, size: u32) -> Vec<u32> {
    (0..whole).step_by(size as usize).map(|done| size.min(whole - done)).collect()
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn fifty_take_fifty_ten_and_twelve_turns() {
        let turns: Vec<usize> = Plan::all(50).iter().map(Plan::turns).collect();
        assert_eq!(turns, [50, 10, 12]);
        let canary = Plan::all(50).pop().unwrap();
        assert_eq!(canary.waves, [1, 1, 3, 10, 35]);
        assert_eq!(canary.batches(), [1, 1, 3, 5, 5, 5, 5, 5, 5, 5, 5, 5]);
        assert!((canary.ideal() - 4.8).abs() < 1e-9);
    }
}
