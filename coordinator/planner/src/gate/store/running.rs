//! What an instance is known to run, for a plan to reconcile.

use crate::fleet::{Fleet, Instance};
use crate::gate::budget::capacity::is_hidden;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::{InstanceId, ServiceVersion, mutant};

/// What an instance is known to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Running {
    /// Its agent says that nothing does.
    Nothing,
    Unknown,
    At(ServiceVersion),
}

impl Running {
    pub(crate) fn of(instance: &Instance) -> Self {
        let Some(report) = instance.report.as_ref().filter(|_| instance.unreadable.is_empty()) else {
            return Self::Unknown;
        };
        match report.runs() {
            Some(version) => Self::At(version),
            // Under a store that fell back it may stay as it is, whatever its step: failed, refused or being started.
            None if report.nothing_runs || report.step == Step::Stopped => Self::Nothing,
            None => Self::Unknown,
        }
    }

    pub(crate) fn known(self) -> Option<ServiceVersion> {
        if let Self::At(version) = self { Some(version) } else { None }
    }
}

/// Whether it gets no requests, by evidence: nothing that is applied takes it out, and it is admitted before it comes back.
pub(crate) fn is_out(instance: &Instance) -> bool {
    let is_out = instance.report.as_ref().is_some_and(|report| report.rotation == Rotation::Out);
    is_out && instance.unreadable.is_empty()
}

/// Whether its agent keeps it out before anything is applied: it is out, or its agent has refused what it runs and hides it,
/// although balancers may not have noticed that yet. Only an admission brings it back.
pub(crate) fn is_kept_out(instance: &Instance) -> bool {
    let is_refused = instance.report.as_ref().is_some_and(|r| matches!(r.step, Step::Refused { .. }));
    is_out(instance) || is_refused && is_hidden(instance)
}

/// Whether it runs a version that no window has admitted, as far as its agent knows: a window gets no room for it.
pub(crate) fn is_never_admitted(instance: &Instance) -> bool {
    let never_admitted = instance.report.as_ref().is_some_and(|report| report.never_admitted);
    never_admitted && !mutant::is("unadmitted-raises-the-ceiling")
}

/// Why the running version of an instance is not known.
pub(crate) fn unknown(fleet: &Fleet, id: &InstanceId, instance: &Instance) -> String {
    let unreadable: Vec<String> =
        fleet.unreadable_of(id).map(|(key, why)| format!("the record {key} {why}")).collect();
    let why = match &instance.report {
        _ if !unreadable.is_empty() => format!("{}: restore its previous value", unreadable.join(", and ")),
        None => "it does not report".to_owned(),
        Some(_) if is_out(instance) && fleet.contradiction_of(id).is_some() => {
            "its agent does not say which version runs; it is out of rotation, so --include needs no version"
                .to_owned()
        }
        Some(_) => "its agent does not say which version runs".to_owned(),
    };
    format!("its running version is unknown ({why})")
}
