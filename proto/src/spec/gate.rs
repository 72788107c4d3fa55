//! The verdicts of gate jobs that an upgrade requires.

use super::{Flaw, Spec};
use crate::{GateTag, ServiceVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A tag that a gate job must have passed, for the upgrade between the artifacts of these two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequiredGate {
    /// The upgrade tag.
    pub tag: GateTag,
    /// The version that the gate job upgraded from: the spec's `from`.
    pub from: ServiceVersion,
    /// The version that it upgraded to: the spec's `to`.
    pub to: ServiceVersion,
}

/// A verdict on another hop says nothing about this one.
pub(super) fn flaw(spec: &Spec) -> Option<Flaw> {
    let mut tags = BTreeSet::new();
    spec.requires_gate.iter().find_map(|gate| {
        let flaw = |what| Some(Flaw { field: "requires_gate", what });
        if (gate.from, gate.to) != (spec.from, spec.to) {
            return flaw(format!(
                "{} from {} to {} is a verdict on another hop: from {} to {} is what this spec upgrades",
                gate.tag, gate.from, gate.to, spec.from, spec.to
            ));
        }
        if !tags.insert(gate.tag) {
            return flaw(format!("{} is named twice: name each tag once", gate.tag));
        }
        None
    })
}
