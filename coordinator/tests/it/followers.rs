//! A coordinator that does not lead forwards requests, and knows their outcome when it answers.

use crate::process::{Daemon, run};

#[test]
fn release_is_at_once_visible_at_the_follower() {
    let leader = Daemon::embedded(|_, _| {});
    let follower = Daemon::beside(&leader);
    for version in 1..=10 {
        let (version, tag) = (version.to_string(), format!("release-{version}"));
        let created = follower.ask(&["release", "create", "--version", &version, "--tag", &tag]);
        assert_eq!(created.code, 0, "{created:?}");
        let shown = follower.ask(&["release", "show"]);
        assert!(shown.out.contains(&tag), "{tag} was created through it: {shown:?}");
    }
}

#[test]
fn call_without_a_token_for_the_leader_asks_for_one() {
    let leader = Daemon::embedded(|_, _| {});
    let follower = Daemon::beside(&leader);
    for verb in [&["release", "explain"][..], &["metadata", "explain", "config"]] {
        let refused = run(&mut follower.anonymous(verb));
        assert_eq!(refused.code, 2, "{verb:?}: {refused:?}");
        assert!(refused.err.contains("give a token with --token-file"), "{verb:?}: {refused:?}");
        let with_one = follower.ask(verb);
        assert!(!with_one.err.contains("--token-file"), "{verb:?}: {with_one:?}");
    }
    let looked = run(&mut follower.anonymous(&["release", "list"]));
    assert!(!looked.err.contains("--token-file"), "what it answers itself needs none: {looked:?}");
}
