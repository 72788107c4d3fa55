//! Storage that Tidegate only watches: three real agents report it, no upgrade ever touches it, and a compute release
//! waits until the last node was seen at what it requires, with none silent.

use grenade_tests::fixture::pantry::Pantry;
use serde_json::Value as Json;

use crate::region::{Ground, Region};
use crate::rig::Rig;

/// Three nodes with a storage service at 7000 that some other tool upgrades: their agents have no driver, and learn its
/// version from the file that the tool writes.
async fn of_three(serves: &Pantry) -> Region {
    let at = serves.plan.address;
    let region = Region::of(Ground::Embedded, 3, |n, dir| {
        std::fs::write(format!("{dir}/version-{n}"), "7000\n").unwrap();
        format!(
            "[service.pageserver]\nprobe = {{ file = \"{dir}/version-{n}\" }}\ninterval = \"200ms\"\n\
             ready_url = \"http://{at}/ready\"\nhealth_url = \"http://{at}/healthcheck\"\n\
             disable_file = \"{dir}/disable-{n}\"\n"
        )
    });
    let region = region.await;
    region.until("all report", |region| region.json(&["fleet", "list"]).len() == 3).await;
    region
}

impl Region {
    /// The tool has upgraded the storage of this node.
    fn storage_is_at(&self, n: u32, version: u32) {
        std::fs::write(self.rig.world.path(&format!("version-{n}")), format!("{version}\n")).unwrap();
    }

    async fn until_it_waits_for(&self, revision: u32, what: &str) {
        let waits_for =
            |region: &Self| matches!(&region.reasons(revision)[..], [one] if one["blocked_on"] == what);
        self.until(&format!("{revision} waits for this alone: {what}"), waits_for).await;
        assert_eq!(self.status(revision).0, "pending", "it waits: {what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_goes_out_once_all_storage_is_new_and_none_is_silent() {
    let rig = Rig::new();
    let serves = rig.pantry(1, "all", &rig.sqlite(1).await).await;
    let mut region = of_three(&serves).await;
    let requires = ["--requires", "pageserver=8100"];
    region.create(1, &requires);
    region.until_it_waits_for(1, "pageserver is below version 8100 on node-1, node-2, node-3").await;
    region.storage_is_at(1, 8100);
    region.storage_is_at(3, 8200);
    region.until_it_waits_for(1, "pageserver is below version 8100 on node-2").await;
    region.storage_is_at(2, 8100);
    region.until_deployed(1).await;

    // The version of a silent one is not known, however new it was when it was last heard of.
    region.agents[2].process.crash().unwrap();
    let is_silent = |instance: &Json| instance["silent"] == true;
    region.until("it is silent", |region| region.json(&["fleet", "list"]).iter().any(is_silent)).await;
    region.create(2, &requires);
    region
        .until_it_waits_for(2, "pageserver: no report from node-3; these instances are unknown, not gone")
        .await;
    let world = &region.rig.world;
    region.agents[2].restart(world).unwrap();
    region.until_deployed(2).await;
    assert_eq!(region.status(1).0, "superseded");
}
