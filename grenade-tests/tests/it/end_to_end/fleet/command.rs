//! Commands of an operator to a fleet, and what they answer.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grenade_tests::world::wait::get;
use grenade_tests::world::{coordinator, program};
use serde_json::Value;
use tidegate_proto::wire::v1;
use tidegate_proto::wire::v1::operator_client::OperatorClient;

use super::{Fleet, ID, LIMIT};

/// The exit code of a command when no coordinator answers, or none leads.
const AWAY: i32 = 4;

/// What a command said.
#[derive(Debug)]
pub(in crate::end_to_end) struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Fleet {
    /// One command of `tidegate`, at the first coordinator.
    pub(in crate::end_to_end) async fn ask(&self, args: &[&str]) -> Said {
        let token = coordinator::token_file(&self.rig.world).unwrap();
        let args = [&["--token-file", token.to_str().unwrap()], args].concat();
        tidegate(self.coordinators[0].plan.grpc, &args).await
    }

    /// One command that must succeed; its output. Without a leader it is retried, as the command itself says.
    pub(in crate::end_to_end) async fn must(&self, args: &[&str]) -> String {
        let said = self.until("a coordinator leads", args, |said| said.code != Some(AWAY)).await;
        assert_eq!(said.code, Some(0), "tidegate {}: {said:#?}", args.join(" "));
        said.out
    }

    /// Whether a coordinator leads.
    pub(in crate::end_to_end) async fn leads(&self, at: usize) -> bool {
        let answer = get(self.coordinators[at].plan.http, "/readyz").await;
        answer.is_ok_and(|(_, body)| body.contains("\"leads\":true"))
    }

    /// The upgrade's phase, quickly, as one coordinator sees it.
    pub(in crate::end_to_end) async fn phase(&self, at: usize) -> Option<String> {
        let url = format!("http://{}", self.coordinators[at].plan.grpc);
        let mut client = OperatorClient::connect(url).await.ok()?;
        let asked = v1::UpgradeStatusRequest { id: ID.to_owned(), max_instances: 1 };
        Some(client.upgrade_status(asked).await.ok()?.into_inner().upgrade?.phase)
    }

    /// Asks until the answer is such, or says what the last one was.
    pub(in crate::end_to_end) async fn until(
        &self,
        what: &str,
        args: &[&str],
        good: impl Fn(&Said) -> bool,
    ) -> Said {
        let end = Instant::now() + LIMIT;
        loop {
            let said = self.ask(args).await;
            if good(&said) {
                return said;
            }
            assert!(Instant::now() < end, "not in {LIMIT:?}: {what}; last {said:#?}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until `explain` says this.
    pub(in crate::end_to_end) async fn waits_for(&self, words: &[&str]) {
        self.explains(ID, words).await;
    }

    /// Waits until `explain` of any upgrade says this.
    pub(in crate::end_to_end) async fn explains(&self, id: &str, words: &[&str]) {
        let what = format!("it waits for {words:?}");
        self.until(&what, &["upgrade", "explain", id], |said| words.iter().all(|w| said.out.contains(w)))
            .await;
    }

    /// A leader that is new takes no approval before it has looked how far the database is.
    pub(in crate::end_to_end) async fn approve(&self, phase: &str) {
        let approve = ["upgrade", "approve", ID, phase];
        self.until("the approval is taken", &approve, |said| said.code == Some(0)).await;
    }

    /// Approves, as a person, what SQLite cannot show; the wait for it comes first.
    pub(in crate::end_to_end) async fn accept_sessions(&self) {
        self.waits_for(&["accepts what cannot be proved"]).await;
        self.must(&["upgrade", "approve", ID, "contract", "--accept", "sessions"]).await;
    }

    pub(in crate::end_to_end) async fn status(&self) -> Value {
        serde_json::from_str(&self.must(&["--json", "upgrade", "status", ID]).await).unwrap()
    }

    pub(in crate::end_to_end) async fn completed(&self) {
        let over = |said: &Said| said.out.contains("\"over\":true");
        let said = self.until("the upgrade is over", &["--json", "upgrade", "status", ID], over).await;
        let status: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(status["upgrade"]["phase"], "completed", "{status:#}\n{}", self.logs());
    }

    /// What happened: from, to and when, in milliseconds since the epoch.
    pub(in crate::end_to_end) async fn history(&self) -> Vec<Value> {
        let said = self.must(&["--json", "upgrade", "history", ID]).await;
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// When contract was entered, in milliseconds since the epoch; none while it was not.
    pub(in crate::end_to_end) async fn contract_began(&self) -> Option<i64> {
        let events = self.history().await;
        events.iter().find(|event| event["to"] == "contract").map(|event| event["at"].as_i64().unwrap())
    }
}

/// One command of `tidegate` at a coordinator, without a token.
pub(in crate::end_to_end) async fn tidegate(coordinator: SocketAddr, args: &[&str]) -> Said {
    let mut command = Command::new(program::own("tidegate").unwrap());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    command.args(["--coordinator", &format!("http://{coordinator}"), "--as", "op"]).args(args);
    run(command).await
}

/// Runs a command to its end.
pub(in crate::end_to_end) async fn run(mut command: Command) -> Said {
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
