//! Agents: each obeys its directive one step at a time, and reports.

use super::{World, node, release, service};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::Commit;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::report::{
    Abilities, Health, Identity, NOT_LEFT, Report, Rotation, Step, Witness,
};
use tidegate_proto::{Key, NodeId, Release, Revision, Value};

/// An agent with its service.
#[derive(Clone)]
pub(crate) struct Agent {
    pub report: Report,
    pub release: Release,
    pub staged: BTreeSet<Release>,
    pub zone: String,
    /// Releases of this version never become healthy here.
    pub broken_at: Option<i64>,
    /// Its balancer never deregisters it.
    pub undrainable: bool,
    /// Its health check looks at no disable-file.
    pub heedless: bool,
    /// Its readiness URL fails for now; its health URL goes on to answer 200.
    pub unready: bool,
    /// Releases of this version are not ready here once they are in rotation.
    pub ill_at: Option<i64>,
    pub alive: bool,
    pub admitted: i64,
    /// The directive and window under which it last had nothing to do.
    pub idle: Option<(i64, i64)>,
}

impl Agent {
    fn is_ready(&self) -> bool {
        !self.unready && self.ill_at != Some(i64::from(self.release.version.get()))
    }

    /// What runs is as healthy as its readiness URL says.
    fn feel(&mut self) {
        let runs = matches!(
            self.report.step,
            Step::Serving | Step::Draining | Step::Drained { .. } | Step::Verifying
        );
        if runs && self.report.health != Health::Unknown {
            self.report.health = if self.is_ready() { Health::Healthy } else { Health::Unhealthy };
        }
    }
}

impl World {
    pub(crate) fn join(&mut self, n: usize, version: i64) {
        let release = release(version);
        let report = Report {
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
            staged: vec![release.tag.clone()],
            stage_failures: BTreeMap::new(),
            identity: Identity { nonce: format!("nonce{n}"), boot: "boot".into() },
            abilities: Abilities {
                replace: Some("process".into()),
                drain: Some("haproxy".into()),
                artifacts: [1, 2, 3].map(|version| super::release(version).tag).into(),
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
        };
        let agent = Agent {
            report,
            release: release.clone(),
            staged: [release].into(),
            zone: ["a", "b", "c"][n % 3].into(),
            broken_at: None,
            undrainable: false,
            heedless: false,
            unready: false,
            ill_at: None,
            alive: true,
            admitted: 0,
            idle: None,
        };
        self.agents.insert(node(n), agent);
        self.admit(&node(n));
        self.publish(&node(n));
    }

    /// Whether the window admits a version.
    pub(crate) fn admits(&self, version: i64) -> bool {
        let version = release(version).version;
        let window = self.store.keys.get(&Key::Window(service()));
        window.is_none_or(|(value, _, _)| matches!(value, Value::Window(w) if w.body.admits(version)))
    }

    /// Admits what the agent is about to run; false where the window refuses it.
    pub(crate) fn admit(&mut self, n: &NodeId) -> bool {
        let agent = &self.agents[n];
        if !self.admits(i64::from(agent.release.version.get())) {
            return false;
        }
        let inventory = Inventory {
            version: agent.release.version,
            release: Some(agent.release.tag.clone()),
            labels: Some(("zone".to_owned(), agent.zone.clone()))
                .filter(|(_, zone)| !zone.is_empty())
                .into_iter()
                .collect(),
            identity: agent.report.identity.clone(),
            at: Timestamp(0),
        };
        let at = self.store.put(Key::Inventory(service(), n.clone()), inventory);
        self.agents.get_mut(n).unwrap().admitted = at;
        true
    }

    /// What the agent would report now.
    pub(crate) fn due(&self, n: &NodeId) -> Report {
        let agent = &self.agents[n];
        let staged = agent.staged.iter().map(|r| r.tag.clone()).collect();
        Report { admission: Revision(agent.admitted), staged, ..agent.report.clone() }
    }

    pub(crate) fn is_report_due(&self, n: &NodeId) -> bool {
        let stored = self.store.keys.get(&Key::Report(service(), n.clone()));
        !matches!(stored, Some((Value::Report(r), _, _)) if r.body == self.due(n))
    }

    pub(crate) fn publish(&mut self, n: &NodeId) {
        let report = self.due(n);
        let key = Key::Report(service(), n.clone());
        let same = matches!(self.store.keys.get(&key), Some((Value::Report(r), _, _)) if r.body == report);
        if !same {
            self.store.put(key, report);
        }
    }

    /// The lease lapses; the service goes on.
    pub(crate) fn fall_silent(&mut self, n: usize) {
        self.agents.get_mut(&node(n)).unwrap().alive = false;
        self.store.commit(&Commit::new().delete(Key::Report(service(), node(n))));
    }

    /// Its readiness fails, or is back; the report follows at once.
    pub(crate) fn set_unready(&mut self, n: &NodeId, unready: bool) {
        let agent = self.agents.get_mut(n).unwrap();
        (agent.unready, agent.idle) = (unready, None);
        agent.feel();
        if agent.alive {
            self.publish(n);
        }
    }

    /// Releases of this version are not ready on any node, from now on.
    pub(crate) fn all_ill_at(&mut self, version: i64) {
        let nodes: Vec<NodeId> = self.agents.keys().cloned().collect();
        for n in nodes {
            self.agents.get_mut(&n).unwrap().ill_at = Some(version);
            let unready = self.agents[&n].unready;
            self.set_unready(&n, unready);
        }
    }

    /// A node that was away comes back with this version: its service is started only where it is admitted.
    pub(crate) fn return_with(&mut self, n: &NodeId, version: i64) {
        let agent = self.agents.get_mut(n).unwrap();
        (agent.alive, agent.idle) = (true, None);
        agent.release = release(version);
        agent.staged.insert(release(version));
        let admitted = self.admit(n);
        let agent = self.agents.get_mut(n).unwrap();
        agent.report.version = admitted.then(|| release(version).version);
        agent.report.release = Some(release(version).tag);
        agent.report.release_digest = Some(release(version).sha256);
        let (step, rotation, health) = match admitted {
            true => (Step::Serving, Rotation::In, Health::Healthy),
            false => (Step::Refused { reason: "outside the window".into() }, Rotation::Out, Health::Unknown),
        };
        (agent.report.step, agent.report.rotation, agent.report.health) = (step, rotation, health);
        self.publish(n);
    }

    /// One step of every agent; whether any moved.
    pub(crate) fn agents_step(&mut self) -> bool {
        let nodes: Vec<NodeId> = self.agents.keys().cloned().collect();
        nodes.iter().map(|n| self.agent_step(n)).fold(false, |any, moved| any | moved)
    }

    /// One step of one agent, reported at once; false where it had nothing to do.
    pub(crate) fn agent_step(&mut self, n: &NodeId) -> bool {
        let moved = self.act(n);
        if self.agents[n].alive {
            self.publish(n);
        }
        moved
    }

    /// One step of one agent, not reported yet; false where it had nothing to do.
    pub(crate) fn act(&mut self, n: &NodeId) -> bool {
        let agent = &self.agents[n];
        if !agent.alive {
            return false;
        }
        if self.take_word_in(n) {
            return true;
        }
        let agent = &self.agents[n];
        let directed = self.store.keys.get(&Key::Directive(service(), n.clone())).map_or(0, |(_, at, _)| *at);
        let window = self.store.keys.get(&Key::Window(service())).map_or(0, |(_, modified, _)| *modified);
        if agent.idle == Some((directed, window)) {
            return false;
        }
        let before = (agent.report.clone(), agent.staged.clone(), agent.admitted);
        self.agents.get_mut(n).unwrap().report.window = Revision(window);
        if let Some((Value::Directive(directive), at, _)) =
            self.store.keys.get(&Key::Directive(service(), n.clone())).cloned()
        {
            // One that is older than what was obeyed is refused.
            if at >= self.agents[n].report.generation.0 {
                self.stage(n, &directive.body.releases);
                if !self.declines(n, &directive.body, at) {
                    self.obey(n, &directive.body.disposition, at);
                }
            }
        }
        let agent = self.agents.get_mut(n).unwrap();
        agent.feel();
        let moved = (&agent.report, &agent.staged, agent.admitted) != (&before.0, &before.1, before.2);
        agent.idle = (!moved).then_some((directed, window));
        moved
    }

    /// Whether a person has reconciled the store with what this agent obeyed: it counts from there.
    fn take_word_in(&mut self, n: &NodeId) -> bool {
        let Some((Value::Reconciliation(word), at, _)) = self.store.keys.get(&Key::Reconciliation) else {
            return false;
        };
        let (report, at) = (&self.agents[n].report, Revision(*at));
        if report.witness.reconciled == at || !word.body.covers(&service(), n, report.obeyed()) {
            return false;
        }
        let agent = self.agents.get_mut(n).unwrap();
        if agent.report.generation.exists() {
            agent.report.generation = at;
        }
        agent.report.window = Revision::ABSENT;
        agent.report.witness = Witness { term: None, floor: agent.report.witness.floor, reconciled: at };
        agent.idle = None;
        self.admit(n);
        true
    }

    fn stage(&mut self, n: &NodeId, releases: &[Release]) {
        let agent = self.agents.get_mut(n).unwrap();
        let running = agent.release.clone();
        agent.staged.extend(releases.iter().cloned());
        agent.staged.retain(|r| releases.contains(r) || *r == running);
    }

    /// Whether a directive that presumes it out of rotation found it in rotation, now or before.
    fn declines(&mut self, n: &NodeId, directive: &Directive, generation: i64) -> bool {
        let report = &mut self.agents.get_mut(n).unwrap().report;
        let fresh = report.generation.0 < generation;
        let begun = matches!(report.step, Step::Draining | Step::Drained { .. });
        let shown = matches!(report.rotation, Rotation::In | Rotation::Returning | Rotation::Unknown);
        let declined = directive.presumes_out && shown && (fresh || begun);
        report.declined = declined || !fresh && report.declined;
        if declined {
            report.generation = Revision(generation);
            report.step = if begun { Step::Verifying } else { report.step.clone() };
        } else if report.declined && report.step == Step::Verifying {
            report.step = Step::Serving;
        }
        report.declined
    }

    fn obey(&mut self, n: &NodeId, disposition: &Disposition, generation: i64) {
        let agent = self.agents.get_mut(n).unwrap();
        let fresh = agent.report.generation.0 < generation;
        agent.report.generation = Revision(generation);
        let (step, rotation, health) =
            (agent.report.step.clone(), agent.report.rotation, agent.report.health);
        let running = agent.release.clone();
        let heedless = self.agents[n].heedless;
        let held = (heedless || self.agents[n].undrainable) && step == Step::Draining;
        // What is ill once it is in rotation was well before.
        let ready = !self.agents[n].unready;
        let admitted = self.admits(i64::from(running.version.get()));
        let broken = self.agents[n].broken_at == Some(i64::from(running.version.get()));
        let mut go = |step: Step, rotation: Rotation, health: Health| {
            let agent = self.agents.get_mut(n).unwrap();
            (agent.report.step, agent.report.rotation, agent.report.health) = (step, rotation, health);
        };
        match (disposition, step) {
            (Disposition::Drain | Disposition::Replace { .. }, _) if held => {
                let reason = "a balancer still sends requests".into();
                let at = if heedless { NOT_LEFT } else { "draining" };
                go(Step::Failed { at: at.into(), reason }, Rotation::In, health)
            }
            (_, Step::Failed { .. }) if !fresh => {}
            // What comes back into rotation is admitted first.
            (Disposition::Serve { .. }, Step::Failed { .. } | Step::Draining | Step::Drained { .. })
                if !admitted =>
            {
                go(Step::Refused { reason: "outside the window".into() }, Rotation::Out, health)
            }
            (Disposition::Serve { .. }, Step::Failed { at, .. }) if at == "draining" || at == NOT_LEFT => {
                go(Step::Verifying, Rotation::Returning, health)
            }
            // A running release is verified again; a broken one fails again.
            (Disposition::Serve { .. }, Step::Failed { at, .. }) if at == "verifying" && !broken => {
                go(Step::Verifying, rotation, health)
            }
            (Disposition::Serve { .. }, Step::Draining | Step::Drained { .. }) => {
                go(Step::Verifying, Rotation::Returning, health)
            }
            (Disposition::Serve { .. }, Step::Verifying) if !ready => {}
            (Disposition::Serve { .. }, Step::Verifying) => go(Step::Serving, Rotation::In, Health::Healthy),
            (Disposition::Serve { .. }, _) => {}
            (Disposition::Drain, Step::Draining) => {
                go(Step::Drained { forced: false }, Rotation::Out, health)
            }
            (Disposition::Drain, Step::Drained { .. }) => {}
            (Disposition::Drain, _) => go(Step::Draining, Rotation::Leaving, health),
            // What was carried out is not begun again.
            (Disposition::Replace { .. }, Step::Refused { .. }) if !fresh => {}
            (Disposition::Replace { release }, Step::Verifying) if *release == running && !ready => {}
            (Disposition::Replace { release }, Step::Verifying) if *release == running => self.verify(n),
            (Disposition::Replace { release }, Step::Serving)
                if *release == running && rotation == Rotation::In => {}
            (
                Disposition::Replace { release },
                Step::Drained { .. }
                | Step::Failed { .. }
                | Step::Refused { .. }
                | Step::Stopped
                | Step::Starting,
            ) => self.replace(n, release),
            (Disposition::Replace { .. }, Step::Draining) => {
                go(Step::Drained { forced: false }, Rotation::Out, health)
            }
            (Disposition::Replace { .. }, _) => go(Step::Draining, Rotation::Leaving, health),
            (Disposition::Stop, _) => go(Step::Stopped, Rotation::Out, Health::Unknown),
        }
    }

    fn replace(&mut self, n: &NodeId, release: &Release) {
        let agent = self.agents.get_mut(n).unwrap();
        assert!(agent.staged.contains(release), "{n} is ordered to run {} and does not have it", release.tag);
        agent.release = release.clone();
        let admitted = self.admit(n);
        let agent = self.agents.get_mut(n).unwrap();
        agent.report.rotation = Rotation::Out;
        agent.report.health = Health::Unknown;
        agent.report.fault = None;
        if admitted {
            agent.report.step = Step::Verifying;
            agent.report.version = Some(release.version);
            agent.report.release = Some(release.tag.clone());
            agent.report.release_digest = Some(release.sha256);
        } else {
            agent.report.step = Step::Refused { reason: "outside the window".into() };
            agent.report.version = None;
        }
    }

    fn verify(&mut self, n: &NodeId) {
        let agent = self.agents.get_mut(n).unwrap();
        let broken = agent.broken_at == Some(i64::from(agent.release.version.get()));
        if broken {
            agent.report.step =
                Step::Failed { at: "verifying".into(), reason: "never became healthy".into() };
            agent.report.health = Health::Unhealthy;
        } else {
            agent.report.step = Step::Serving;
            agent.report.rotation = Rotation::In;
            agent.report.health = Health::Healthy;
        }
    }
}
