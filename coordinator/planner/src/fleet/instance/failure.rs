//! What an agent says has failed on an instance: under its directive, since it was verified, or in staging.

use super::Instance;
use crate::fleet::text::short;
use tidegate_proto::ReleaseTag;
use tidegate_proto::record::report::{Fault, NOT_LEFT, NOT_VERIFIED, Step};

impl Instance {
    /// The failure that it reports under its last directive.
    pub fn failure(&self) -> Option<String> {
        let report = self.report.as_ref().filter(|_| self.has_accepted())?;
        match &report.step {
            Step::Failed { at, reason } => Some(short(&format!("{at}: {reason}"))),
            Step::Refused { reason } => Some(short(&format!("admission refused: {reason}"))),
            _ => None,
        }
    }

    /// What goes wrong with it since it was verified, where no person keeps it out.
    pub fn fault(&self) -> Option<&Fault> {
        let report = self.report.as_ref().filter(|_| !self.is_in_maintenance() && !self.contradicts)?;
        report.fault.as_deref()
    }

    /// The same, in a text of a bounded length.
    pub fn fault_words(&self) -> String {
        self.fault().map(|fault| short(&fault.reason)).unwrap_or_default()
    }

    /// Whether it says, under its last directive, that it did not become healthy in rotation.
    pub fn has_failed_verifying(&self) -> bool {
        let step = self.report.as_ref().filter(|_| self.has_accepted()).map(|report| &report.step);
        matches!(step, Some(Step::Failed { at, .. }) if at == NOT_VERIFIED)
    }

    /// Whether it says, under its last directive, that its drain changed nothing: it still gets requests.
    pub fn has_not_left(&self) -> bool {
        let step = self.report.as_ref().filter(|_| self.has_accepted()).map(|report| &report.step);
        matches!(step, Some(Step::Failed { at, .. }) if at == NOT_LEFT)
    }

    /// Why a release could not be staged or removed, by tag.
    pub fn stage_failures(&self) -> impl Iterator<Item = (ReleaseTag, String)> {
        let failures = self.report.iter().flat_map(|report| &report.stage_failures);
        failures.map(|(tag, why)| (tag.clone(), short(why)))
    }

    /// Whether its agent says that a release could not be staged or removed.
    pub fn has_stage_failures(&self) -> bool {
        self.report.as_ref().is_some_and(|report| !report.stage_failures.is_empty())
    }
}
