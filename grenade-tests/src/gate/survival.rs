//! The survival check of one fleet: resources are made, verified in each stage, and removed. What the steps of `create`
//! keep is known to the later stages.

use std::net::SocketAddr;

use anyhow::{Context, anyhow};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::balancer::proxy::SERVED_BY;
use crate::gate::file::Gate;
use crate::gate::file::survival::{Act, RUN, Survival};
use crate::gate::late::{Late, Wrong};
use crate::gate::launcher::{self, Places};
use crate::load::exchange::Exchange;
use crate::load::judge::judged;
use crate::load::plan::ANSWER_LIMIT;
use crate::load::wire::Client;
use crate::world::World;

/// One check of resources that must survive.
#[derive(Debug, Clone, Serialize)]
pub struct Survived {
    /// When it was done.
    pub stage: &'static str,
    /// Why it did not hold.
    pub wrong: Option<String>,
    /// Whether a machine that cannot keep up explains that: a deadline, no answer, no connection.
    pub of_time: bool,
}

/// The resources of one fleet.
pub struct Survivors<'a> {
    world: &'a World,
    gate: &'a Gate,
    acts: &'a Survival,
    places: Places,
    /// Where steps are sent; absent: no instance runs.
    at: Option<SocketAddr>,
    /// What logs are called.
    name: &'static str,
    /// What the steps of `create` kept.
    kept: Map<String, Value>,
    seen: Vec<Survived>,
    stages: u32,
}

impl<'a> Survivors<'a> {
    /// Makes them and verifies them, over the balancer at this address, before anything is upgraded; absent: the gate file
    /// has no survival check.
    ///
    /// # Errors
    /// When they could not be made.
    pub async fn begin(
        world: &'a World,
        gate: &'a Gate,
        places: Places,
        at: SocketAddr,
    ) -> anyhow::Result<Option<Self>> {
        let Some(mut survivors) = Self::of(world, gate, places, "survival") else { return Ok(None) };
        survivors.reach(Some(at));
        survivors.create().await?;
        survivors.verify("before the upgrade").await;
        Ok(Some(survivors))
    }

    /// Verifies them after an upgrade, and removes them.
    pub async fn end(&mut self, completed: bool) {
        const STAGE: &str = "after the upgrade";
        match completed {
            true => self.verify_after(STAGE).await,
            false => self.verify(STAGE).await,
        }
        self.destroy("destroyed at the end").await;
    }

    /// Resources that are not made yet; absent: the gate file has no survival check.
    pub fn of(world: &'a World, gate: &'a Gate, places: Places, name: &'static str) -> Option<Self> {
        let acts = gate.survival.as_ref()?;
        let run = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
        let kept = Map::from_iter([(RUN.to_owned(), run.into())]);
        Some(Self { world, gate, acts, places, at: None, name, kept, seen: Vec::new(), stages: 0 })
    }

    /// Where the service is reached from now on; `None`: no instance runs.
    pub fn reach(&mut self, at: Option<SocketAddr>) {
        self.at = at;
    }

    /// Makes the resources.
    ///
    /// # Errors
    /// When they could not be made.
    pub async fn create(&mut self) -> anyhow::Result<()> {
        let made = self.stage("create", &self.acts.create).await;
        self.kept = made.context("resources that are to survive could not be made")?;
        Ok(())
    }

    /// Verifies them, under the base or under both versions.
    pub async fn verify(&mut self, stage: &'static str) {
        self.check(stage, "verify", &self.acts.verify).await;
    }

    /// Verifies them after an upgrade that completed.
    pub async fn verify_after(&mut self, stage: &'static str) {
        let after = &self.acts.verify_after;
        self.check(stage, "verify-after", if after.is_empty() { &self.acts.verify } else { after }).await;
    }

    /// Verifies them while no instance runs.
    pub async fn down(&mut self, stage: &'static str) {
        self.check(stage, "down", &self.acts.down).await;
    }

    /// Removes them.
    pub async fn destroy(&mut self, stage: &'static str) {
        self.check(stage, "destroy", &self.acts.destroy).await;
    }

    /// What was seen in each stage, in order.
    pub fn seen(self) -> Vec<Survived> {
        self.seen
    }

    async fn check(&mut self, stage: &'static str, name: &str, acts: &[Act]) {
        if acts.is_empty() {
            return;
        }
        let wrong = self.stage(name, acts).await.err().map(|error| Wrong::of(&error));
        let of_time = wrong.as_ref().is_some_and(|wrong| wrong.of_time);
        self.seen.push(Survived { stage, wrong: wrong.map(|wrong| wrong.what), of_time });
    }

    /// Does everything of a stage in order; answers the variables that are known at its end.
    async fn stage(&mut self, name: &str, acts: &[Act]) -> anyhow::Result<Map<String, Value>> {
        self.stages += 1;
        let (number, mut variables) = (self.stages, self.kept.clone());
        for (n, act) in acts.iter().enumerate() {
            match act {
                Act::Command(command) => {
                    let mut places = self.places.clone().and(&variables);
                    if let Some(at) = self.at {
                        places = places.behind(at);
                    }
                    let log = format!("{}-{number}-{name}-{}", self.name, n + 1);
                    launcher::run(self.world, self.gate, &log, command, &places).await?;
                }
                Act::Step(step) => {
                    let at = self.at.context("no instance runs that could answer")?;
                    let kept = send(at, step, &variables).await;
                    variables.extend(kept.with_context(|| format!("step {} of {name}", n + 1))?);
                }
            }
        }
        Ok(variables)
    }
}

/// Sends a step once; answers what it keeps.
async fn send(
    at: SocketAddr,
    step: &Exchange,
    variables: &Map<String, Value>,
) -> anyhow::Result<Map<String, Value>> {
    let outgoing = step.outgoing(variables).map_err(anyhow::Error::msg)?;
    let request = format!("{} {}", outgoing.method, outgoing.path);
    let limit = ANSWER_LIMIT + step.own_length();
    let answered = tokio::time::timeout(limit, async { Client::default().send(at, outgoing, false).await.1 });
    let answer = match answered.await {
        Ok(answer) => answer.with_context(|| request.clone())?,
        Err(_) => return Err(Late(format!("{request}: no answer in {limit:?}")).into()),
    };
    judged(step, &answer, variables).map_err(|failure| {
        let by =
            answer.header(SERVED_BY.as_str()).map(|node| format!(" ({node} answered)")).unwrap_or_default();
        let what = format!("{request}: {failure}: {}{by}", failure.detail());
        if failure.is_of_time() { Late(what).into() } else { anyhow!(what) }
    })
}
