//! A coordinator that does not lead forwards requests, and knows their outcome when it answers.

use crate::process::Daemon;

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
