//! A store that was restored: what is taken from it, and from when on.

use super::super::accept;
use super::super::seen::{DisableFile, Probed, Url};
use super::story::{Story, order, release, replace, version};
use crate::directive::act::Act;
use crate::host::{Alive, HookState};
use crate::journal::{Journal, Known, Phase, Refusal};
use tidegate_proto::Revision;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::reconciliation::{Claim, Reconciliation};
use tidegate_proto::record::report::Witness;
use tidegate_proto::record::window::Window;

fn window(revision: i64, floor: i64) -> Known {
    let window = Window {
        floor: version(floor),
        ceiling: version(2),
        set_by: "u1".parse().unwrap(),
        contracted: None,
    };
    Known { revision: Revision(revision), window }
}

/// A person's word on a store whose former one had given these.
fn word(terms: &[&str], revision: i64) -> Reconciliation {
    Reconciliation {
        who: "op".to_owned(),
        why: "the disk died".to_owned(),
        at: Timestamp(0),
        terms: terms.iter().map(|term| term.parse().unwrap()).collect(),
        revision: Revision(revision),
        floors: [("pantry-api".parse().unwrap(), version(2))].into(),
        disregarded: Default::default(),
        listed: Default::default(),
    }
}

#[test]
fn directives_before_reconciliation_are_ignored() {
    // A word that lies before what was obeyed, as in a copy that has just been put back, and one that lies after it.
    for at in [20, 900] {
        let mut story = Story::serving();
        story.journal.order = Some(order(60, Disposition::Serve { returning: false }));
        story.journal.window = Some(window(50, 2));
        story.journal.witness =
            Witness { term: Some("t1".parse().unwrap()), floor: Some(version(2)), ..Witness::default() };
        let (service, at) = (story.service.name.clone(), Revision(at));
        let node: tidegate_proto::NodeId = "n1".parse().unwrap();
        for unheard in [word(&[], 60), word(&["t1"], 59)] {
            assert_eq!(accept::reconciled(&story.journal, &service, &node, Some(&(at, unheard))), None);
        }
        let mut disregards = word(&["t1"], 60);
        disregards.disregarded.entry(service.clone()).or_default().insert(node.clone(), Default::default());
        assert_eq!(
            accept::reconciled(&story.journal, &service, &node, Some(&(at, disregards))),
            None,
            "a disregarded instance stays as it is"
        );
        let word = (at, word(&["t1"], 60));
        story.seen.reconciled = accept::reconciled(&story.journal, &service, &node, Some(&word));
        story.seen.wanted = Some(order(15, Disposition::Drain));
        story.seen.window = Some(Some(window(18, 1)));
        assert_eq!(story.act(), Act::Reconcile(at), "before anything else");
        story.journal.reconcile(at);
        story.seen.reconciled = accept::reconciled(&story.journal, &service, &node, Some(&word));
        assert_eq!(story.seen.reconciled, None, "once");
        let Act::Acknowledge(known) = story.act() else { panic!("{:?}", story.act()) };
        assert_eq!(known.revision, Revision(18), "the window of the store as it is");
        story.journal.window = Some(known);
        assert_eq!(story.act(), Act::Wait, "that drain may be one that was obeyed long ago");
        story.seen.wanted = Some(order(at.0 + 1, Disposition::Drain));
        let Act::Accept(taken, Phase::Draining) = story.act() else { panic!("{:?}", story.act()) };
        assert_eq!(taken.generation, Revision(at.0 + 1));
    }
}

#[test]
fn newer_directive_of_a_fallen_store_is_not_accepted() {
    let mut story = Story::serving();
    story.window(1, 2, 50).ordered(order(60, Disposition::Serve { returning: false }));
    story.seen.wanted = Some(order(70, Disposition::Drain));
    for older in [None, Some(window(18, 1))] {
        story.seen.window = Some(older);
        assert_eq!(story.act(), Act::Wait, "the agent would no longer say which term it obeyed");
    }
    story.seen.window = Some(None);
    story.journal.reconcile(Revision(65));
    let Act::Accept(taken, Phase::Draining) = story.act() else { panic!("{:?}", story.act()) };
    assert_eq!(taken.generation, Revision(70));
}

#[test]
fn later_window_beside_an_older_directive_is_not_taken() {
    let mut story = Story::serving();
    story.window(1, 2, 50).ordered(order(60, Disposition::Serve { returning: false }));
    story.seen.wanted = Some(order(15, Disposition::Serve { returning: false }));
    story.seen.window = Some(Some(window(70, 1)));
    assert_eq!(story.act(), Act::Wait, "the agent would no longer say which floor it obeyed");
    story.journal.reconcile(Revision(65));
    assert_eq!(story.act(), Act::Acknowledge(window(70, 1)));
}

/// Such a window is neither admitted under nor refused by.
#[test]
fn later_window_beside_an_older_directive_fell_back() {
    let mut story = Story::serving();
    story.window(1, 2, 50).ordered(order(60, Disposition::Serve { returning: false }));
    let later = Some(window(70, 1));
    let fell_back = |journal: &Journal, generation: i64| {
        let wanted = order(generation, Disposition::Serve { returning: false });
        accept::fell_back(journal, Some(&later), Some(&wanted))
    };
    assert!(fell_back(&story.journal, 15), "a person may have put back the window alone");
    assert!(!fell_back(&story.journal, 60), "the one that was accepted");
    assert!(!fell_back(&story.journal, 71), "a newer one");
    assert!(!accept::fell_back(&story.journal, Some(&later), None), "its absence says nothing");
    story.journal.reconcile(Revision(65));
    assert!(!fell_back(&story.journal, 15), "it may have been obeyed long ago");
}

#[test]
fn disregarded_agent_takes_in_nothing_of_later_revisions() {
    let mut story = Story::serving();
    story.window(1, 2, 50).ordered(order(60, Disposition::Serve { returning: false }));
    let (service, node) = (story.service.name.clone(), "n1".parse::<tidegate_proto::NodeId>().unwrap());
    let (mut word, claim) = (word(&[], 0), Claim::from(story.journal.claimed()));
    word.disregarded.entry(service.clone()).or_default().insert(node.clone(), claim);
    let disregarded = |journal: &Journal, at: i64| {
        accept::is_disregarded(journal, &service, &node, Some(&(Revision(at), word.clone())))
    };
    assert!(disregarded(&story.journal, 40));
    assert!(!disregarded(&story.journal, 61), "nothing says that the store was behind it");
    assert!(!disregarded(&Journal::default(), 40), "its state was reset");
    story.seen.window = Some(Some(window(70, 1)));
    story.seen.wanted = Some(order(71, Disposition::Drain));
    story.seen.disregarded = true;
    assert_eq!(story.act(), Act::Wait, "the store would count as one that never fell back");
    story.seen.disregarded = false;
    assert_eq!(story.act(), Act::Acknowledge(window(70, 1)));
}

#[test]
fn later_reconciliation_leaves_a_disregarded_agent_as_it_is() {
    let mut story = Story::serving();
    story.window(1, 2, 50).ordered(order(60, Disposition::Serve { returning: false }));
    let (service, node) = (story.service.name.clone(), "n1".parse::<tidegate_proto::NodeId>().unwrap());
    let claim = Claim { ahead: true, ..Claim::from(story.journal.claimed()) };
    let mut word = word(&[], 0);
    word.disregarded.entry(service.clone()).or_default().insert(node.clone(), claim);
    let word = (Revision(900), word);
    assert!(accept::is_disregarded(&story.journal, &service, &node, Some(&word)));
    assert!(
        !accept::is_disregarded(&Journal::default(), &service, &node, Some(&word)),
        "its state was reset"
    );
}

/// A hidden instance whose agent obeys this order of a former store, in this phase, and has taken in a reconciliation.
fn under_former(disposition: Disposition, phase: &Phase) -> Story {
    let mut story = Story::serving();
    story.window(1, 2, 50).ordered(order(60, disposition));
    story.journal.reconcile(Revision(65));
    story.window(1, 1, 70).disabled();
    story.enter(phase.clone());
    story
}

#[test]
fn ended_service_is_started_again_under_a_former_order() {
    let drained = Phase::Drained { forced: false };
    let mut story = under_former(Disposition::Drain, &drained);
    assert_eq!(story.act(), Act::Wait, "what runs stays as it is");
    story.gone();
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "nothing is begun without the store");
    story.seen.store = true;
    story.seen.wanted = Some(order(71, Disposition::Drain));
    assert!(matches!(story.act(), Act::Accept(..)), "a directive of this store");
    story.ordered(order(71, Disposition::Drain));
    assert_eq!((story.journal.phase.clone(), story.act()), (drained.clone(), Act::Wait), "it counts");
    for (disposition, phase) in [
        (Disposition::Drain, drained),
        (Disposition::Drain, Phase::Stopped),
        (Disposition::Drain, Phase::failed("draining", "a balancer could not be asked", true)),
        (replace(2), Phase::failed("starting", "the start hook failed", true)),
    ] {
        let mut story = under_former(disposition, &phase);
        story.gone();
        assert_eq!(story.act(), Act::Decline(Phase::Stopped), "{phase:?}");
        story.journal.declined = true;
        story.enter(Phase::Stopped);
        let Act::AdmitTarget(target) = story.act() else { panic!("{phase:?}: {:?}", story.act()) };
        assert_eq!(target.tag, release(1).tag, "{phase:?}: what ran last");
    }
}

#[test]
fn unanswering_service_is_stopped_first_under_a_former_order() {
    let mut story = under_former(Disposition::Drain, &Phase::Drained { forced: false }).by_hooks();
    assert_eq!(story.silent().act(), Act::Wait, "balancers may send requests to what its supervisor starts");
    story.pass(6);
    assert_eq!(story.act(), Act::Decline(Phase::Stopping), "its stop hook confirms that nothing runs");
    story.seen.url = Url::Other;
    assert_eq!(story.act(), Act::Wait, "it may answer again");
    story.seen.gone = true;
    assert_eq!(story.act(), Act::Decline(Phase::Stopping), "the status hook denies that it runs");
}

/// The window of revision 70 refuses this version.
fn refusal(number: i64) -> Option<Refusal> {
    let reason = "outside".to_owned();
    Some(Refusal { version: version(number), window: Revision(70), reason, ..Refusal::default() })
}

#[test]
fn former_order_that_the_window_refuses_starts_what_ran_last() {
    let mut story = under_former(replace(2), &Phase::refused("outside"));
    story.gone();
    story.journal.refusal = refusal(2);
    assert_eq!(story.act(), Act::Decline(Phase::Stopped));
    story.journal.declined = true;
    story.journal.refusal = refusal(1);
    assert_eq!(story.act(), Act::Wait, "that is refused as well");
}

/// What the former order started has ended, and the store was reconciled to the version before it.
#[test]
fn refused_release_of_a_former_order_gives_way_to_the_other() {
    let failed = Phase::failed("verifying", "it ended by itself", true);
    let mut story = under_former(replace(2), &failed);
    story.journal.order.as_mut().unwrap().directive.releases = vec![release(1), release(2)];
    story.journal.release = Some(release(2).tag);
    story.gone();
    assert_eq!(story.act(), Act::Decline(Phase::Stopped));
    story.journal.declined = true;
    let admits = |story: &mut Story| {
        story.enter(Phase::Stopped);
        let Act::AdmitTarget(target) = story.act() else { panic!("{:?}", story.act()) };
        target.tag
    };
    assert_eq!(admits(&mut story), release(1).tag);
    story.enter(Phase::refused("outside"));
    story.journal.refusal = refusal(2);
    assert_eq!(story.act(), Act::Enter(Phase::Stopped), "it was refused before the window was acknowledged");
    story.journal.refusal = refusal(1);
    assert_eq!(story.act(), Act::Wait, "that is refused as well");
    story.journal.refusal = None;
    story.window(2, 2, 80);
    assert_eq!(admits(&mut story), release(2).tag, "the window admits what ran last, and nothing else");
    story.window(1, 1, 90).journal.declined = false;
    story.journal.order.as_mut().unwrap().generation = Revision(91);
    assert_eq!(admits(&mut story), release(2).tag, "a directive of this store decides");
}

/// The same, failed. The order names both releases, and `last` ran last. `window` is that of the new store.
fn with_both(disposition: Disposition, last: i64, window: Option<Known>) -> Story {
    let mut story = under_former(disposition, &Phase::failed("verifying", "not healthy", true));
    story.journal.order.as_mut().unwrap().directive.releases = vec![release(1), release(2)];
    story.journal.release = Some(release(last).tag);
    story.journal.window.clone_from(&window);
    story.seen.window = Some(window);
    story
}

#[test]
fn failed_release_of_a_former_order_gives_way_under_any_window() {
    let (open, both) = (None, Some(window(70, 1)));
    for (disposition, last, started, why) in [
        (replace(2), 2, 1, "the new release has failed"),
        (replace(2), 1, 1, "the new release was not started"),
        (replace(1), 1, 1, "a rollback goes on"),
        (replace(1), 2, 1, "a rollback goes on, although its stop has failed"),
        (replace(1), 3, 1, "so it does where a release of its own had run"),
        (Disposition::Drain, 2, 2, "nothing says that it has failed"),
    ] {
        for window in [&open, &both] {
            let mut story = with_both(disposition.clone(), last, window.clone()).by_hooks();
            story.silent().pass(6);
            assert_eq!(story.act(), Act::Decline(Phase::Stopping), "{why}: {window:?}");
            story.journal.declined = true;
            story.enter(Phase::Stopped);
            let Act::AdmitTarget(target) = story.act() else { panic!("{why}: {:?}", story.act()) };
            assert_eq!(target.tag, release(started).tag, "{why}: {window:?}");
        }
    }
}

/// It is declined once balancers have noticed, and not where one of these is so.
fn is_declined_unless(story: &mut Story, others: &[(&str, fn(&mut Story))]) {
    assert_eq!(story.act(), Act::Wait, "balancers may not have noticed that it refuses");
    story.pass(6);
    assert_eq!(story.act(), Act::Decline(Phase::Stopping));
    for (why, change) in others {
        let mut other = story.clone();
        change(&mut other);
        assert_eq!(other.act(), Act::Wait, "{why}");
    }
    story.journal.declined = true;
    story.enter(Phase::Stopping);
    assert_eq!(story.act(), Act::Stop);
}

fn starts_the_former_one(story: &mut Story) {
    story.gone();
    story.enter(Phase::Stopped);
    let Act::AdmitTarget(target) = story.act() else { panic!("{:?}", story.act()) };
    assert_eq!(target.tag, release(1).tag);
}

#[test]
fn failed_release_that_never_answered_is_stopped() {
    let mut story = with_both(replace(2), 2, None);
    story.journal.unidentified = Some(release(2).tag);
    story.journal.unexposed = true;
    story.seen.hook = HookState::Ended;
    story.seen.probe = Probed::Failed("nothing listens".to_owned());
    (story.seen.ready, story.seen.url) = (false, Url::NoListener);
    let others: [(&str, fn(&mut Story)); 5] = [
        ("requests may have been sent to it", |story| story.journal.unexposed = false),
        ("a person keeps it out", |story| story.seen.file = DisableFile::Foreign),
        ("it was started by other means", |story| story.seen.hook = HookState::NotBegun),
        ("it has answered a version", |story| story.journal.unidentified = None),
        ("its deadline has not passed", |story| story.journal.phase = Phase::Verifying),
    ];
    is_declined_unless(&mut story, &others);
    starts_the_former_one(&mut story);
}

/// It answers the former version, which the window admits.
#[test]
fn failed_release_that_answers_another_version_is_stopped() {
    let mut story = with_both(replace(2), 2, None);
    story.journal.unexposed = true;
    story.seen.hook = HookState::Ended;
    let others: [(&str, fn(&mut Story)); 5] = [
        ("requests may have been sent to it", |story| story.journal.unexposed = false),
        ("a person keeps it out", |story| story.seen.file = DisableFile::Foreign),
        ("it was started by other means", |story| story.seen.hook = HookState::NotBegun),
        ("another release runs", |story| story.journal.release = Some(release(1).tag)),
        ("it answers its version", |story| {
            story.seen.probe = Probed::Version(version(2));
            story.journal.admitted.as_mut().unwrap().version = version(2);
        }),
    ];
    is_declined_unless(&mut story, &others);
    let mut failed = story.clone();
    failed.enter(Phase::failed("stopping", "the stop hook failed: exit status: 1", true));
    (0..5).for_each(|_| failed.timers.crashed(failed.seen.now));
    assert_eq!(failed.act(), Act::Wait, "its stop has failed, and is not tried again at once");
    failed.pass(15);
    assert_eq!(failed.act(), Act::Wait, "it is healthy, and is to be stopped all the same");
    failed.pass(1);
    assert_eq!(failed.act(), Act::Enter(Phase::Stopping));
    starts_the_former_one(&mut story);
}

/// It accepts connections: nothing refuses, and no answer comes.
#[test]
fn failed_release_that_accepts_and_never_answers_is_stopped() {
    let hangs = |mut story: Story, url: Url| {
        story.journal.unidentified = Some(release(2).tag);
        story.journal.unexposed = true;
        story.seen.hook = HookState::Ended;
        (story.seen.probe, story.seen.ready, story.seen.url) = (Probed::Late, false, url);
        story.pass(0);
        story
    };
    for by_hooks in [false, true] {
        let mut story = with_both(replace(2), 2, None);
        if by_hooks {
            story = story.by_hooks();
            story.seen.alive = Alive::Unknown;
        }
        let mut heedless = hangs(story.clone(), Url::Good);
        heedless.pass(6);
        assert_eq!(heedless.act(), Act::Wait, "balancers may send requests to it");
        let mut story = hangs(story, Url::Other);
        assert_eq!(story.act(), Act::Wait, "balancers may not have noticed that it does not answer");
        story.pass(6);
        assert_eq!(story.act(), Act::Decline(Phase::Stopping), "by hooks: {by_hooks}");
        story.journal.declined = true;
        story.enter(Phase::Stopping);
        assert_eq!(story.act(), Act::Stop, "by hooks: {by_hooks}");
    }
}
