//! A coordinator that does not lead forwards requests, and knows their outcome when it answers.

use crate::process::Daemon;

#[test]
fn who_asks_a_follower_for_a_release_finds_it_there_at_once() {
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
