//! Stages and verifies releases in the background, and removes those that no directive lists. The running release is never
//! removed.

use crate::directive::seen::Staging;
use crate::host::{NotStaged, Target};
use crate::journal::Journal;
use crate::replace::driver::Driver;
use futures::FutureExt;
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::{Chain, Digest, Generation, Release, ReleaseTag};
use tidegate_store::process::spawn;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// After how long the running release is tried again where it could not be staged.
const AGAIN: Duration = Duration::from_secs(60);

/// The staging tasks of one service, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Stager {
    driver: Option<Driver>,
    work: Option<(ReleaseTag, JoinHandle<Staged>)>,
    /// What has ended and was not taken in yet.
    ended: Option<(ReleaseTag, Staged)>,
    failures: BTreeMap<ReleaseTag, String>,
    failed_under: Generation,
    /// When the running release is tried again after it could not be staged: no directive asks for it again.
    again_at: Option<Instant>,
}

/// A release to stage or to remove.
#[derive(Debug)]
pub(crate) enum StagingTask {
    /// It is missing.
    Stage(Target),
    /// No directive lists it.
    Remove(ReleaseTag),
}

type Staged = Result<Option<Digest>, NotStaged>;

impl Stager {
    pub(crate) fn new(driver: Option<Driver>) -> Self {
        Self { driver, ..Self::default() }
    }

    /// What failed, by tag, until a newer directive asks again.
    pub(crate) fn failures(&self) -> &BTreeMap<ReleaseTag, String> {
        &self.failures
    }

    /// Waits until what is under way has ended; for ever where nothing is. Giving up on it loses nothing.
    pub(crate) async fn ended(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let Some((_, work)) = &mut self.work else { return std::future::pending().await };
        let ended = work.await.unwrap_or_else(|e| Err(NotStaged::Hook(e.to_string())));
        self.ended = self.work.take().map(|(tag, _)| (tag, ended));
    }

    /// Takes in what has ended; says whether the journal was changed.
    pub(crate) fn collect(&mut self, journal: &mut Journal) -> bool {
        if journal.generation() != self.failed_under {
            self.failed_under = journal.generation();
            self.failures.clear();
        }
        // A task that has ended gives its result without waiting.
        let _ = self.ended().now_or_never();
        let Some((tag, ended)) = self.ended.take() else { return false };
        match ended {
            Ok(Some(digest)) => {
                tracing::info!(release = %tag, sha256 = %digest, "release staged");
                self.failures.remove(&tag);
                journal.staged.insert(tag, digest);
                true
            }
            Ok(None) => {
                tracing::info!(release = %tag, "release removed");
                journal.staged.remove(&tag).is_some()
            }
            Err(error) => {
                let text = Chain(&error).to_string();
                tracing::error!(release = %tag, error = %text, "could not stage or remove a release");
                if journal.release.as_ref() == Some(&tag) {
                    self.again_at = Some(Instant::now() + AGAIN);
                }
                self.failures.insert(tag, text);
                false
            }
        }
    }

    /// What is to be done next, where nothing is under way.
    pub(crate) fn next(&self, journal: &Journal) -> Option<StagingTask> {
        let driver = self.driver.as_ref().filter(|_| self.work.is_none())?;
        let missing = self.missing(driver, journal).map(StagingTask::Stage);
        missing.or_else(|| self.superfluous(journal).map(StagingTask::Remove))
    }

    pub(crate) fn begin(&mut self, task: StagingTask) {
        let Some(driver) = self.driver.clone() else { return };
        let tag = match &task {
            StagingTask::Stage(target) => target.tag.clone(),
            StagingTask::Remove(tag) => tag.clone(),
        };
        let handle = spawn(async move {
            match task {
                StagingTask::Stage(target) => driver.stage(&target).await.map(Some),
                StagingTask::Remove(tag) => driver.remove(&tag).await.map(|()| None),
            }
        });
        self.work = Some((tag, handle));
    }

    /// What is listed and not there; and the running release, so that an adopted one can be rolled back to.
    fn missing(&self, driver: &Driver, journal: &Journal) -> Option<Target> {
        let untried = |tag: &ReleaseTag| !self.failures.contains_key(tag);
        let listed = wanted(journal)
            .find(|r| journal.staged.get(&r.tag) != Some(&r.sha256) && untried(&r.tag))
            .map(Target::from);
        let due = |tag: &ReleaseTag| untried(tag) || self.again_at.is_some_and(|at| Instant::now() >= at);
        let running = || {
            let tag =
                journal.release.as_ref().filter(|tag| due(tag) && !journal.staged.contains_key(*tag))?;
            driver.configured(tag)
        };
        listed.or_else(running)
    }

    fn superfluous(&self, journal: &Journal) -> Option<ReleaseTag> {
        journal.order.as_ref()?;
        let kept = |tag: &ReleaseTag| {
            wanted(journal).any(|release| release.tag == *tag)
                || journal.release.as_ref() == Some(tag)
                || self.failures.contains_key(tag)
        };
        journal.staged.keys().find(|tag| !kept(tag)).cloned()
    }

    /// The state of staging of the release that the accepted directive wants to be started.
    pub(crate) fn state(&self, journal: &Journal) -> Staging {
        let Some(Disposition::Replace { release }) = journal.disposition() else {
            return Staging::Ready;
        };
        match self.failures.get(&release.tag) {
            _ if self.driver.is_none() => Staging::Ready,
            _ if journal.staged.get(&release.tag) == Some(&release.sha256) => Staging::Ready,
            Some(reason) => Staging::Failed(reason.clone()),
            None => Staging::Pending,
        }
    }
}

/// The releases that the accepted directive lists, with the one that it wants to be started.
fn wanted(journal: &Journal) -> impl Iterator<Item = &Release> {
    let directive = journal.order.as_ref().map(|order| &order.directive);
    let target = directive.and_then(|directive| match &directive.disposition {
        Disposition::Replace { release } => Some(release),
        _ => None,
    });
    directive.into_iter().flat_map(|directive| &directive.releases).chain(target)
}
