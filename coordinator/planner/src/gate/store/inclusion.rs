//! What a person does about an instance whose claim was disregarded: its agent obeys the store only after a plan to reconcile
//! includes it.

use super::running::{Running, is_never_admitted, is_out};
use crate::fleet::{Fleet, Instance, ServiceFleet};
use crate::gate::description::{self, RECONCILE, Waits};
use crate::gate::roll::rollback;
use serde::{Deserialize, Serialize};
use tidegate_proto::{NodeId, ServiceName, ServiceVersion};

/// Whether a plan to reconcile may include an instance whose claim was disregarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// It may.
    Open,
    /// It may, and may widen the window to this version, which runs there.
    Widens(ServiceVersion),
    /// It is refused: this version runs there, and the new window does not admit it. A plan lowers no floor, and widens no
    /// window without a claimed floor or to a version that no store has admitted.
    Outside {
        /// What runs there.
        version: ServiceVersion,
        /// The floor of the new window.
        floor: ServiceVersion,
        /// Its ceiling, unless that is raised to what another instance runs.
        ceiling: ServiceVersion,
        /// Whether the store may have been restored to before a rollback of the upgrade: that admits what runs there, and
        /// the claim has no floor above the version to which it leads.
        rolled_back: bool,
    },
    /// It is refused: the version that runs is not known, and the instance may be in rotation.
    NeedsVersion,
    /// It is refused: no store before this one can have given the revision that was claimed.
    Impossible,
}

impl Inclusion {
    /// Of an instance of this service; `back_to` is the version to which a rollback leads that may have been lost.
    pub(crate) fn of(
        fleet: &Fleet,
        service: &ServiceFleet,
        instance: &Instance,
        back_to: Option<ServiceVersion>,
    ) -> Self {
        let claimed = instance.report.as_ref().map(|report| report.obeyed());
        let (window, raised) = (service.window(), claimed.and_then(|claim| claim.floor));
        let floor = window.map(|window| window.floor).max(raised).unwrap_or(ServiceVersion::ABSENT);
        let is_above = |version: ServiceVersion| window.is_some_and(|window| version > window.ceiling);
        let was_rolled_back = |version: ServiceVersion| {
            let from = back_to.filter(|from| raised.is_some_and(|raised| raised <= *from));
            from.is_some_and(|from| (from..floor).contains(&version))
        };
        match Running::of(instance) {
            _ if claimed.is_some_and(|claim| !fleet.revision().may_follow(claim.revision)) => {
                Self::Impossible
            }
            Running::At(version)
                if version < floor
                    || is_above(version) && (raised.is_none() || is_never_admitted(instance)) =>
            {
                let ceiling = window.map_or(floor, |window| window.ceiling.max(floor));
                Self::Outside { version, floor, ceiling, rolled_back: was_rolled_back(version) }
            }
            Running::At(version) if is_above(version) => Self::Widens(version),
            Running::Unknown if !is_out(instance) => Self::NeedsVersion,
            _ => Self::Open,
        }
    }

    /// What is said of the plan that includes such instances.
    pub(super) fn condition(self) -> String {
        match self {
            Self::Open => String::new(),
            Self::Widens(version) => {
                format!(", which may widen the window to version {version} that runs there")
            }
            Self::Outside { version, floor, ceiling, .. } => format!(
                ", which is refused while version {version} runs there, outside the new window \
                 [{floor}, {ceiling}]"
            ),
            Self::NeedsVersion => {
                ", which needs the version that runs, or that they are out of rotation".to_owned()
            }
            Self::Impossible => {
                ", and no plan can, because no former store can have given the revision that was claimed"
                    .to_owned()
            }
        }
    }

    pub(super) fn owner(self) -> &'static str {
        match self {
            Self::Open => "a person, who includes the claim or decommissions the instance",
            Self::Widens(_) => {
                "a person, who includes the claim where the former store had admitted that version; \
                 otherwise starts a version inside the window there, or decommissions the instance"
            }
            Self::Outside { rolled_back: true, .. } => {
                "a person, who rolls the upgrade back where the former store had rolled it back, or else \
                 starts a version there that the new window admits, then includes the claim; or decommissions \
                 the instance"
            }
            Self::Outside { .. } => {
                "a person, who starts a version there that the new window admits, then includes the claim; \
                 or decommissions the instance"
            }
            Self::NeedsVersion => {
                "a person, who corrects the version probe or disables the instance, then includes the claim"
            }
            Self::Impossible => "a person, who resets the state of the agent or decommissions the instance",
        }
    }

    pub(super) fn next_step(self, waits: Waits<'_>, service: &ServiceName, node: &NodeId) -> String {
        let include = format!("{RECONCILE} --include {service}/{node}");
        let decommission = description::decommission(service, node);
        match self {
            Self::Open => include,
            Self::Widens(_) => format!("{include}, or {decommission}"),
            Self::NeedsVersion => format!("tidegate-agent check (on {node})"),
            Self::Outside { rolled_back: true, .. } => match waits.upgrade(rollback) {
                Some(rollback) => format!("{rollback}, or {decommission}"),
                None => decommission,
            },
            Self::Outside { .. } | Self::Impossible => decommission,
        }
    }
}
