//! What an agent says of an instance now. It lives under the agent's lease and is written only when something that
//! matters changes: the lease is the heartbeat.

use super::Body;
use super::reconciliation::AcceptedState;
use crate::{Digest, Generation, ReleaseTag, Revision, ServiceVersion, Span, TermId};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// One instance, as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// The version that runs. Absent reads as 1 (Nova); `null` means unknown: the probe failed, or nothing runs.
    #[serde(default = "ServiceVersion::absent")]
    pub version: Option<ServiceVersion>,
    /// What the probe answers while `version` is withheld because it is not admitted. No gate counts it; a person who
    /// reconciles a store is shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probed: Option<ServiceVersion>,
    /// Whether the agent has evidence that nothing runs: the service's lock is free, its stop hook came to its end and
    /// nothing has answered since, or its status hook denies that it runs. Absent = it has none, or is an older agent. A
    /// plan to reconcile a store reads it, and an upgrade that is ended in preflight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing_runs: bool,
    /// Whether what the probe answers is above the ceiling that the agent obeyed last, and is not the version that was
    /// admitted last, or is hidden and was not admitted after that window was set: no window that it obeyed admitted it. What
    /// a person hides counts as hidden once it is refused. Absent = it is not, or an older agent. A plan to reconcile a store
    /// reads it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_admitted: bool,
    /// The release that runs, where the agent knows it; also the one that it has started and that answers no version.
    pub release: Option<ReleaseTag>,
    /// The sha256 of that release's artifact, as the agent knows it: what a rollback returns to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_digest: Option<Digest>,
    /// The mod_revision of the inventory record that this report belongs to; 0 before any admission.
    #[serde(default)]
    pub admission: Revision,
    /// Whether it can serve.
    #[serde(default)]
    pub health: Health,
    /// Whether balancers send it requests.
    #[serde(default)]
    pub rotation: Rotation,
    /// Its step in its lifecycle.
    #[serde(default)]
    pub step: Step,
    /// The generation of the last directive that the agent accepted and journalled; 0 for none.
    #[serde(default)]
    pub generation: Generation,
    /// The directive of `generation` presumes that the instance is out of rotation, and it was not; or it would take the
    /// instance out, and is older than the agent's journal; or it is of a former store, and nothing of the service ran any
    /// more: it is not carried out under this generation. Absent = it is, or an older agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    /// The mod_revision of the last window that the agent journalled (fsync) *before* it probed `version` again.
    #[serde(default)]
    pub window: Revision,
    /// Every release that is present on the node, the running one included where it is kept there; digests verified.
    #[serde(default)]
    pub staged: Vec<ReleaseTag>,
    /// A staging or removal that failed, by tag, with what was tried and found.
    #[serde(default)]
    pub stage_failures: BTreeMap<ReleaseTag, String>,
    /// Who reports.
    pub identity: Identity,
    /// What this agent is able to do for the service: preflight reads it.
    #[serde(default)]
    pub abilities: Abilities,
    /// Requests in flight; written only while draining, at most once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// What balancers say of the instance: while it drains each of them, with its sessions and at most once a second; else
    /// only one that a person, and not a health check, keeps from sending requests (MAINT, DRAIN, NOLB).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub balancers: Vec<BalancerReport>,
    /// What the agent has obeyed, whatever a restored store says later.
    #[serde(default, skip_serializing_if = "Witness::is_silent")]
    pub witness: Witness,
    /// What goes wrong, or went wrong a short time ago, since the instance was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Box<Fault>>,
    /// What its probe and its addresses answered, where it has not been well for some seconds while it should be;
    /// updated at most every 15 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Box<str>>,
    /// The balancer that could not be asked last, and why; absent = none is configured, or each has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balancer_unreachable: Option<Box<str>>,
}

/// What goes wrong with an instance after it was verified, while it should be in rotation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fault {
    /// What was seen.
    pub reason: String,
    /// It lasted for longer than a hiccup does, or the process ended: it counts as a failure of what runs.
    #[serde(default)]
    pub lasting: bool,
    /// It began a short time ago: a recent fault of another instance may have the same cause.
    #[serde(default)]
    pub recent: bool,
}

/// What one balancer says of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BalancerReport {
    /// Which, and under which name it knows the instance.
    pub balancer: String,
    /// Its word: UP, DOWN, MAINT, `DOWN 1/2`.
    pub status: String,
    /// Sessions that it has open there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
}

impl BalancerReport {
    /// Whether this was set at the balancer, and not by a health check.
    pub fn is_by_hand(&self) -> bool {
        ["MAINT", "DRAIN", "NOLB"].iter().any(|word| self.status.starts_with(word))
    }
}

impl std::fmt::Display for BalancerReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.balancer, self.status)?;
        match self.sessions {
            Some(sessions) => write!(f, ", {sessions} sessions"),
            None => Ok(()),
        }
    }
}

/// What an agent's journal keeps against a store that was restored from a backup, or is blank.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Witness {
    /// The term of the last directive that was accepted: `generation` was written under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<TermId>,
    /// The floor of the last window that was acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<ServiceVersion>,
    /// The mod_revision of the reconciliation from which on the agent obeys; 0 before any.
    #[serde(default, skip_serializing_if = "Revision::is_absent")]
    pub reconciled: Revision,
}

impl Witness {
    /// Whether it says nothing.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }
}

impl Report {
    /// The version that runs, as far as its agent knows it, admitted or not.
    pub fn runs(&self) -> Option<ServiceVersion> {
        self.version.or(self.probed)
    }

    /// What its agent has obeyed so far.
    pub fn obeyed(&self) -> AcceptedState<'_> {
        AcceptedState {
            term: self.witness.term.as_ref(),
            floor: self.witness.floor,
            revision: self.generation.max(self.window).max(self.admission),
        }
    }
}

impl Body for Report {
    const SCHEMA: u32 = 1;
    const MAX_BYTES: usize = 64 * 1024;
}

/// Whether an instance can serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// Its readiness URL answers well.
    Healthy,
    /// It answers badly, or not at all.
    Unhealthy,
    /// Not yet probed.
    #[default]
    Unknown,
}

/// Whether balancers send an instance requests, as far as its agent has evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// The health URL answers 200 and every balancer says UP (or its checks had time to see it).
    In,
    /// On its way out: the disable-file is there.
    Leaving,
    /// Out: the health URL was seen to answer 503 and every balancer has deregistered it.
    Out,
    /// Returning to rotation: the disable-file is gone, not every balancer says UP yet.
    Returning,
    /// Out by a disable-file that a person made.
    Maintenance,
    /// Not known.
    #[default]
    Unknown,
}

/// An instance's step in its lifecycle (machine 2 of the design).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Step {
    /// In service: in rotation and healthy for its minimum healthy time.
    Serving,
    /// The disable-file is there; waiting for balancers and in-flight requests.
    Draining,
    /// Out of rotation with nothing in flight; `forced` when the deadline passed first.
    Drained {
        /// The drain deadline passed with requests in flight.
        #[serde(default)]
        forced: bool,
    },
    /// The old process is being stopped, or the new one started.
    Replacing,
    /// Started and admitted; waiting until it is healthy, in rotation, and stays so.
    Verifying,
    /// Nothing runs. Also where it was stopped to be replaced, and the store fell back since: nothing is started
    /// under that store.
    Stopped,
    /// Admission was refused; it does not run, or runs kept out of rotation.
    Refused {
        /// The window that refused it, and what it would have needed.
        reason: String,
    },
    /// What was tried did not succeed; the agent does not try again under this generation.
    Failed {
        /// The step that failed, in the words above.
        at: String,
        /// What was tried and what was found.
        reason: String,
    },
    /// Not known yet: the agent has just begun.
    #[default]
    Starting,
}

/// Where a step failed whose drain changed nothing: the health URL, or a balancer, does not heed the disable-file. Nothing
/// of the service was stopped, and what it runs is not to blame.
pub const NOT_LEFT: &str = "leaving-rotation";

/// Where a step failed because what runs did not become healthy in rotation, or did not stay so.
pub const NOT_VERIFIED: &str = "verifying";

/// What the reason of a failed drain ends with where its agent cannot count requests in flight and sees no work: a person who
/// knows that the service has stopped may declare it.
pub const MAY_HAVE_STOPPED: &str = "if the service has stopped, retry with --declare-stopped";

impl Step {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        self.into()
    }
}

/// Who reports: a nonce in the agent's locked state directory, plus the boot of its machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Random, made once per state directory.
    pub nonce: String,
    /// The machine's boot id.
    pub boot: String,
}

/// What an agent is able to do for a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Abilities {
    /// How code is replaced: `process`, `systemd`, `command`; absent when the agent only watches.
    pub replace: Option<SmolStr>,
    /// How a drain is proved: `haproxy` (balancers are asked) or `settle` (time that covers their checks).
    pub drain: Option<SmolStr>,
    /// The releases that this agent knows an artifact for.
    #[serde(default)]
    pub artifacts: Vec<ReleaseTag>,
    /// How long it waits at least after the health URL refuses, where no balancer is asked: check.interval × check.fall.
    /// Absent = balancers are asked, or an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Span>,
    /// Its readiness URL is its health URL, which answers 503 while the disable-file is there: readiness is not known
    /// before the instance is shown. Absent = they differ, or an older agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ready_by_health: bool,
    /// The number of requests in flight is not known: it has no counter, and asks no balancer, so that a drain lasts
    /// until its deadline. Absent = it is known, or an older agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_nothing: bool,
}

impl Abilities {
    /// Whether balancers are asked, so that it is known, and not estimated, that requests no longer reach the instance.
    /// An agent that does not say counts as one that asks.
    pub fn asks_balancers(&self) -> bool {
        self.drain.as_deref() != Some("settle")
    }
}
