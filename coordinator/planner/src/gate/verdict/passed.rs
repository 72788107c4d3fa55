//! Whether the gate jobs that a spec requires have passed, for the artifact that runs and the one that it is replaced by.
//!
//! # Invariants
//! What was seen is compared in the transaction that relies on it.

use super::VerdictGate;
use crate::fleet::Fleet;
use crate::gate::{Reason, StoreGate};
use tidegate_proto::commit::Precondition;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::spec::Spec;
use tidegate_proto::{Artifact, GateHop, Key, Release, mutant};

/// What must hold in the transaction that relies on the verdicts; or every reason why one of them is no pass. `former` is
/// the release that runs.
pub(crate) fn passed(fleet: &Fleet, spec: &Spec, former: &Release) -> Result<Vec<Precondition>, Vec<Reason>> {
    if mutant::is("gate-verdict-is-not-asked") {
        return Ok(Vec::new());
    }
    let (mut compares, mut reasons) = (Vec::new(), Vec::new());
    let (from, to) = (Artifact::from(former), Artifact::from(&spec.target()));
    for required in &spec.requires_gate {
        let hop = Box::new(GateHop { service: spec.service.clone(), tag: required.tag, from, to });
        let key = Key::GateVerdict(hop.clone());
        if let Some(why) = fleet.unreadable_at(&key) {
            let (key, why) = (key.to_string(), why.to_string());
            reasons.push(Reason::Store(StoreGate::Unreadable { key, why }));
            continue;
        }
        match fleet.gate_verdict(&key) {
            Some((Verdict::Pass, at)) => compares.push(Precondition::At(key, at)),
            found => reasons.push(Reason::Verdict(VerdictGate::GateVerdict {
                hop,
                found: found.map(|(verdict, _)| verdict.to_string()),
            })),
        }
    }
    if reasons.is_empty() { Ok(compares) } else { Err(reasons) }
}
