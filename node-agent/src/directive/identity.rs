//! What runs: the release that was started last, or another one. A journal says which was started; what answers may still be
//! another, until it is identified.

use super::seen::Seen;
use crate::config::Service;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Journal, Phase};
use tidegate_proto::{Release, ReleaseTag, ServiceVersion, mutant};

/// Journals what is being started as what runs, where it was started: the service may answer later. Where the machine was
/// booted meanwhile, it may be that or what ran last, and the journal notes a doubt.
pub(crate) fn note_started(journal: &mut Journal, seen: &Seen) {
    let Phase::Starting { target } = &journal.phase else { return };
    if was_started(journal, seen, target) {
        journal.note_started();
    } else if seen.hook == HookState::EarlierBoot {
        // The journal still names what ran last.
        (journal.in_doubt, journal.before) = (true, None);
    }
}

/// Journals that what runs is admitted as this release, which identifies it.
pub(crate) fn note_admitted(journal: &mut Journal, release: Option<ReleaseTag>, seen: &Seen) {
    if !may_be_another(journal, seen) {
        (journal.unidentified, journal.before) = (None, None);
    }
    journal.release = release;
}

/// Journals a doubt about what runs, which outlasts the next hook. Returns whether that is news.
pub(crate) fn note_doubt(journal: &mut Journal, seen: &Seen) -> bool {
    let is_new = !journal.in_doubt && may_be_another(journal, seen);
    journal.in_doubt |= is_new;
    is_new
}

/// Whether what runs may be another release than the journal names, whichever version it answers: the machine was booted before
/// what was started last was identified, or during its start. That start hook may have put nothing in place, however it ended.
pub(super) fn may_be_another(journal: &Journal, seen: &Seen) -> bool {
    let booted = journal.unidentified.is_some() && seen.hook == HookState::EarlierBoot;
    (journal.in_doubt || booted) && !mutant::is("boot-raises-no-doubt")
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

/// The release that answers this version, where that is known.
pub(super) fn release_that_answers(
    service: &Service,
    journal: &Journal,
    seen: &Seen,
    version: ServiceVersion,
) -> Option<ReleaseTag> {
    // The store alone knows what was started and admitted at this version before the journal was lost, or by another agent of
    // the node. Where it names the configured release, that agent may not have known what was started.
    let configured = service.release_of(version);
    if let Some((last, tag)) = &seen.recorded
        && *last == version
        && Some(tag) != configured.as_ref()
    {
        return Some(tag.clone());
    }
    // Where another version came behind the agent's back, the configuration may say which release that is. What was started
    // and is hidden since is what was started, whichever version it answers; so is what was never identified since its start.
    // Where nothing was admitted since the journal was lost, the lock names what ran when the version was refused.
    let started = journal.unexposed || journal.unidentified.is_some();
    let admitted = journal.admitted.as_ref().map(|admitted| admitted.version);
    let last = admitted.or(journal.refusal.as_ref().map(|refusal| refusal.version));
    let same = started || last.is_none_or(|last| last == version);
    journal.release.clone().filter(|_| same).or(configured)
}

/// What a stop hook is to stop: the release that ran last, unless another one is known to answer. The journal does not name that
/// one where it was refused since the last admission; what answers another version for one look was not asked about.
pub(crate) fn to_be_stopped(service: &Service, journal: &Journal, seen: &Seen) -> Option<Target> {
    let answering = seen.probe.version().filter(|_| journal.was_refused()).and_then(|version| {
        let tag = release_that_answers(service, journal, seen, version)?;
        Some(Target { tag, version, sha256: None })
    });
    let last = journal.release.as_ref().map(|tag| Target {
        tag: tag.clone(),
        version: journal.admitted.as_ref().map(|a| a.version).unwrap_or_default(),
        sha256: None,
    });
    answering.filter(|target| journal.release.as_ref() != Some(&target.tag)).or(last)
}

/// Whether what runs is this release, as far as is known.
pub(super) fn runs_already(release: &Release, journal: &Journal, seen: &Seen) -> bool {
    let being_verified = journal.phase == Phase::Verifying;
    // Verification itself drains what may be another release.
    journal.running_release() == Some(&release.tag)
        && seen.probe.version().is_none_or(|v| v == release.version)
        && (being_verified || !may_be_another(journal, seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::seen::Probed;
    use crate::directive::tests::story::{Story, release, version};
    use crate::journal::Admitted;
    use tidegate_proto::Revision;

    fn stopped(story: &Story) -> Option<(ReleaseTag, ServiceVersion)> {
        let target = to_be_stopped(&story.service, &story.journal, &story.seen);
        target.map(|target| (target.tag, target.version))
    }

    /// Release 2 was started, admitted and shown.
    fn serving_2() -> Story {
        let mut story = Story::serving().by_hooks();
        let tag = release(2).tag;
        story.journal.release = Some(tag.clone());
        story.journal.admit(Admitted { version: version(2), release: Some(tag), revision: Revision(6) });
        story.seen.probe = Probed::Version(version(2));
        story
    }

    #[test]
    fn stop_hook_gets_the_release_that_was_put_back_by_hand() {
        let mut story = serving_2();
        assert_eq!(stopped(&story), Some((release(2).tag, version(2))));
        story.seen.probe = Probed::Version(version(1));
        assert_eq!(stopped(&story), Some((release(2).tag, version(2))), "seen once, and not refused");
        // The window does not admit it, so that the journal goes on to name release 2.
        story.journal.refused_since = true;
        assert_eq!(stopped(&story), Some((release(1).tag, version(1))));
        story.journal.unexposed = true;
        assert_eq!(stopped(&story), Some((release(2).tag, version(2))), "started, and hidden since");
    }

    #[test]
    fn stop_hook_gets_the_last_release_where_none_is_known() {
        let mut story = serving_2();
        story.journal.refused_since = true;
        for probe in [Probed::Version(version(7)), Probed::Late] {
            story.seen.probe = probe;
            assert_eq!(stopped(&story), Some((release(2).tag, version(2))), "{:?}", story.seen.probe);
        }
    }
}
