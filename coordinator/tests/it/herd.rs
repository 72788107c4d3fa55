//! Agents that obey at once: a whole herd in one task, over the same store and records as the real ones.

use futures::stream::{self, StreamExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_proto::key::Kind;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::report::{
    Abilities, Health, Identity, NOT_LEFT, Report, Rotation, Step, Witness,
};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Commit, Digest, Key, NodeId, Precondition, Release, Revision, ServiceName, Value};
use tidegate_store::{Change, CommitError, Entry, Lease, Scope, Seen, Store};
use tokio_util::sync::CancellationToken;

pub(crate) fn service() -> ServiceName {
    "pantry-api".parse().unwrap()
}

pub(crate) fn node(n: usize) -> NodeId {
    format!("n{n:05}").parse().unwrap()
}

pub(crate) fn release(version: i64) -> Release {
    Release {
        tag: format!("pantry-{version}.0.0").parse().unwrap(),
        sha256: Digest::of(format!("artifact {version}").as_bytes()),
        version: tidegate_proto::ServiceVersion::new(version).unwrap(),
    }
}

struct Agent {
    report: Report,
    zone: String,
    broken_at_2: bool,
}

/// Many agents of one service.
pub(crate) struct Herd {
    store: Store,
    lease: Lease,
    agents: BTreeMap<NodeId, Agent>,
    window: Option<(Window, Revision)>,
    pace: Duration,
    undrained: bool,
    reason: String,
    serving: usize,
    /// The least that ever served at once, as balancers would have seen it.
    pub least: Arc<Mutex<usize>>,
}

impl Herd {
    /// `count` instances at version 1, admitted and reporting.
    pub(crate) async fn at_version_1(store: Store, count: usize) -> Self {
        Self::at(store, count, 1).await
    }

    /// The same at some version.
    pub(crate) async fn at(store: Store, count: usize, version: i64) -> Self {
        let lease = store.lease(Duration::from_secs(60)).await.unwrap();
        let mut herd = Self {
            store,
            lease,
            agents: BTreeMap::new(),
            window: None,
            pace: Duration::ZERO,
            undrained: false,
            reason: "never became healthy".to_owned(),
            serving: count,
            least: Arc::new(Mutex::new(count)),
        };
        for n in 0..count {
            herd.agents.insert(
                node(n),
                Agent { report: report(n, version), zone: format!("z{}", n % 3), broken_at_2: false },
            );
        }
        let admitted: Vec<(NodeId, Revision)> = stream::iter(herd.agents.keys().cloned())
            .map(|n| {
                let herd = &herd;
                // Before any window that there may be: they run already.
                let commit = herd.inventory(&n, &release(version));
                async move { (n.clone(), herd.store.commit(&commit).await.unwrap().revision) }
            })
            .buffer_unordered(64)
            .collect()
            .await;
        for (n, at) in admitted {
            herd.agents.get_mut(&n).unwrap().report.admission = at;
        }
        herd.publish_all().await;
        herd
    }

    /// The agents whose last reports the store holds, under a lease of their own.
    pub(crate) async fn taken_over(store: Store) -> Self {
        let lease = store.lease(Duration::from_secs(60)).await.unwrap();
        let mut agents = BTreeMap::new();
        for entry in store.list(&Scope::Kind(Kind::Report)).await.unwrap().entries {
            let (Key::Report(_, node), Ok(Value::Report(report))) = (entry.key, entry.value) else {
                panic!("a report that cannot be read")
            };
            let report = report.body;
            agents.insert(node, Agent { report, zone: "z".to_owned(), broken_at_2: false });
        }
        let serving = agents.values().filter(|agent| agent.report.rotation == Rotation::In).count();
        let least = Arc::new(Mutex::new(serving));
        let reason = "never became healthy".to_owned();
        let (window, pace, undrained) = (None, Duration::ZERO, false);
        let herd = Self { store, lease, agents, window, pace, undrained, reason, serving, least };
        herd.publish_all().await;
        herd
    }

    /// The release of version 2 never becomes healthy on this node.
    pub(crate) fn break_at_2(mut self, n: usize) -> Self {
        self.agents.get_mut(&node(n)).unwrap().broken_at_2 = true;
        self
    }

    /// What a broken one says.
    pub(crate) fn fails_with(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.reason);
        self
    }

    /// Every step takes so long.
    pub(crate) fn slow(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// No instance leaves rotation.
    pub(crate) fn undrained(mut self) -> Self {
        self.undrained = true;
        self
    }

    async fn admit(&self, n: &NodeId, release: &Release) -> Option<Revision> {
        let at = self.window.as_ref().map_or(Revision::ABSENT, |(_, at)| *at);
        if self.window.as_ref().is_some_and(|(window, _)| !window.admits(release.version)) {
            return None;
        }
        let commit = self.inventory(n, release).when(Precondition::At(Key::Window(service()), at));
        match self.store.commit(&commit).await {
            Ok(done) => Some(done.revision),
            Err(CommitError::Conflict { .. }) => None,
            Err(error) => panic!("admission of {n}: {error}"),
        }
    }

    fn inventory(&self, n: &NodeId, release: &Release) -> Commit {
        let agent = &self.agents[n];
        let inventory = Inventory {
            version: release.version,
            release: Some(release.tag.clone()),
            labels: [("zone".to_owned(), agent.zone.clone())].into(),
            identity: agent.report.identity.clone(),
            at: Timestamp(0),
        };
        Commit::new().put(Key::Inventory(service(), n.clone()), inventory)
    }

    async fn publish(&self, n: &NodeId) {
        let commit = Commit::new().put(Key::Report(service(), n.clone()), self.agents[n].report.clone());
        self.store.commit_leased(&commit, &self.lease).await.unwrap();
    }

    async fn publish_all(&self) {
        stream::iter(self.agents.keys()).for_each_concurrent(64, |n| self.publish(n)).await;
    }

    /// Obeys until cancelled.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let scopes = vec![Scope::Kind(Kind::Directive), Scope::Key(Key::Window(service()))];
        let mut seen = self.store.watch(scopes, cancel);
        while let Some(next) = seen.recv().await {
            let entries: Vec<Entry> = match next {
                Seen::Listed(snapshot) => snapshot.entries,
                Seen::Changed { changes, .. } => changes
                    .into_iter()
                    .filter_map(|change| match change {
                        Change::Put(entry) => Some(entry),
                        Change::Gone { .. } | Change::Foreign { .. } => None,
                    })
                    .collect(),
                _ => continue,
            };
            for entry in entries {
                match (entry.key, entry.value) {
                    (Key::Window(_), Ok(Value::Window(window))) => {
                        self.window = Some((window.body, entry.mod_revision));
                        self.agents.values_mut().for_each(|agent| agent.report.window = entry.mod_revision);
                        self.publish_all().await;
                    }
                    (Key::Directive(_, n), Ok(Value::Directive(directive))) => {
                        self.obey(&n, &directive.body, entry.mod_revision).await;
                    }
                    (key, value) => panic!("{key} holds {value:?}"),
                }
            }
        }
    }

    async fn obey(&mut self, n: &NodeId, directive: &Directive, generation: Revision) {
        let Some(agent) = self.agents.get_mut(n) else { return };
        agent.report.generation = generation;
        let running = agent.report.release.clone();
        agent.report.staged = directive.releases.iter().map(|release| release.tag.clone()).collect();
        agent
            .report
            .staged
            .extend(running.clone().filter(|tag| !directive.releases.iter().any(|r| r.tag == *tag)));
        match &directive.disposition {
            Disposition::Serve { .. } if agent.report.step != Step::Serving => {
                self.go(n, Step::Verifying, Rotation::Returning, Health::Healthy).await;
                self.go(n, Step::Serving, Rotation::In, Health::Healthy).await;
            }
            Disposition::Serve { .. } => self.publish(n).await,
            Disposition::Drain if self.undrained => {
                let reason = "requests are in flight".to_owned();
                self.go(n, Step::Failed { at: NOT_LEFT.to_owned(), reason }, Rotation::In, Health::Healthy)
                    .await;
            }
            Disposition::Drain => {
                self.go(n, Step::Draining, Rotation::Leaving, Health::Healthy).await;
                self.go(n, Step::Drained { forced: false }, Rotation::Out, Health::Healthy).await;
            }
            Disposition::Replace { release } if running.as_ref() != Some(&release.tag) => {
                self.replace(n, release).await;
            }
            Disposition::Replace { .. } => {
                self.go(n, Step::Serving, Rotation::In, Health::Healthy).await;
            }
            Disposition::Stop => self.go(n, Step::Stopped, Rotation::Out, Health::Unknown).await,
        }
    }

    async fn replace(&mut self, n: &NodeId, release: &Release) {
        if !matches!(self.agents[n].report.step, Step::Drained { .. }) {
            self.go(n, Step::Draining, Rotation::Leaving, Health::Healthy).await;
            self.go(n, Step::Drained { forced: false }, Rotation::Out, Health::Healthy).await;
        }
        let Some(at) = self.admit(n, release).await else {
            let refused = Step::Refused { reason: format!("{} is outside the window", release.version) };
            self.go(n, refused, Rotation::Out, Health::Unknown).await;
            return;
        };
        let agent = self.agents.get_mut(n).unwrap();
        agent.report.admission = at;
        agent.report.version = Some(release.version);
        agent.report.release = Some(release.tag.clone());
        agent.report.release_digest = Some(release.sha256);
        if agent.broken_at_2 && release.version.get() == 2 {
            let failed = Step::Failed { at: "verifying".to_owned(), reason: self.reason.clone() };
            self.go(n, failed, Rotation::Out, Health::Unhealthy).await;
            return;
        }
        self.go(n, Step::Verifying, Rotation::Returning, Health::Healthy).await;
        self.go(n, Step::Serving, Rotation::In, Health::Healthy).await;
    }

    async fn go(&mut self, n: &NodeId, step: Step, rotation: Rotation, health: Health) {
        tokio::time::sleep(self.pace).await;
        let report = &mut self.agents.get_mut(n).unwrap().report;
        self.serving -= usize::from(report.rotation == Rotation::In);
        (report.step, report.rotation, report.health) = (step, rotation, health);
        self.serving += usize::from(report.rotation == Rotation::In);
        {
            let mut least = self.least.lock().unwrap();
            *least = (*least).min(self.serving);
        }
        self.publish(n).await;
    }
}

fn report(n: usize, version: i64) -> Report {
    let release = release(version);
    Report {
        version: Some(release.version),
        probed: None,
        nothing_runs: false,
        never_admitted: false,
        release: Some(release.tag.clone()),
        release_digest: Some(release.sha256),
        admission: Revision::ABSENT,
        health: Health::Healthy,
        rotation: Rotation::In,
        step: Step::Serving,
        generation: Revision::ABSENT,
        declined: false,
        window: Revision::ABSENT,
        staged: vec![release.tag],
        stage_failures: BTreeMap::new(),
        identity: Identity { nonce: format!("nonce{n}"), boot: "boot".to_owned() },
        abilities: Abilities {
            replace: Some("process".into()),
            drain: Some("settle".into()),
            artifacts: vec![self::release(1).tag, self::release(2).tag],
            settle: None,
            ready_by_health: false,
            counts_nothing: false,
        },
        in_flight: None,
        witness: Witness::default(),
        fault: None,
        answers: None,
        balancers: Vec::new(),
        balancer_unreachable: None,
    }
}
