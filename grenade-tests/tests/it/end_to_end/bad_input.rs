//! What is wrong is refused with what, where and what is allowed, and changes nothing.

mod agents;
mod certificates;
mod records;
mod specs;

pub(super) use certificates::certificate;
pub(super) use specs::wrong_password;

use std::process::{Command, Stdio};

use grenade_tests::world::program;

use super::fleet::{Fleet, Ground, ID, SECRET, Said, run};

/// An upgrade that waits before the roll.
const SPEC: &str = "min_in_service: 2\nmax_unavailable: 1\napprovals: [roll]";

/// One world for all of it: bringing it up costs more than the cases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_refused_with_what_is_allowed_and_changes_nothing() {
    let fleet = Fleet::on(Ground::SMALL).await;
    let mut wrong = Wrong::default();
    specs::refused(&fleet, &mut wrong).await;
    agents::refused(&fleet, &mut wrong).await;
    records::close_gates(&fleet, &mut wrong).await;
    specs::no_database(&fleet).await;
    specs::wrong_digest(&fleet).await;
    requests_are_refused(&fleet, &mut wrong).await;
    fleet.all_serve(1).await;
    wrong.nothing();
}

/// Requests that are invalid while an upgrade is under way.
async fn requests_are_refused(fleet: &Fleet, wrong: &mut Wrong) {
    fleet.upgrade(SPEC).await;
    fleet.waits_for(&["phase roll requires a manual approval"]).await;
    let before = standing(fleet).await;
    let path = fleet.rig.world.path("upgrade.yaml");
    let second = ["upgrade", "start", path.to_str().unwrap(), "--id", "u2"];
    let cases: [(&[&str], i32, &[&str]); 7] = [
        (&second, 3, &["pantry-api", ID]),
        (
            &["upgrade", "approve", ID, "expand"],
            3,
            &["cannot approve expand", "it waits for approval of roll"],
        ),
        (
            &["upgrade", "approve", ID, "lunch"],
            2,
            &["lunch", "stage, expand, migrate, roll, remove and contract"],
        ),
        (&["upgrade", "approve", "nothing", "roll"], 2, &["nothing"]),
        (
            &["fleet", "decommission", "pantry-api/node-1", "--why", "x", "--stopped-how", "y"],
            3,
            &["pantry-api/node-1", "reports", "lease"],
        ),
        (&["fleet", "decommission", "pantry-api/node-9", "--why", "x"], 2, &["node-9", "never admitted"]),
        (&["fleet", "decommission", "node-1", "--why", "x"], 2, &["node-1", "service/node"]),
    ];
    for (args, code, words) in cases {
        let said = fleet.ask(args).await;
        wrong.answered(&args.join(" "), &said, code, words);
        wrong.same(&format!("{args:?} changes nothing"), standing(fleet).await, before.clone());
    }
    fleet.must(&["upgrade", "rollback", ID, "--why", "it was a test"]).await;
    rolled_back(fleet, ID).await;
}

/// What did not go as it should; all of it is reported at the end, so that one failure does not hide the next.
#[derive(Default)]
pub(super) struct Wrong(Vec<String>);

impl Wrong {
    /// The command ended so, said all of this, and no secret.
    fn answered(&mut self, what: &str, said: &Said, code: i32, words: &[&str]) {
        let silent: Vec<_> = words.iter().filter(|word| !said.err.contains(**word)).collect();
        if said.code != Some(code) || !silent.is_empty() {
            self.0.push(format!("{what}\nshould end with {code} and say {silent:?} too: {said:#?}"));
        }
        for never in [SECRET, "panicked"] {
            self.same(what, said.err.contains(never), false);
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, expected: T) {
        if found != expected {
            self.0.push(format!("{what}\nis {found:?} and should be {expected:?}"));
        }
    }

    pub(super) fn nothing(self) {
        assert!(self.0.is_empty(), "{} of these:\n{}", self.0.len(), self.0.join("\n\n"));
    }
}

async fn rolled_back(fleet: &Fleet, id: &str) {
    let over = |said: &Said| said.out.contains("\"phase\":\"rolled-back\"");
    fleet.until("it is rolled back", &["--json", "upgrade", "status", id], over).await;
}

/// The whole state, besides how long an upgrade has waited: which keys there are, what happened, the state of each.
async fn standing(fleet: &Fleet) -> [String; 3] {
    let keys = etcdctl(fleet, &["get", "", "--from-key", "--keys-only"], None).await;
    let (history, list) = tokio::join!(fleet.ask(&["upgrade", "history", ID]), fleet.ask(&["fleet", "list"]));
    [keys, history.out, list.out]
}

/// The store's revision: it moves with every write.
async fn revision(fleet: &Fleet) -> i64 {
    let text = etcdctl(fleet, &["get", "x", "-w", "json"], None).await;
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    answer["header"]["revision"].as_i64().unwrap()
}

/// Others' client, on our store; a value may be given as bytes.
async fn etcdctl(fleet: &Fleet, args: &[&str], value: Option<&[u8]>) -> String {
    let mut command = Command::new(program::outside("etcdctl").unwrap());
    command.env("ETCDCTL_API", "3").args(["--endpoints", &fleet.store]).args(args);
    let Some(value) = value else {
        let said = run(command).await;
        assert_eq!(said.code, Some(0), "etcdctl {args:?}: {said:#?}");
        return said.out;
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), value).unwrap();
    assert!(child.wait().unwrap().success(), "etcdctl {args:?}");
    String::new()
}
