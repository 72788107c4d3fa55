//! Begins and ends the trial of a waiting release. The gate is `gate::release::trial`.

use super::Step;
use crate::stream::change::Change;
use tidegate_proto::ReleaseRevision;

/// Begins or ends the trial of a release.
pub(super) fn set(change: &mut Change<'_>, revision: ReleaseRevision, on_trial: bool) -> Option<Step> {
    let head = change.stream.pending.iter_mut().find(|head| head.release.revision == revision)?;
    head.on_trial = on_trial;
    let (to, because) = match on_trial {
        true => (format!("revision {revision} on trial"), "every other gate is open"),
        false => (format!("revision {revision} pending"), "another gate has shut"),
    };
    Some(Step::recorded(format!("revision {revision} pending"), to, because))
}
