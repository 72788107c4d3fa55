//! Images of compute releases on simulated nodes, and the hooks of tasks that pull and drop them.

use super::dice::Dice;
use super::gate::Gate;
use super::testbed::Testbed;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_agent::host::{RunState, TaskEnd, TaskRuns};
use tidegate_proto::TaskId;
use tidegate_proto::record::task::Outcome;

/// The hook that pulls an image, as nodes define it.
pub(super) const PULL: &str = "pull-image";

/// The hook that drops one.
pub(super) const DROP: &str = "drop-image";

/// The images of one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Images {
    /// Their tags.
    pub there: BTreeSet<String>,
    /// Until when a hook that is begun fails.
    pub fail_until: u64,
    runs: BTreeMap<TaskId, Run>,
}

#[derive(Debug, Clone)]
enum Run {
    Runs,
    Ended(bool),
    Lost,
}

impl Images {
    /// The node lost its power: how its hooks ended is unknown.
    pub(super) fn lose_power(&mut self) {
        self.runs.values_mut().filter(|run| matches!(run, Run::Runs)).for_each(|run| *run = Run::Lost);
    }

    /// Whether a hook of this task runs.
    pub(super) fn runs(&self, id: &TaskId) -> bool {
        matches!(self.runs.get(id), Some(Run::Runs))
    }
}

/// The hooks of tasks of one node, as one agent's process sees them.
#[derive(Debug)]
pub(super) struct Hooks {
    testbed: Testbed,
    node: usize,
    gate: Gate,
    dice: Arc<Mutex<Dice>>,
}

impl Hooks {
    /// Those of a node.
    pub(super) fn new(testbed: Testbed, node: usize, gate: Gate, dice: Arc<Mutex<Dice>>) -> Self {
        Self { testbed, node, gate, dice }
    }
}

impl TaskRuns for Hooks {
    fn look(&self, id: &TaskId, boot: &str) -> RunState {
        let is_this_boot = boot == self.testbed.boot_id(self.node);
        let ended = |good| match good {
            true => Outcome::Succeeded,
            false => Outcome::Failed { why: "the registry does not answer".to_owned() },
        };
        match self.testbed.state().disks[self.node].images.runs.get(id) {
            None if is_this_boot => RunState::NotBegun,
            // What it had begun may have been lost with the power.
            None | Some(Run::Lost) => RunState::Lost("the machine was booted while the hook ran".to_owned()),
            Some(Run::Runs) => RunState::Runs,
            Some(Run::Ended(good)) => RunState::Ended(TaskEnd::short(ended(*good))),
        }
    }

    fn start(
        &self,
        id: &TaskId,
        argv: &[String],
        _env: &BTreeMap<String, String>,
        _limit: Duration,
    ) -> io::Result<()> {
        if self.gate.is_dead() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let [verb, tag] = argv else { return Err(io::ErrorKind::InvalidInput.into()) };
        let (testbed, node, id) = (self.testbed.clone(), self.node, id.clone());
        let fails = {
            let (now, mut state) = (testbed.now(), testbed.state());
            let images = &mut state.disks[node].images;
            images.runs.insert(id.clone(), Run::Runs);
            now < images.fail_until
        };
        let takes = self.dice.lock().unwrap_or_else(PoisonError::into_inner).within(50, 3_000);
        let (verb, tag) = (verb.clone(), tag.clone());
        // It goes on when its agent is killed.
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            ends(&testbed, node, &id, (&verb, &tag), fails);
        });
        Ok(())
    }

    fn forget(&self, id: &TaskId) {
        self.testbed.state().disks[self.node].images.runs.remove(id);
    }

    fn forget_all_but(&self, active: Option<&TaskId>) {
        let mut state = self.testbed.state();
        let runs = &mut state.disks[self.node].images.runs;
        runs.retain(|id, run| active == Some(id) || matches!(run, Run::Runs));
    }
}

fn ends(testbed: &Testbed, node: usize, id: &TaskId, (verb, tag): (&str, &str), fails: bool) {
    let now = testbed.now();
    let name = testbed.names().nodes[node].clone();
    let mut state = testbed.state();
    let images = &mut state.disks[node].images;
    match images.runs.get_mut(id) {
        Some(run @ Run::Runs) => *run = Run::Ended(!fails),
        // The power went, or nothing waits for it any more.
        _ => return,
    }
    let word = if fails { "fails" } else { "is done" };
    state.log.log(now, &format!("{name}: {verb} {tag} {word} ({id})"));
    if fails {
        return;
    }
    let images = &mut state.disks[node].images;
    match verb {
        "pull" => drop(images.there.insert(tag.to_owned())),
        _ => {
            images.there.remove(tag);
            state.facts.image_removed(now, &name, tag);
        }
    }
}
