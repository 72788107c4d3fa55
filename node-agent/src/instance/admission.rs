//! Asks the store whether a version may run here, and journals the answer.

use super::{Fatal, Instance};
use crate::admit::{self, Admission, Candidate, NotAdmitted};
use crate::directive::identity::note_admitted;
use crate::directive::seen::Seen;
use crate::directive::stays::{is_still_in, stays};
use crate::host::Target;
use crate::journal::{Admitted, Known, Phase, Refusal};
use tidegate_proto::{ReleaseTag, Revision, ServiceVersion};

/// Why nothing was admitted.
enum Unadmitted {
    /// The window does not admit it.
    ByWindow(Refusal),
    /// The store could not be asked; later perhaps.
    NotNow,
}

impl Instance {
    async fn ask_admission(
        &mut self,
        version: ServiceVersion,
        release: Option<ReleaseTag>,
    ) -> Result<Result<(), Unadmitted>, Fatal> {
        let (Some(store), Some(epoch)) = (self.store.link.store(), self.store.epoch()) else {
            return Ok(Err(Unadmitted::NotNow));
        };
        let candidate = Candidate {
            instance: &self.own.id,
            version,
            release: release.clone(),
            labels: &self.own.labels,
            identity: &self.own.identity,
            known: self.journal.standing_admission(),
            obeyed: self.journal.window_revision(),
            accepted: self.journal.accepted_here(),
            shown: Some(self.store.last.admitted.as_ref()),
        };
        let asked = match self.watched(version) {
            Some((window, report)) => admit::admit_as_watched(&store, &candidate, window, report).await,
            None => admit::admit(&store, &candidate).await,
        };
        match asked {
            Ok(Admission { revision, report }) => {
                tracing::info!(service = %self.service.name, %version, admission = %revision, "admitted");
                self.journal.admit(Admitted { version, release, revision });
                self.journal.admitted_boot = Some(self.own.identity.boot.clone());
                self.store.admitted_under = Some(epoch);
                self.reporter.publisher.admitted_over(report);
                Ok(Ok(()))
            }
            Err(NotAdmitted::Refused(refusal)) => {
                tracing::error!(service = %self.service.name, %version, reason = %refusal.reason, "admission refused");
                self.journal.refusal = Some(refusal.clone());
                // Whatever is enabled again is admitted again first.
                self.store.admitted_under = None;
                Ok(Err(Unadmitted::ByWindow(refusal)))
            }
            Err(held @ NotAdmitted::Held { .. }) => Err(Fatal::Held(held)),
            Err(error) => {
                self.reporter.warn(&error);
                Ok(Err(Unadmitted::NotNow))
            }
        }
    }

    /// What the watch has shown of the records that an admission depends on: the window, and the revision of this
    /// agent's report. None where they are not all known, or where the former admission may still be valid: then it is
    /// read whether anything has to be written at all.
    fn watched(&self, version: ServiceVersion) -> Option<(&Known, Revision)> {
        let stands = self.journal.admitted.as_ref().is_some_and(|last| last.version == version);
        let window = self.store.last.window.as_ref().filter(|_| !stands)?;
        let (report, holder) = self.store.last.report.as_ref()?;
        // Its own last report may be younger than what the watch has shown; that is its own too, as each was written
        // over the one before it.
        let report = self.reporter.publisher.at().max(*report);
        (holder.as_ref() == Some(&self.own.identity)).then_some((window, report))
    }

    pub(super) async fn admit_running(
        &mut self,
        version: ServiceVersion,
        release: Option<ReleaseTag>,
        seen: &Seen,
    ) -> Result<bool, Fatal> {
        match self.ask_admission(version, release.clone()).await? {
            Ok(()) => {
                note_admitted(&mut self.journal, release, seen);
                self.writer.mark_changed();
                Ok(true)
            }
            Err(Unadmitted::NotNow) => {
                if seen.is_hidden_and_ready() {
                    // It is the store that keeps it out, which is no failure of it.
                    self.timers.kept_out_at = Some(seen.now);
                }
                Ok(false)
            }
            Err(Unadmitted::ByWindow(refusal)) => {
                let judged = matches!(
                    self.journal.phase,
                    Phase::Fresh
                        | Phase::Verifying
                        | Phase::Serving
                        | Phase::Refused { .. }
                        | Phase::Failed { hidden: false, .. }
                );
                let phase = if judged {
                    let boot = &self.own.identity.boot;
                    let still_in =
                        is_still_in(&self.service, &self.journal, boot, &self.timers, &refusal, seen.now);
                    let stays = stays(&self.journal, boot, &refusal, still_in).then(|| boot.clone());
                    if stays.is_some() {
                        tracing::error!(service = %self.service.name, %version, reason = %refusal.reason,
                            "the version in rotation is not admitted; it serves until it is drained or replaced");
                    }
                    Phase::Refused { reason: refusal.reason, stays }
                } else {
                    self.journal.phase.clone()
                };
                self.enter_or_note(phase);
                Ok(true)
            }
        }
    }

    /// A phase that stays what it was keeps its time.
    fn enter_or_note(&mut self, phase: Phase) {
        if phase == self.journal.phase { self.writer.mark_changed() } else { self.enter(phase) }
    }

    pub(super) async fn admit_target(&mut self, target: Target) -> Result<bool, Fatal> {
        match self.ask_admission(target.version, Some(target.tag.clone())).await? {
            Ok(()) => self.enter(Phase::Starting { target }),
            Err(Unadmitted::NotNow) => return Ok(false),
            Err(Unadmitted::ByWindow(refusal)) => self.enter(Phase::refused(refusal.reason)),
        }
        Ok(true)
    }
}
