//! What a person decides.

pub(crate) mod rollback;

use super::description::{Description, MANUAL, Waits};
use super::roll::{open_failures, open_stage_failures, rollback};
use super::{Answer, Reason};
use crate::upgrade::View;
use serde::{Deserialize, Serialize};
use tidegate_proto::mutant;
use tidegate_proto::record::upgrade::{Pause, SESSIONS};
use tidegate_proto::spec::ApprovalPoint;

/// A gate that a person opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum PersonGate {
    Preflight {
        finding: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<String>,
    },
    Approval {
        point: ApprovalPoint,
    },
    Acceptance {
        why: String,
    },
    Paused {
        who: String,
        why: String,
        rollback_path: bool,
    },
    NoRollback {
        why: String,
    },
}

impl PersonGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::Preflight { finding, until: None } => Description::new(
                finding.clone(),
                "a person, who corrects the finding; preflight is repeated automatically",
            )
            .next_step(waits.upgrade(rollback)),
            Self::Preflight { finding, until: Some(until) } => Description::new(
                finding.clone(),
                "what the finding names, which ends by itself; preflight is repeated automatically",
            )
            .next_step(waits.upgrade(|id| format!("wait until {until}, or {}", rollback(id)))),
            Self::Approval { point } => {
                Description::new(format!("phase {point} requires a manual approval"), "a person")
                    .next_step(waits.upgrade(|id| format!("tidegate upgrade approve {id} {point}")))
                    .timeout("none (manual approval)")
            }
            Self::Acceptance { why } => Description::new(
                format!("phase contract requires an approval that accepts what cannot be proved: {why}"),
                "a person",
            )
            .next_step(
                waits.upgrade(|id| format!("tidegate upgrade approve {id} contract --accept sessions")),
            )
            .timeout("none (manual approval)"),
            Self::Paused { who, why, rollback_path } => {
                Description::new(format!("paused by {who}: {why}"), "a person, who resumes or rolls back")
                    .next_step(waits.upgrade(|id| match rollback_path {
                        true => format!("tidegate upgrade resume {id}, or {}", rollback(id)),
                        false => format!("tidegate upgrade resume {id}"),
                    }))
                    .timeout(MANUAL)
            }
            Self::NoRollback { why } => Description::new(format!("cannot roll back: {why}"), "a person"),
        }
    }
}

impl Reason {
    /// The phase for whose approval it waits.
    pub(crate) fn approval(&self) -> Option<ApprovalPoint> {
        match self {
            Self::Person(PersonGate::Approval { point }) => Some(*point),
            _ => None,
        }
    }

    /// Whether it waits for an approval that accepts what cannot be proved.
    pub(crate) fn is_acceptance(&self) -> bool {
        matches!(self, Self::Person(PersonGate::Acceptance { .. }))
    }
}

/// A finding that stops preflight, and what ends it without a person, where something does.
pub(crate) fn finding(what: &impl ToString, until: Option<String>) -> Reason {
    PersonGate::Preflight { finding: what.to_string(), until }.into()
}

/// Whether the phase is approved, or needs no approval.
pub(crate) fn approved(view: &View<'_>, point: ApprovalPoint) -> Answer {
    let asked = view.spec().approvals.contains(&point) && !mutant::is("approval-is-not-waited-for");
    match asked && !view.upgrade.approvals.contains_key(&point) {
        true => Answer::from(Reason::from(PersonGate::Approval { point })),
        false => Answer::open(),
    }
}

/// Whether an approval accepts, by name, that the database cannot list its sessions, where it cannot.
pub(crate) fn sessions_accepted(view: &View<'_>) -> Answer {
    let why = view.facts().and_then(|facts| facts.sessions_unknown.clone());
    let approval = view.upgrade.approvals.get(&ApprovalPoint::Contract);
    match why.filter(|_| !approval.is_some_and(|word| word.accepts.contains(SESSIONS))) {
        Some(why) => Answer::from(Reason::from(PersonGate::Acceptance { why })),
        None => Answer::open(),
    }
}

/// Open while the upgrade is not paused; else with what a person who finds it paused decides about.
pub(crate) fn paused(view: &View<'_>) -> Answer {
    let heeded = |pause: &&Pause| pause.who == "coordinator" || !mutant::is("persons-pause-is-not-heeded");
    let Some(pause) = view.upgrade.paused.as_ref().filter(heeded) else { return Answer::open() };
    let (who, why) = (pause.who.clone(), pause.why.clone());
    let rollback_path = rollback::begins(view, &why).is_open;
    let mut answer = Answer::from(Reason::from(PersonGate::Paused { who, why, rollback_path }));
    answer.reasons.extend(open_failures(view.exceptions()));
    answer.reasons.extend(open_stage_failures(view));
    answer
}
