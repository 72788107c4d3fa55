//! What an instance knows of the store.

use crate::directive::accept;
use crate::journal::Journal;
use crate::link::inputs::Inputs;
use crate::link::{Leased, Link};
use tidegate_proto::record::report::Identity;
use tidegate_proto::{Revision, ServiceName, mutant};
use tokio::sync::watch;

pub(super) struct StoreView {
    pub(super) link: Link,
    pub(super) leases: watch::Receiver<Option<Leased>>,
    pub(super) inputs: watch::Receiver<Inputs>,
    /// What the store had in the last look.
    pub(super) last: Inputs,
    /// The lease under which the running version was admitted or found admitted; none: not yet.
    pub(super) admitted_under: Option<u64>,
    /// How often the store was seen to fall back, as of the last look.
    regressions: u64,
}

impl StoreView {
    pub(super) fn new(link: &Link, service: &ServiceName) -> Self {
        Self {
            leases: link.leases(),
            inputs: link.inputs(service).unwrap_or_else(|| watch::channel(Inputs::default()).1),
            link: link.clone(),
            last: Inputs::default(),
            admitted_under: None,
            regressions: 0,
        }
    }

    pub(super) fn read(&mut self) {
        self.last = self.inputs.borrow_and_update().clone();
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        self.link.lease().map(|leased| leased.epoch)
    }

    /// Whether the store fell back: it was found behind what was seen of it, or has an older report than the one written
    /// `at` this revision, or none. The latter also where the fall itself went unseen: its revisions were raised, or what was
    /// lost had not been shown yet. Then the coordinator must read what this agent obeyed since, and the version is admitted
    /// again.
    pub(super) fn takes_in_regression(&mut self, at: Revision) -> bool {
        let older = self.last.lacks_report(at);
        let fell =
            std::mem::replace(&mut self.regressions, self.last.regressions) != self.last.regressions || older;
        if fell {
            self.admitted_under = None;
        }
        fell
    }

    /// Whether the store is older than what the journal knows of it.
    pub(super) fn is_behind(&self, journal: &Journal) -> bool {
        accept::fell_back(journal, self.last.shown_window().as_ref(), self.last.directive.as_ref())
    }

    /// Whether the running version must be admitted under the lease `epoch`: when the agent starts, after its lease was
    /// lost or its report was removed, when another program (`admit` on the command line) has written the inventory since, and
    /// where the store has lost the admission.
    pub(super) fn must_readmit(&self, journal: &Journal, epoch: Option<u64>) -> bool {
        let under = self.admitted_under;
        let is_another = under != epoch && !mutant::is("lapse-needs-no-admission");
        let admission = journal.admission();
        let is_other = self.last.inventory > admission || self.last.lacks(admission);
        under.is_none() || is_another || is_other
    }
}

/// Waits until the store has something that was not there in the last look and must not wait for the next.
pub(super) async fn news(
    inputs: &mut watch::Receiver<Inputs>,
    last: &Inputs,
    journal: &Journal,
    own: &Identity,
) {
    while inputs.changed().await.is_ok() {
        if last.is_outdated_by(&inputs.borrow_and_update(), journal, own) {
            return;
        }
    }
    // The link has ended: nothing comes any more.
    std::future::pending().await
}
