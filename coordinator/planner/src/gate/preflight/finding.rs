//! What preflight finds.

use crate::fleet::Fleet;
use crate::gate::description::decommission;
use tidegate_proto::spec::Spec;
use tidegate_proto::{ServiceName, ServiceVersion};

/// One thing that preflight found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// Whether the upgrade cannot go on with it.
    pub blocks: bool,
    /// What was found, and what is needed.
    pub what: String,
    /// What ends it without a person, where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl Finding {
    /// It ends once this is so, without a person.
    pub(super) fn until(self, until: impl Into<String>) -> Self {
        Self { until: Some(until.into()), ..self }
    }
}

pub(super) fn blocker(what: impl Into<String>) -> Finding {
    Finding { blocks: true, what: what.into(), until: None }
}

pub(super) fn warning(what: impl Into<String>) -> Finding {
    Finding { blocks: false, what: what.into(), until: None }
}

/// What a person does about an instance that runs what it may not.
pub(super) fn ended_by(name: &ServiceName, what: &str) -> String {
    format!(
        "start {what} there, or stop it and its agent, and decommission it: `{}`",
        decommission(name, &"NODE")
    )
}

/// When a person may set the window of a service; nothing where that is now. While an upgrade of it is active, also one that
/// waits in preflight, that is refused.
pub(super) fn once_over(fleet: &Fleet, name: &ServiceName) -> String {
    fleet.lock(name).map(|(upgrade, _)| format!(" once upgrade {upgrade} is over")).unwrap_or_default()
}

/// What a person makes sure of before a window admits this version alone; none without a schema. A migration of the version
/// may be unfinished, and no upgrade finishes it then.
pub(super) fn has_form(spec: &Spec, version: ServiceVersion) -> Option<String> {
    spec.schema.as_ref().map(|_| format!("the database has what version {version} uses"))
}

/// What a person does where an agent cannot say which release of a version runs.
pub(super) fn named_by(name: &ServiceName, version: ServiceVersion) -> String {
    format!("in the agent's config give exactly one [service.{name}.artifact.\"TAG\"] version = {version}")
}

/// How a person replaces what runs with another release of the same version. By its journal, and by its last admission in the
/// same boot of the machine, the agent names the release that ran before.
pub(super) fn installed(name: &ServiceName, what: &str) -> String {
    format!("stop the agent, remove its journal of {name}, install {what}, and restart the machine")
}
