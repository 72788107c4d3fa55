//! A refusal to roll back must be true: only rows that the former version cannot read, and that this upgrade migrates, are
//! a reason, and not those of a migration that ended long before.

use super::operator::NotDone;
use super::upgrade_id::place_of;
use super::world::World;
use tidegate_planner::ask::RollbackBar;

/// The rule that a rollback keeps.
const RULE: u8 = 10;

/// Compares what a coordinator said of an upgrade with what its migration does.
pub(super) fn judge_refusal(world: &World, id: &str, refused: &NotDone) {
    if refused.bar != Some(RollbackBar::Rows) {
        return;
    }
    let Some(plan) = place_of(id).and_then(|place| world.scenario.upgrades.get(place)) else { return };
    let Some(schema) = world.scenario.owned_schema(plan.service) else { return };
    let generations = &world.scenario.schemas[schema].generations;
    let own = usize::try_from(plan.from - 1).ok().and_then(|place| generations.get(place));
    if own.is_some_and(|generation| generation.old_reads) {
        let what = format!(
            "{id} may not roll back ({}), and its own migration leaves rows that version {} reads",
            refused.why, plan.from
        );
        world.testbed.state().facts.breach(world.testbed.now(), RULE, what);
    }
}
