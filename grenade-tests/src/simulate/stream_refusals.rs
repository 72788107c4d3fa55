//! A refusal to go back to a release must be true: a revision that was deployed once can be deployed again, whatever came
//! after it and whether or not its image was removed since.

use super::stream_commands::STREAM;
use super::world::World;
use tidegate_coordinator::operation::OperationError;

/// The rule that it breaks.
const RULE: u8 = 7;

/// What every refusal of the planner to go back begins with.
const REFUSED: &str = "cannot roll back to revision ";

/// Compares what a coordinator said of a revision with what was seen of it.
pub(super) fn judge_refusal(world: &World, revision: u64, warms_up: bool, error: &OperationError) {
    let now = world.testbed.now();
    let facts = &mut world.testbed.state().facts;
    let release = facts.streams.releases.get(&(STREAM.to_owned(), revision));
    let was_deployed = release.is_some_and(|release| release.deployed_at.is_some()) && !facts.streams.lost;
    let stream = facts.streams.now.get(STREAM);
    let has_hook = stream.is_some_and(|stream| stream.settings.prewarm.is_some());
    if was_deployed && !is_true(error, warms_up && has_hook) {
        facts.breach(
            now,
            RULE,
            format!("revision {revision} was deployed once, and it may not go back: {error}"),
        );
    }
}

/// Whether that may be why a revision cannot be deployed again which was deployed once: storage is too old for it, its image
/// is being removed, or is gone and nothing pulls it, or too many releases wait; or the store cannot be asked.
fn is_true(error: &OperationError, can_warm_up: bool) -> bool {
    match error {
        OperationError::NotFound(_) => false,
        OperationError::Refused(why) if why.starts_with(REFUSED) => {
            let by_storage = why.split_once(": ").is_some_and(|(which, _)| which.ends_with(')'));
            by_storage
                || why.contains(" wait already")
                || !can_warm_up && (why.contains("is being removed") || why.contains("has no prewarm hook"))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_deployed_once_is_refused_for_few_reasons() {
        let refused =
            |why: &str| OperationError::Refused(format!("cannot roll back to revision 3 of main{why}"));
        let storage = refused(" (release-3): pantry runs version 1, and version 2 is needed");
        assert!(is_true(&storage, true));
        assert!(!is_true(&refused(": it was never deployed (pending)"), true));
        assert!(!is_true(&refused(": it was collected; release it again"), false));
        let removed = refused(": its image is being removed (hook drop runs on n00)");
        assert!(is_true(&removed, false));
        assert!(!is_true(&removed, true), "it waits for that and pulls it again");
        assert!(is_true(&refused(": it was collected, and 32 releases of main wait already"), true));
        assert!(!is_true(&OperationError::NotFound("there is no revision 3 of main".to_owned()), true));
        assert!(is_true(&OperationError::Unavailable("no coordinator leads".to_owned()), true));
        assert!(is_true(&OperationError::Refused("the store was restored".to_owned()), true));
    }
}
