//! Instances that are not in service, each with its cause.

use super::instance::Instance;
use super::sample::Sample;
use super::service::Matching;
use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_proto::NodeId;
use tidegate_proto::record::report::MAY_HAVE_STOPPED;

/// A few instances out of many, each with why it is not in service, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// The first of them.
    pub first: Vec<Cause>,
    /// How many in all.
    pub count: usize,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Its node.
    pub node: NodeId,
    /// Why it is not in service.
    pub why: String,
    /// Whether its agent has failed, so that nothing more happens before an operator has it tried again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whether its node is cordoned, so that nothing happens there before a person uncordons it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// Whether a person's disable-file keeps it out and no cordon does, so that nothing happens before the file is removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Whether its drain has failed, and its agent cannot tell whether the service has stopped: a person may declare it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_have_stopped: bool,
}

impl Causes {
    /// The first of these, with their causes.
    pub fn of<'a>(those: Matching<impl Iterator<Item = &'a Instance>>) -> Self {
        Self { count: those.count, first: those.each.take(Sample::NAMED).map(Cause::of).collect() }
    }

    /// The same of instances that have to be counted.
    pub fn counted<'a>(each: impl Iterator<Item = &'a Instance>) -> Self {
        let mut causes = Self::default();
        for instance in each {
            if causes.count < Sample::NAMED {
                causes.first.push(Cause::of(instance));
            }
            causes.count += 1;
        }
        causes
    }

    /// One whose agent has failed.
    pub fn failed(&self) -> Option<&Cause> {
        self.first.iter().find(|cause| cause.failed)
    }

    /// One whose node is cordoned.
    pub fn cordoned(&self) -> Option<&NodeId> {
        self.first.iter().find(|cause| cause.cordoned).map(|cause| &cause.node)
    }

    /// One that a person's disable-file keeps out.
    pub fn disabled(&self) -> Option<&NodeId> {
        self.first.iter().find(|cause| cause.disabled).map(|cause| &cause.node)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Cause {
    fn of(instance: &Instance) -> Self {
        let why = instance.why_out().unwrap_or_else(|| "in service".to_owned());
        let (failure, cordoned) = (instance.failure(), instance.cordoned);
        let disabled = !cordoned && instance.is_in_maintenance();
        let may_have_stopped = failure.as_ref().is_some_and(|failure| failure.contains(MAY_HAVE_STOPPED));
        let (node, failed) = (instance.node.clone(), failure.is_some());
        Self { node, why, failed, cordoned, disabled, may_have_stopped }
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> =
            self.first.iter().map(|cause| format!("{} ({})", cause.node, cause.why)).collect();
        f.write_str(&each.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
