//! What runs: the release that was started last, or another one. A journal says which was started; what answers may still be
//! another, until it is identified.

use super::seen::Seen;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Journal, Phase};
use tidegate_proto::{Release, ReleaseTag, mutant};

/// Journals what is being started as what runs, where it was started: the service may answer later.
pub(crate) fn note_started(journal: &mut Journal, seen: &Seen) {
    if let Phase::Starting { target } = &journal.phase
        && was_started(journal, seen, target)
    {
        journal.note_started();
    }
}

/// Journals that what runs is admitted as this release, which identifies it.
pub(crate) fn note_admitted(journal: &mut Journal, release: Option<ReleaseTag>, seen: &Seen) {
    if !may_be_another(journal, seen) {
        journal.unidentified = None;
    }
    journal.release = release;
}

/// Journals a doubt about what runs, which outlasts the next hook. Returns whether that is news.
pub(crate) fn note_doubt(journal: &mut Journal, seen: &Seen) -> bool {
    let is_new = !journal.in_doubt && may_be_another(journal, seen);
    journal.in_doubt |= is_new;
    is_new
}

/// Whether what runs may be another release than the one that was started last, whichever version it answers: the machine was
/// booted before that one was identified. Its start hook may have put nothing in place, however it ended.
pub(super) fn may_be_another(journal: &Journal, seen: &Seen) -> bool {
    let booted = journal.in_doubt || seen.hook == HookState::EarlierBoot;
    journal.unidentified.is_some() && booted && !mutant::is("boot-raises-no-doubt")
}

/// Whether what is being started was. Its start hook may have worked, however it ended. Where that was not begun, what answers
/// is what ran last, which its own supervisor or a person has started since its stop: the release itself, or another one. After
/// a boot it may be either, whichever version it answers.
pub(super) fn was_started(journal: &Journal, seen: &Seen, target: &Target) -> bool {
    let ran_last = journal.release.as_ref() == Some(&target.tag);
    match seen.hook {
        HookState::Runs | HookState::Ended => true,
        HookState::NotBegun | HookState::OtherRuns => seen.alive == Alive::Yes && ran_last,
        HookState::EarlierBoot => false,
    }
}

/// Whether what runs is this release, as far as is known.
pub(super) fn runs_already(release: &Release, journal: &Journal, seen: &Seen) -> bool {
    let being_verified = journal.phase == Phase::Verifying;
    // Verification itself drains what may be another release.
    journal.running_release() == Some(&release.tag)
        && seen.probe.version().is_none_or(|v| v == release.version)
        && (being_verified || !may_be_another(journal, seen))
}
