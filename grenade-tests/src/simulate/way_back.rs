//! A refusal to roll back must be true: only rows that the former version cannot read, and that this upgrade migrates, are
//! a reason, and not those of a migration that ended long before.

use super::upgrade_id::place_of;
use super::world::World;

/// The rule that a rollback keeps.
const RULE: u8 = 10;

/// Whether a rollback is refused for as long as the upgrade lasts: rows were migrated, or contract has begun.
pub(super) fn is_final(why: &str) -> bool {
    why.contains("has started")
}

/// Compares what a coordinator said of an upgrade with what its migration does.
pub(super) fn judge_refusal(world: &World, id: &str, why: &str) {
    if !why.contains("cannot read migrated rows") {
        return;
    }
    let Some(plan) = place_of(id).and_then(|place| world.scenario.upgrades.get(place)) else { return };
    let Some(schema) = world.scenario.owned_schema(plan.service) else { return };
    let generations = &world.scenario.schemas[schema].generations;
    let own = usize::try_from(plan.from - 1).ok().and_then(|place| generations.get(place));
    if own.is_some_and(|generation| generation.old_reads) {
        let what = format!(
            "{id} may not roll back ({why}), and its own migration leaves rows that version {} reads",
            plan.from
        );
        world.testbed.state().facts.breach(world.testbed.now(), RULE, what);
    }
}

#[cfg(test)]
mod tests {
    use super::is_final;

    #[test]
    fn refusal_that_lasts_is_found_by_its_reason() {
        let refused = |why: &str| format!("cannot roll back upgrade u2{why}");
        let migrated = ": migrate has started, and the old version cannot read migrated rows";
        assert!(is_final(&refused(migrated)));
        assert!(is_final(&refused(": contract has started and has dropped what the old version needs")));
        let needed = " as things stand: the floor of pantry cannot fall to 1: revision 7 of compute (release-4) is \
                      deployed and needs 2";
        assert!(!is_final(&refused(needed)));
        assert!(!is_final("no coordinator leads"));
    }
}
