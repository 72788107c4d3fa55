//! Where an upgrade of a gate goes: to its end, back to the base, or by a plan.

use crate::gate::file::Gate;
use crate::gate::plan::Plan;
use crate::gate::written::TurningPoint;

/// Where an upgrade goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course<'a> {
    /// To its end.
    Through,
    /// Back to the base, from here.
    BackFrom(TurningPoint),
    /// To its end, by a plan.
    Planned(&'a Plan),
}

impl<'a> Course<'a> {
    /// The phase before which it must wait, so that it can be rolled back there.
    pub fn waits_before(self) -> Option<&'static str> {
        match self {
            Self::Through | Self::Planned(_) | Self::BackFrom(TurningPoint::Roll) => None,
            Self::BackFrom(point) => Some(point.word()),
        }
    }

    /// Its plan, where it has one.
    pub fn plan(self) -> Option<&'a Plan> {
        match self {
            Self::Planned(plan) => Some(plan),
            _ => None,
        }
    }

    /// The ID of its upgrade. Tidegate draws the order of the nodes from it.
    pub fn upgrade_id(self, gate: &Gate) -> String {
        match self.plan().and_then(|plan| plan.order) {
            Some(order) => format!("{}-{order}", gate.upgrade_id),
            None => gate.upgrade_id.clone(),
        }
    }

    /// As a name of databases and directories.
    pub fn name(self) -> String {
        match self {
            Self::Through | Self::Planned(_) => "upgrade".to_owned(),
            Self::BackFrom(point) => format!("rollback_{}", point.word()),
        }
    }
}
