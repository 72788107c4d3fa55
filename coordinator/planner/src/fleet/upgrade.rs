//! What an upgrade in its phase wants of every instance of its service.

use super::Instance;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::{Phase, RollbackStep, Upgrade};
use tidegate_proto::{Release, ReleaseTag};

/// The release that it moves its instances to: the new one, or the former one once it turned.
pub(crate) fn target(upgrade: &Upgrade) -> Release {
    match (&upgrade.phase, &upgrade.former) {
        (Phase::RollingBack { .. }, Some(former)) => former.release.clone(),
        _ => upgrade.spec.target(),
    }
}

/// The release that a rollback moves instances away from: one whose agent names it is not back, whatever version it answers.
pub(crate) fn moved_from(upgrade: &Upgrade) -> Option<&ReleaseTag> {
    let (Phase::RollingBack { .. }, Some(former)) = (&upgrade.phase, &upgrade.former) else { return None };
    Some(&upgrade.spec.release.tag).filter(|tag| **tag != former.release.tag)
}

/// The former release, where a rollback finds an instance under a replacement with another one: no order of the roll is given
/// once more.
pub(crate) fn turned_to<'a>(upgrade: &'a Upgrade, instance: &Instance) -> Option<&'a Release> {
    let (Phase::RollingBack { .. }, Some(former)) = (&upgrade.phase, &upgrade.former) else { return None };
    let last = instance.directive.as_ref().map(|directive| &directive.disposition);
    let is_of_roll = matches!(last, Some(Disposition::Replace { release }) if *release != former.release);
    is_of_roll.then_some(&former.release)
}

/// Whether a rollback leaves an instance under its order of the roll: its node is cordoned.
pub(crate) fn stays_under_order(upgrade: &Upgrade, instance: &Instance) -> bool {
    instance.cordoned && instance.is_still_out_by_order() && turned_to(upgrade, instance).is_some()
}

/// The releases that it wants present on every node: both while it may still move either way, then one.
pub(crate) fn releases(upgrade: &Upgrade) -> Vec<Release> {
    let Some(former) = &upgrade.former else { return Vec::new() };
    let (old, new) = (former.release.clone(), upgrade.spec.target());
    match &upgrade.phase {
        Phase::Preflight => Vec::new(),
        Phase::Remove | Phase::Contract { .. } | Phase::Completed => vec![new],
        Phase::RollingBack { step: RollbackStep::Lower | RollbackStep::Undo, .. }
        | Phase::RolledBack { .. } => {
            vec![old]
        }
        _ => vec![old, new],
    }
}
