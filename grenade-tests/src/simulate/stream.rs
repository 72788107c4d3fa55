//! The people of a stream of compute releases: they release, go back, pin and promote, follow what `release explain`
//! advises, and the computes start and signal success or failure.

use super::advice::{is_known_gone, put_back, reconciled};
use super::images::{DROP, PULL};
use super::named::judge_waiting;
use super::operator::{Answer, Command, Operator, understood, within};
use super::scenario::What;
use super::stream_audit::shown;
use super::stream_commands::{self, STREAM, release, run};
use super::stream_plan::{StreamCommand, StreamPlan, StreamStep};
use super::upgrade_id::place_of;
use super::world::World;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use tidegate_coordinator::operation::release::view::Waits;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::wire::v1::{
    ApproveReleaseRequest, ConfigureStreamRequest, ExplainReleaseRequest, PromoteReleaseRequest,
    RecordEvidenceRequest, ReportRunningRequest, ReportSignalRequest, RetryReleaseRequest, SettleTaskRequest,
    StartComputeRequest,
};

/// How often they look, in milliseconds.
const LOOK: u64 = 3_000;

/// So long after everything else is over, no release may wait for what has passed, in milliseconds.
const PATIENCE: u64 = 300_000;

/// What a release may wait for when all is over: a version of the storage that no upgrade reaches, and releases that wait before it.
const MAY_WAIT: [&str; 5] = ["floor", "behind", "no-storage", "rolls-back", "manual"];

/// The people of the stream.
#[derive(Debug)]
pub(super) struct StreamPeople {
    plan: StreamPlan,
    left: VecDeque<StreamStep>,
    looked_at: u64,
    /// Since when nothing else goes on.
    rests_since: Option<u64>,
    /// Which revision and tag each compute started with last.
    started: BTreeMap<String, (u64, String)>,
    /// What happens and is over.
    pub over: bool,
    /// How many releases were asked for.
    pub made: u64,
    configured: bool,
    /// Whether nodes that came back too old were rebuilt.
    installed: bool,
}

/// Who asks.
pub(super) fn who() -> String {
    "releaser".to_owned()
}

impl StreamPeople {
    /// Those of the world's stream.
    pub(super) fn of(world: &World) -> Option<Self> {
        let plan = world.scenario.stream.clone()?;
        let left = plan.steps.iter().cloned().collect();
        Some(Self {
            plan,
            left,
            looked_at: 0,
            rests_since: None,
            started: BTreeMap::new(),
            over: false,
            made: 0,
            configured: false,
            installed: false,
        })
    }

    /// What they do now. `rests` says that nothing else goes on.
    pub(super) async fn step(&mut self, world: &mut World, rests: bool) {
        let now = world.testbed.now();
        if self.over || now < self.looked_at + LOOK {
            return;
        }
        self.looked_at = now;
        self.rests_since = rests.then(|| self.rests_since.unwrap_or(now));
        if rests {
            // What was drawn for later finds no upgrade any more.
            self.left.iter_mut().for_each(|step| step.at = step.at.min(now));
            // What its release may wait for is a node that came back too old.
            if self.rests_since.is_some_and(|since| now > since + PATIENCE / 2) && !self.installed {
                self.installed = true;
                world.reinstall(self.plan.on);
            }
        }
        self.configure(world).await;
        if !self.configured {
            self.tire(world, "its settings could not be set");
            return;
        }
        if let Some(need) = world.withdraw.take() {
            self.withdraw(world, need).await;
        }
        while let Some(step) = self.left.pop_front_if(|step| step.at <= now) {
            self.command(world, &step.what).await;
        }
        if self.plan.storage_back {
            self.take_storage_back(world).await;
        }
        self.computes(world).await;
        self.follow(world).await;
    }

    fn tire(&mut self, world: &World, why: &str) {
        let now = world.testbed.now();
        if self.rests_since.is_some_and(|since| now > since + PATIENCE) {
            world.testbed.state().facts.breach(
                now,
                0,
                format!("stream {STREAM} does not come to rest: {why}"),
            );
            self.over = true;
        }
    }

    async fn configure(&mut self, world: &World) {
        let Ok((room, leadership)) = Operator::new(&world.coordinators).leader() else { return };
        let known =
            room.mirror.view().fleet.stream(&STREAM.parse().expect("a plain word is a name")).is_some();
        if self.configured && (known || self.made == 0) {
            return;
        }
        let names = world.testbed.names();
        let nodes: Vec<&String> = self.plan.nodes.iter().map(|node| &names.nodes[*node]).collect();
        let mut settings = json!({
            "minimum_available": self.plan.kept, "rollback_window": format!("{}ms", self.plan.rollback_window),
            "approval": if self.plan.approval { "required" } else { "none" },
        });
        if !nodes.is_empty() {
            settings["prewarm"] = json!({"hook": PULL, "nodes": nodes});
            settings["removal"] = json!({"hook": DROP, "nodes": nodes});
        }
        let asked = ConfigureStreamRequest {
            stream: STREAM.to_owned(),
            settings: settings.to_string(),
            who: who(),
            why: String::new(),
        };
        let done = said(operation::release::configure_stream(room, &leadership, asked)).await;
        world.testbed.log(format!("settings of {STREAM}: {done:?}"));
        if let Err(why) = &done {
            reconciled(world, why).await;
        }
        self.configured = done.is_ok();
    }

    async fn command(&mut self, world: &mut World, command: &StreamCommand) {
        if let StreamCommand::HooksFail(node, lasts) = command {
            let until = world.testbed.now() + lasts;
            world.testbed.state().disks[*node].images.fail_until = until;
        }
        self.made += u64::from(matches!(command, StreamCommand::Create { .. } | StreamCommand::Both(_)));
        let done = run(world, self.plan.on, self.made, command).await;
        world.testbed.log(format!("{STREAM}: {command:?}: {done}"));
    }

    /// The storage is rolled back, while its new version is needed already.
    async fn take_storage_back(&mut self, world: &World) {
        let found = {
            let state = world.testbed.state();
            let deployed = state.facts.streams.now.get(STREAM).and_then(|stream| stream.deployed.as_deref());
            let needs = deployed.and_then(|head| head.release.requires.values().max()).map(|need| need.get());
            let is_it = |id: &&String| {
                let plan = place_of(id).and_then(|place| world.scenario.upgrades.get(place));
                plan.is_some_and(|plan| plan.service == self.plan.on && needs == Some(plan.from + 1))
            };
            let mut ends = state.facts.phases.iter().filter(|(_, (phase, _))| *phase == PhaseName::Remove);
            ends.find_map(|(id, _)| is_it(&id).then(|| id.clone()))
        };
        let Some(id) = found else { return };
        self.plan.storage_back = false;
        let done = within(Operator::new(&world.coordinators).act(&Command::RollBack(id))).await;
        world.testbed.log(format!("storage is taken back below what {STREAM} needs: {done:?}"));
    }

    /// Storage goes back, and computes go before it: another release that needs what storage has, and no pin.
    async fn withdraw(&mut self, world: &mut World, need: u32) {
        for compute in 0..8 {
            drop(run(world, self.plan.on, self.made, &StreamCommand::Unpin(compute)).await);
        }
        self.made += 1;
        let need = need.min(world.testbed.lowest(self.plan.on));
        let done = release(world, self.plan.on, self.made, (need, false, false)).await;
        world.testbed.log(format!("{STREAM} is withdrawn from newer storage: {done:?}"));
    }

    /// Computes start, signal success or failure, and are counted.
    async fn computes(&mut self, world: &mut World) {
        let reached =
            world.coordinators.iter().flatten().filter(|one| one.gate.is_open() && !one.line.is_cut());
        let contexts: Vec<_> = reached.map(|one| one.context.clone()).collect();
        let Some(room) = world.dice.pick(&contexts) else { return };
        let mut summary = Vec::new();
        for n in 0..self.plan.computes {
            let compute = format!("ep-{n}");
            let asked = StartComputeRequest { stream: STREAM.to_owned(), compute_id: compute.clone() };
            let Ok(start) = operation::release::started(room, &asked) else { continue };
            let revision = start.revision.get();
            let follows = room.mirror.trouble().is_none();
            shown(&world.testbed, STREAM, (compute.as_str(), revision), follows);
            if start.because == "canary" {
                summary.push((compute.clone(), revision));
            }
            self.started.insert(compute, (revision, start.tag.to_string()));
        }
        for (compute, revision) in summary {
            let success = !world.dice.percent(10);
            drop(report_signal(world, compute, revision, success).await);
        }
        let mut counts = BTreeMap::new();
        self.started.values().for_each(|(_, tag)| *counts.entry(tag.clone()).or_insert(0) += 1);
        let Ok((room, leadership)) = Operator::new(&world.coordinators).leader() else { return };
        let asked = ReportRunningRequest { stream: STREAM.to_owned(), counts, who: who() };
        drop(said(operation::release::report_running(room, &leadership, asked)).await);
    }

    /// Does what `release explain` advises.
    async fn follow(&mut self, world: &mut World) {
        let waits = match Operator::new(&world.coordinators).leader() {
            Ok((room, leadership)) => {
                let asked = ExplainReleaseRequest { stream: STREAM.to_owned(), revision: 0 };
                let explained = operation::release::explain_release(room, &leadership, &asked);
                tokio::time::timeout(std::time::Duration::from_secs(20), explained).await
            }
            Err(_) => return,
        };
        let waits = match waits {
            Ok(Ok(waits)) => waits,
            Ok(Err(OperationError::NotFound(_))) if self.made == 0 => Vec::new(),
            _ => return self.tire(world, "it has no explanation"),
        };
        for wait in &waits {
            for reason in &wait.reasons {
                judge_waiting(world, wait.tag.as_str(), &reason.into());
                put_back(world, &reason.blocked_on).await;
                world.correct_config(self.plan.on, &reason.blocked_on);
                if let Some(command) = &reason.next_step {
                    advised(world, wait, &reason.kind, command).await;
                }
            }
        }
        // What came back to an upgrade that was over may hold to its last directive for good.
        let left = world.scenario.faults.iter().any(|fault| matches!(fault.what, What::NodeLeaves(_)));
        let moves = |wait: &&Waits| {
            let open = matches!(wait.status, ReleaseStatus::Pending | ReleaseStatus::Canary);
            let excused = |reason: &WaitingFor| may_wait(reason) || left && reason.kind == "version-unknown";
            open && !wait.reasons.iter().any(excused)
        };
        match waits.iter().find(moves) {
            Some(wait) => {
                let kinds: Vec<&str> = wait.reasons.iter().map(|reason| reason.blocked_on.as_str()).collect();
                self.tire(world, &format!("revision {} is {}: {kinds:?}", wait.revision, wait.status));
            }
            None => self.over = self.rests_since.is_some() && self.left.is_empty(),
        }
    }
}

/// Whether a release may wait for this when all is over. People raise a floor that no upgrade raises.
fn may_wait(reason: &WaitingFor) -> bool {
    let is_raised = matches!(reason.next_step.as_deref().map(understood), Some(Command::Window(..)));
    MAY_WAIT.contains(&reason.kind.as_str()) && !is_raised
}

async fn report_signal(world: &World, compute: String, revision: u64, success: bool) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let asked = ReportSignalRequest {
        stream: STREAM.to_owned(),
        revision,
        compute,
        success,
        why: "it started".to_owned(),
        who: who(),
    };
    said(operation::release::report_signal(room, &leadership, asked)).await
}

/// Follows one advice, as a person who knows the world would.
async fn advised(world: &mut World, wait: &Waits, kind: &str, command: &str) {
    let Ok((room, leadership)) = Operator::new(&world.coordinators).leader() else { return };
    let words: Vec<&str> = command.split_whitespace().collect();
    let (stream, revision) =
        (STREAM.to_owned(), words.get(3).and_then(|word| word.parse().ok()).unwrap_or(0));
    let (who, why) = (who(), "it was advised".to_owned());
    let done = match words.get(1..3) {
        Some(["release", "approve"]) => {
            let asked = ApproveReleaseRequest { stream, revision, who, note: why };
            said(operation::release::approve_release(room, &leadership, asked)).await
        }
        Some(["release", "retry"]) => {
            said(operation::release::retry_release(
                room,
                &leadership,
                RetryReleaseRequest { stream, revision, who, why },
            ))
            .await
        }
        // Its computes signal; where none of them is within the share, a person decides.
        Some(["release", "promote"]) if wait.status == ReleaseStatus::Canary || kind == "canary-busy" => {
            if !world.dice.percent(25) {
                return;
            }
            let asked =
                PromoteReleaseRequest { stream, revision, who, why, deploy: true, ..Default::default() };
            said(operation::release::promote_release(room, &leadership, asked)).await
        }
        Some(["compat", "--compute-tag"]) => {
            let word = |at: usize| words.get(at).map_or_else(String::new, |word| (*word).to_owned());
            let asked = RecordEvidenceRequest {
                compute_tag: word(3),
                storage_tag: word(5),
                verdict: "pass".to_owned(),
                note: why,
                who,
                log_sha256: String::new(),
            };
            said(operation::release::record_evidence(room, &leadership, asked)).await
        }
        Some(["task", "settle"]) => {
            let (Some(node), Some(task)) = (words.get(3), words.get(4)) else { return };
            let Some(outcome) = stream_commands::truth(world, node, task, wait.tag.as_str()) else { return };
            let (node, task) = ((*node).to_owned(), (*task).to_owned());
            let asked = SettleTaskRequest { node, task, outcome: outcome.to_owned(), why, who };
            said(operation::settle_task(room, &leadership, asked)).await
        }
        Some(["fleet", "decommission"])
            if words.get(3).is_none_or(|instance| !is_known_gone(world, instance)) =>
        {
            return;
        }
        Some(["fleet", "decommission" | "window"]) => {
            let done = within(Operator::new(&world.coordinators).act(&understood(command))).await;
            if let Err(not_done) = &done {
                reconciled(world, &not_done.why).await;
                put_back(world, &not_done.why).await;
            }
            done.map_err(|not_done| not_done.why)
        }
        Some(["fleet", "reconcile"]) => {
            reconciled(world, command).await;
            return;
        }
        _ => return,
    };
    world.testbed.log(format!("{kind}: {command}: {done:?}"));
}

/// What a release request was answered.
pub(super) async fn said<T: Signals>(asked: impl Future<Output = Result<T, OperationError>>) -> Answer {
    within(async { asked.await.map(T::summary).map_err(|error| error.to_string()) }).await
}

/// An answer in words.
pub(super) trait Signals {
    /// The words.
    fn summary(self) -> String;
}

impl Signals for tidegate_proto::wire::v1::ReleaseReply {
    fn summary(self) -> String {
        self.what
    }
}

impl Signals for tidegate_proto::wire::v1::Done {
    fn summary(self) -> String {
        self.what
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_that_a_person_raises_is_not_waited_for() {
        let waits = |kind: &str, next_step: &str| {
            may_wait(&WaitingFor {
                kind: kind.to_owned(),
                blocked_on: String::new(),
                owner: String::new(),
                next_step: Some(next_step.to_owned()),
                timeout: None,
                since: None,
            })
        };
        assert!(waits("floor", "tidegate upgrade list pantry --active"));
        assert!(!waits("floor", "tidegate fleet window pantry --floor 2 --ceiling 2147483647 --why …"));
        assert!(!waits("evidence", "grenade compat --compute-tag a --storage-tag b -- COMMAND"));
    }
}
