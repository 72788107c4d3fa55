//! Until when what an agent saw and did is no evidence of what ran on its node.

use std::collections::BTreeMap;

/// No hook that was begun before an agent was stopped, or lost its journal, lasts longer, in milliseconds.
pub(super) const SETTLED: u64 = 60_000;

/// Whether the last time in which the agent of a node saw or knew nothing, or lied, lasted until this time, or ended so short
/// a time before that what was begun then may have been under way.
pub(super) fn lasted_until(ended: &BTreeMap<usize, u64>, node: usize, time: u64) -> bool {
    ended.get(&node).is_some_and(|end| time <= end.saturating_add(SETTLED))
}
