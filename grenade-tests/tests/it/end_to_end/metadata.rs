//! Metadata by real processes: three agents follow a group, an operator gives it documents from the command line, and the
//! coordinator is killed in the middle.

use serde_json::{Value as Json, json};

use crate::region::{Ground, Region};

/// A coordinator, and three agents that follow the group `edge`; their hooks take no document that says `bad`.
async fn of_three(ground: Ground) -> Region {
    let region = Region::of(ground, 3, |n, dir| {
        let hook = format!("! grep -q bad {dir}/node-{n}.json");
        format!(
            "[metadata.edge]\nfile = \"{dir}/node-{n}.json\"\nhook = [\"sh\", \"-c\", {hook:?}]\ntimeout = \"5s\"\n"
        )
    });
    region.await
}

impl Region {
    fn set(&self, document: &Json, more: &[&str]) {
        let path = self.rig.world.path("document.json");
        std::fs::write(&path, document.to_string()).unwrap();
        self.ask(&[&["metadata", "set", "edge", path.to_str().unwrap()], more].concat());
    }

    fn group(&self) -> Json {
        self.json(&["metadata", "show", "edge"]).remove(0)
    }

    fn files(&self) -> Vec<Option<Json>> {
        let read = |n: usize| {
            let bytes = std::fs::read(self.rig.world.path(&format!("node-{n}.json"))).ok()?;
            Some(serde_json::from_slice(&bytes).unwrap())
        };
        (1..=3).map(read).collect()
    }

    async fn all_have(&self, document: &Json) {
        let all = vec![Some(document.clone()); 3];
        self.until(&format!("all have {document}"), |region| region.files() == all).await;
    }

    async fn ended(&self) -> Json {
        self.until("no update runs", |region| region.group()["update"].is_null()).await;
        self.group()["last"].clone()
    }
}

/// A first document reaches all nodes at once, a second one after the other, and the coordinator is killed meanwhile.
pub(crate) async fn documents_that_reach_agents(ground: Ground) -> (Region, Json) {
    let mut region = of_three(ground).await;
    let (first, second) = (json!({"x": 1}), json!({"x": 2}));
    let members = ["--instance", "node-1", "--instance", "node-2", "--instance", "node-3"];
    region.set(&first, &members);
    region.all_have(&first).await;

    region.set(&second, &["--pattern", "rolling", "--pause", "200ms"]);
    region.crash_coordinator().await;
    let last = region.ended().await;
    assert_eq!(last["outcome"], "finished", "{last:#}");
    region.all_have(&second).await;
    (region, second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_reach_agents_by_batch_and_a_bad_one_is_returned() {
    let (region, second) = documents_that_reach_agents(Ground::Embedded).await;
    region.set(&json!({"x": "bad"}), &["--pattern", "canary", "--timeout", "20s"]);
    let last = region.ended().await;
    assert_eq!(last["outcome"], "returned", "{last:#}");
    assert!(last["because"].as_str().unwrap().contains("(hook: exit status: 1"), "{last:#}");
    region.all_have(&second).await;
}
