//! Composes a report from the journal and one look. Pure.

use crate::config::Service;
use crate::directive::accept;
use crate::directive::seen::{DisableFile, Seen};
use crate::directive::timers::Timers;
use crate::host::Alive;
use crate::journal::{Journal, Known, Phase};
use crate::report::readiness;
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Abilities, Identity, Report};
use tidegate_proto::{ReleaseTag, ServiceVersion, Span};

/// What the agent says of the service now.
pub(crate) fn compose(
    service: &Service,
    identity: &Identity,
    journal: &Journal,
    timers: &Timers,
    seen: &Seen,
    stage_failures: &BTreeMap<ReleaseTag, String>,
) -> Report {
    let runs = seen.alive != Alive::No;
    // A version that was neither admitted under this lease nor refused is not said before it was: until then it is
    // not known what runs.
    let probed = seen.probe.version().filter(|_| runs);
    let version = probed.filter(|version| {
        let admitted = !seen.readmit && journal.admitted.as_ref().is_some_and(|a| a.version == *version);
        admitted || journal.refusal.as_ref().is_some_and(|r| r.version == *version)
    });
    let release = match journal.admitted.as_ref().filter(|a| runs && version == Some(a.version)) {
        // In doubt it is the one that a rollback would have to replace.
        Some(admitted) => journal.release_in_doubt().or(admitted.release.as_ref()),
        // What was started and answers no version is that release all the same.
        None if probed.is_none() && !seen.shows_nothing_runs(&journal.phase) => journal.unidentified.as_ref(),
        None => None,
    };
    // Under a store that fell back nothing is started: what was stopped for a replacement stays stopped, and a
    // person who reconciles that store has to know it.
    let goes_on = !accept::is_fallen(journal, seen);
    let replacing = goes_on && matches!(journal.disposition(), Some(Disposition::Replace { .. }));
    Report {
        version,
        probed: probed.filter(|_| version.is_none()),
        nothing_runs: seen.shows_nothing_runs(&journal.phase),
        never_admitted: probed.is_some_and(|answer| was_never_admitted(journal, seen.file, answer)),
        release_digest: release.and_then(|tag| journal.staged.get(tag)).copied(),
        release: release.cloned(),
        admission: journal.admission(),
        health: seen.health,
        rotation: timers.rotation(seen, service),
        step: journal.phase.step(replacing),
        generation: journal.generation(),
        declined: journal.declined,
        window: journal.window_revision(),
        staged: journal.staged.keys().cloned().collect(),
        stage_failures: stage_failures.clone(),
        identity: identity.clone(),
        abilities: abilities(service),
        in_flight: seen.in_flight.counted().filter(|_| journal.phase == Phase::Draining),
        balancers: timers.balancer_reports(journal.phase == Phase::Draining),
        witness: journal.witness.clone(),
        fault: timers.faults.reported(seen.now).map(Box::new),
        answers: timers.answers.reported().map(Into::into),
        balancer_unreachable: timers.balancer_unreachable().map(Into::into),
    }
}

/// Whether a version is above the ceiling that was obeyed last, and is not the one that was admitted last, or is hidden and was
/// not admitted after that window was set: a blank store may have admitted it, and only another admission shows it. Where a
/// person hides it, that holds once it is refused: its agent hides it when the person shows it. Of what is shown and was there
/// before any admission nothing is known.
fn was_never_admitted(journal: &Journal, file: DisableFile, version: ServiceVersion) -> bool {
    let is_above = |known: &&Known| version > known.window.ceiling;
    let Some(known) = journal.window.as_ref().filter(is_above) else { return false };
    let is_refused = matches!(journal.phase, Phase::Refused { stays: None, .. });
    let is_hidden = file == DisableFile::Own || file == DisableFile::Foreign && is_refused;
    match &journal.admitted {
        Some(admitted) if admitted.version != version => true,
        Some(admitted) => is_hidden && admitted.revision < known.revision,
        None => is_hidden,
    }
}

fn abilities(service: &Service) -> Abilities {
    let drain = if service.balancers.is_empty() { "settle" } else { "haproxy" };
    Abilities {
        replace: service.driver.as_ref().map(|driver| driver.word().into()),
        drain: Some(drain.into()),
        artifacts: service.artifacts.keys().cloned().collect(),
        settle: service.balancers.is_empty().then(|| span(service.fall_time())),
        ready_by_health: readiness::is_judged_by_health_url(service),
        counts_nothing: service.in_flight.is_none() && service.balancers.is_empty(),
    }
}

fn span(time: Duration) -> Span {
    Span::from_millis(time.as_millis().try_into().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::act::Act;
    use crate::directive::identity::note_admitted;
    use crate::directive::seen::Probed;
    use crate::directive::tests::story::{Story, order, release, replace, version};
    use crate::host::Target;
    use crate::journal::Admitted;
    use tidegate_proto::Revision;
    use tidegate_proto::record::report::Step;

    fn report(story: &Story) -> Report {
        let identity = Identity { nonce: "own".to_owned(), boot: "b".to_owned() };
        let Story { service, journal, timers, seen } = story;
        compose(service, &identity, journal, timers, seen, &BTreeMap::new())
    }

    fn step(story: &Story) -> Step {
        report(story).step
    }

    #[test]
    fn free_lock_says_that_nothing_runs_in_every_phase() {
        let mut story = Story::serving();
        assert!(!report(&story).nothing_runs);
        story.gone();
        let target = Target::from(&release(2));
        let phases = [
            Phase::Fresh,
            Phase::Starting { target },
            Phase::Stopped,
            Phase::refused("above the ceiling"),
            Phase::failed("verifying", "it ended by itself", true),
        ];
        for phase in phases {
            story.enter(phase.clone());
            assert!(report(&story).nothing_runs, "{phase:?}");
        }
        story.silent();
        assert!(!report(&story).nothing_runs, "silence is no evidence");
        story.enter(Phase::Stopped);
        assert!(report(&story).nothing_runs, "the stop hook came to its end");
    }

    /// The status hook is evidence for a report, and none that a start may rest on.
    #[test]
    fn status_hook_shows_that_nothing_runs_and_replaces_no_stop() {
        let failed = || Phase::failed("verifying", "it ended by itself", true);
        for phase in [failed(), Phase::Fresh, Phase::refused("above the ceiling"), Phase::Serving] {
            let mut story = Story::serving().by_hooks();
            story.disabled().silent().enter(phase.clone());
            assert!(!report(&story).nothing_runs, "{phase:?}: silence is no evidence");
            story.seen.gone = true;
            assert!(report(&story).nothing_runs, "{phase:?}");
            story.seen.wanted = Some(order(60, replace(2)));
            let Act::Accept(_, next) = story.act() else { panic!("{phase:?}: {:?}", story.act()) };
            assert_ne!(next, Phase::Stopped, "{phase:?}: the stop hook has not run");
        }
    }

    /// Release 1 was started in place of release 2, and the machine was booted. What it has started came into rotation, so that
    /// the order was declined, and answers version 1, as release 2 does too.
    #[test]
    fn release_before_the_start_is_named_while_in_doubt() {
        let mut story = Story::serving().by_hooks();
        story.journal.release = Some(release(2).tag);
        story.journal.phase = Phase::Starting { target: Target::from(&release(1)) };
        story.journal.note_started();
        assert_eq!(report(&story).release, Some(release(1).tag), "no boot");
        story.journal.order = Some(order(9, replace(1)));
        (story.journal.in_doubt, story.journal.declined) = (true, true);
        for phase in [Phase::Verifying, Phase::Serving] {
            story.journal.enter(phase.clone());
            assert_eq!(report(&story).release, Some(release(2).tag), "{phase:?}");
        }
        let mut stopped = story.clone();
        stopped.journal.enter(Phase::Stopped);
        assert!(!stopped.journal.in_doubt, "a confirmed stop ends it");
        story.journal.declined = false;
        let serve = Disposition::Serve { returning: true };
        for (asked, named) in [(Disposition::Drain, 2), (serve, 2), (replace(1), 1)] {
            story.journal.order = Some(order(10, asked.clone()));
            story.journal.enter(Phase::Serving);
            assert_eq!(report(&story).release, Some(release(named).tag), "{asked:?}");
        }
    }

    /// Both answer version 1, and release 2 is what a rollback replaces.
    #[test]
    fn former_release_is_not_named_in_doubt() {
        for (before, started) in [(2, 1), (1, 2)] {
            let mut story = Story::serving().by_hooks();
            story.journal.release = Some(release(before).tag);
            story.journal.phase = Phase::Starting { target: Target::from(&release(started)) };
            story.journal.note_started();
            story.journal.admitted.as_mut().unwrap().release = Some(release(started).tag);
            let mut recalled = order(9, Disposition::Serve { returning: true });
            recalled.directive.releases = vec![release(1), release(2)];
            (story.journal.order, story.journal.in_doubt) = (Some(recalled), true);
            story.journal.enter(Phase::Serving);
            assert_eq!(report(&story).release, Some(release(2).tag), "{started} was started");
        }
    }

    /// Release 1 was started in place of release 2, and identified. Then it ended, and the machine was booted after its next
    /// start.
    #[test]
    fn release_before_an_identified_one_is_named_no_more() {
        let identified: [fn(&mut Story); 2] = [
            |story| story.journal.enter(Phase::Serving),
            |story| note_admitted(&mut story.journal, Some(release(1).tag), &story.seen),
        ];
        for (place, identify) in identified.into_iter().enumerate() {
            let mut story = Story::serving().by_hooks();
            story.journal.release = Some(release(2).tag);
            story.journal.phase = Phase::Starting { target: Target::from(&release(1)) };
            story.journal.note_started();
            let mut stopped = story.clone();
            identify(&mut story);
            stopped.journal.enter(Phase::Stopped);
            for (mut story, named) in [(story, 1), (stopped, 2)] {
                story.journal.phase = Phase::Starting { target: Target::from(&release(1)) };
                story.journal.note_started();
                story.journal.in_doubt = true;
                story.journal.enter(Phase::Verifying);
                assert_eq!(report(&story).release, Some(release(named).tag), "case {place}");
            }
        }
    }

    #[test]
    fn started_release_is_named_while_it_answers_no_version() {
        let started = |mut story: Story| {
            story.journal.release = Some(release(2).tag);
            story.journal.unidentified = Some(release(2).tag);
            story.journal.staged.insert(release(2).tag, release(2).sha256);
            story.enter(Phase::failed("verifying", "not healthy within 30 s", true));
            story
        };
        let named = |story: &Story| (report(story).release, report(story).release_digest);
        let second = (Some(release(2).tag), Some(release(2).sha256));
        let mut story = started(Story::serving());
        assert_eq!(named(&story).0, Some(release(1).tag), "what was admitted at the version that it answers");
        story.seen.probe = Probed::Late;
        assert_eq!((report(&story).version, named(&story)), (None, second.clone()));
        story.seen.probe = Probed::Version(version(9));
        assert_eq!(named(&story), (None, None), "it answers a version that was not admitted");
        story.gone();
        assert_eq!(named(&story), (None, None), "nothing runs");
        let mut story = started(Story::serving().by_hooks());
        story.silent();
        assert_eq!(named(&story), second, "silence is no evidence that nothing runs");
        story.seen.gone = true;
        assert_eq!(named(&story), (None, None), "the status hook denies that it runs");
    }

    /// It may be a lie of the version URL: no window of the fleet is to have room for it.
    #[test]
    fn version_above_the_obeyed_ceiling_was_never_admitted() {
        let mut story = Story::serving();
        story.window(1, 2, 50);
        for (answered, expected) in [(1, false), (2, false), (7, true)] {
            story.seen.probe = Probed::Version(version(answered));
            assert_eq!(report(&story).never_admitted, expected, "version {answered}");
        }
        story.seen.window = Some(None);
        assert!(report(&story).never_admitted, "the store fell back, and the window was obeyed all the same");
        story.journal.admitted.as_mut().unwrap().version = version(7);
        assert!(!report(&story).never_admitted, "it was admitted before the window was narrowed");
        story.journal.admitted = None;
        assert!(!report(&story).never_admitted, "nothing is known of what ran before any admission");
    }

    /// A blank store without a window admitted it, and a copy that has one took its place.
    #[test]
    fn hidden_version_above_the_obeyed_ceiling_needs_admission() {
        let mut story = Story::serving();
        story.window(1, 2, 50);
        story.seen.probe = Probed::Version(version(7));
        story.seen.file = DisableFile::Own;
        for (admitted_at, expected) in [(Some(2), true), (Some(51), false), (None, true)] {
            let admitted = |at| Admitted { version: version(7), release: None, revision: Revision(at) };
            story.journal.admitted = admitted_at.map(admitted);
            assert_eq!(report(&story).never_admitted, expected, "admitted at {admitted_at:?}");
        }
        story.seen.file = DisableFile::Foreign;
        assert!(!report(&story).never_admitted, "a person may show it at any moment");
        story.enter(Phase::refused("outside"));
        assert!(report(&story).never_admitted, "its agent hides it when a person shows it");
        story.seen.file = DisableFile::Own;
        story.journal.window = None;
        assert!(!report(&story).never_admitted, "no window was obeyed");
    }

    #[test]
    fn stopped_to_be_replaced_says_stopped_under_a_fallen_store() {
        let mut story = Story::serving();
        story.window(1, 2, 50).ordered(order(60, replace(2))).gone();
        story.enter(Phase::Stopped);
        assert_eq!(step(&story), Step::Replacing);
        story.seen.window = Some(None);
        assert_eq!(step(&story), Step::Stopped, "nothing starts it before a person has reconciled the store");
        story.journal.reconcile(Revision(70));
        assert_eq!(step(&story), Step::Replacing, "the accepted order stands until there is a new one");
    }
}
