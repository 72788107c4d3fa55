//! A version that dies after its wave has passed is noticed as long as the upgrade lasts.

use super::fleet::{Fleet, Ground};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_that_dies_after_its_wave_passed_pauses_the_upgrade() {
    let fleet = Fleet::on(Ground::SMALL).await;
    fleet.upgrade("min_in_service: 1\nmax_unavailable: 1\napprovals: [remove]").await;
    fleet.waits_for(&["phase remove requires a manual approval"]).await;
    assert!(fleet.kill_service("node-1"));
    // Its agent starts it again; it died all the same.
    fleet.waits_for(&["paused", "node-1", "failed afterwards"]).await;
    fleet.must(&["upgrade", "rollback", "u1", "--why", "version 2 dies"]).await;
    fleet.all_serve(1).await;
}
