//! Carries out an act. The journal is on the disk before the effect; what became of it is written before the next
//! effect or the next rest. An agent that is killed between sees it again.

use super::{Fatal, Instance};
use crate::directive::act::Act;
use crate::directive::former;
use crate::directive::identity::note_started;
use crate::directive::presumption;
use crate::directive::seen::Seen;
use crate::directive::standstill::standstill;
use crate::host;
use crate::journal::{Order, Phase};
use tidegate_proto::mutant;
use tokio::time::Instant;

const DECLINED: &str =
    "directive declined: the instance is in rotation; it was presumed out, or the journal is newer";

/// The agent was stopped, or a probe of its node hangs.
#[derive(Debug, thiserror::Error)]
#[error(
    "the lease of this agent is overdue, so the window may have moved: nothing is shown before the store has confirmed the \
     lease, or has admitted the version under another one"
)]
struct LeaseOverdue;

impl Instance {
    /// Carries out `act`. Returns whether it was done, so that the next decision follows at once.
    pub(super) async fn carry_out(&mut self, act: Act, seen: &Seen) -> Result<bool, Fatal> {
        if act != Act::Wait {
            tracing::debug!(service = %self.service.name, ?act, "act");
        }
        match act {
            Act::Wait => {
                if let Some(why) = standstill(&self.service, &self.journal, seen) {
                    self.reporter.warn(&why);
                }
                Ok(false)
            }
            Act::Reconcile(at) => {
                tracing::warn!(service = %self.service.name, revision = %at,
                    "a person has reconciled the store; it is obeyed from here on");
                self.journal.reconcile(at);
                // What it was admitted to is another store's.
                self.store.admitted_under = None;
                self.writer.mark_changed();
                Ok(true)
            }
            Act::Acknowledge(known) => {
                self.journal.witness.floor = Some(known.window.floor);
                self.journal.window = Some(known);
                self.writer.mark_changed();
                Ok(true)
            }
            Act::Accept(order, phase) => {
                self.accept(*order, phase, seen);
                Ok(true)
            }
            Act::Enter(phase) => {
                self.note_exit(&phase, seen);
                note_started(&mut self.journal, seen);
                self.enter(phase);
                Ok(true)
            }
            Act::Decline(phase) => {
                // What is in rotation continues in another phase.
                let why = match phase {
                    Phase::Stopping | Phase::Stopped => former::DECLINED,
                    _ => DECLINED,
                };
                tracing::warn!(service = %self.service.name, generation = %self.journal.generation(), "{why}");
                self.journal.declined = true;
                self.enter(phase);
                Ok(true)
            }
            Act::Disable => self.disable(seen).await,
            Act::Enable => self.enable(seen).await,
            Act::AdmitRunning(version, release) => self.admit_running(version, release, seen).await,
            Act::AdmitTarget(target) => self.admit_target(target).await,
            Act::BeginStop(target) => self.begin_stop(target, seen).await,
            Act::Stop => self.stop(seen).await,
            Act::Start(target) => self.start(target).await,
            Act::EndHook => self.end_hook().await,
        }
    }

    /// Journals a directive together with the phase that it brings.
    fn accept(&mut self, order: Order, phase: Phase, seen: &Seen) {
        tracing::info!(service = %self.service.name, generation = %order.generation,
            disposition = order.directive.disposition.word(), phase = ?phase, "directive accepted");
        self.journal.declined = presumption::fails(&order, &self.journal, seen);
        if self.journal.declined {
            tracing::warn!(service = %self.service.name, generation = %order.generation, "{DECLINED}");
        }
        // The same directive under another generation is a retry.
        let again = self.journal.order.as_ref().is_some_and(|o| o.directive == order.directive);
        if again || phase != Phase::Serving {
            self.timers.faults.forget();
        }
        self.journal.accept(order);
        self.timers.restart_at = None;
        self.timers.undone_stops = 0;
        self.writer.mark_changed();
        note_started(&mut self.journal, seen);
        self.enter(phase);
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        if phase != self.journal.phase {
            tracing::info!(service = %self.service.name, from = ?self.journal.phase, to = ?phase, "phase");
            self.timers.changed(Instant::now(), &phase);
        }
        self.writer.mark_changed();
        self.journal.enter(phase);
        self.timers.entered(Instant::now());
    }

    /// A service that ended by itself is started again later and later; one that was stopped is not held back, and what
    /// something else starts after its stop is counted.
    fn note_exit(&mut self, to: &Phase, seen: &Seen) {
        match (&self.journal.phase, to) {
            (Phase::Serving | Phase::Verifying, Phase::Stopped) => {
                tracing::error!(service = %self.service.name, "the service ended by itself");
                self.timers.crashed(seen.now);
            }
            (Phase::Starting { .. }, Phase::Failed { .. }) => self.timers.crashed(seen.now),
            (Phase::Stopped, Phase::Fresh) | (Phase::Starting { .. }, Phase::Stopping) => {
                self.timers.undone_stops += 1;
            }
            (Phase::Failed { .. }, Phase::Stopped) => {}
            (_, Phase::Stopped) => self.timers.restart_at = None,
            _ => {}
        }
    }

    async fn disable(&mut self, seen: &Seen) -> Result<bool, Fatal> {
        self.expose(seen);
        let hidden = self.put_disable_file().await?;
        if hidden && std::mem::take(&mut self.journal.shown_unjudged) {
            tracing::warn!(service = %self.service.name, answers = %seen.last_answers(),
                "not ready after it was shown: hidden again");
            self.timers.disabled_again(Instant::now());
            self.writer.mark_changed();
        }
        Ok(hidden)
    }

    /// Shows it, unless the store may count this agent as silent: a window may have been set without it.
    async fn enable(&mut self, seen: &Seen) -> Result<bool, Fatal> {
        if self.awaits_lease(seen) {
            return Ok(false);
        }
        let hidden = (self.journal.unexposed, self.journal.shown_unjudged);
        self.expose(seen);
        if self.journal.phase == Phase::Verifying && seen.masked {
            self.journal.shown_unjudged = true;
            self.writer.mark_changed();
        }
        self.writer.flush_first(&self.journal).await?;
        // The disk may have been slow, or the agent stopped meanwhile.
        if self.awaits_lease(seen) {
            // It was not shown, and may stop answering before it is.
            (self.journal.unexposed, self.journal.shown_unjudged) = hidden;
            self.writer.mark_changed();
            return Ok(false);
        }
        let shown = self.disable_file.take_away();
        Ok(self.touched("remove", shown))
    }

    /// Whether the lease under which the version was admitted may have ended. A new one says nothing of what was admitted under
    /// the former one. Until then it is the agent that keeps the instance out, which is no failure of it.
    fn awaits_lease(&mut self, seen: &Seen) -> bool {
        let must_readmit = self.store.must_readmit(&self.journal, self.store.epoch());
        let awaits = seen.store && (must_readmit || self.store.link.is_lease_overdue());
        if awaits {
            self.timers.kept_out_at = Some(seen.now);
            self.reporter.warn(&LeaseOverdue);
        }
        awaits
    }

    /// What runs without its disable-file may have got requests; what does not run has not.
    fn expose(&mut self, seen: &Seen) {
        let still =
            matches!(self.journal.phase, Phase::Starting { .. }) || seen.nothing_runs(&self.journal.phase);
        if !still && self.journal.unexposed {
            self.journal.unexposed = false;
            self.writer.mark_changed();
        }
    }

    /// The file is made beside its place while the journal is written, and shows when both are on the disk.
    async fn put_disable_file(&mut self) -> Result<bool, Fatal> {
        if !mutant::is("journal-is-written-after-the-act") {
            self.writer.begin(&self.journal).await?;
        }
        let (file, generation) = (self.disable_file.clone(), self.journal.generation());
        let made = host::briefly(|| file.make(generation));
        self.writer.flush_first(&self.journal).await?;
        let put = made.and_then(|made| host::briefly(|| file.put(made)));
        Ok(self.touched("put", put))
    }

    /// Whether the disable-file is as it should be.
    fn touched(&mut self, doing: &'static str, done: std::io::Result<()>) -> bool {
        let Err(error) = done else {
            tracing::info!(service = %self.service.name, file = %self.service.disable_file.display(), "disable-file {doing}");
            return true;
        };
        let path = self.service.disable_file.display();
        let reason = format!("could not {doing} the disable-file {path}: {error}");
        tracing::error!(service = %self.service.name, %reason, "the disable-file");
        if self.journal.phase == Phase::Draining {
            self.enter(Phase::failed("draining", reason, false));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{example, parse};
    use crate::directive::tests::story::{Story, version};
    use crate::directive::timers::Timers;
    use crate::journal::Journal;
    use crate::link::Link;
    use crate::machine::Machine;
    use crate::pair::state::StateFile;
    use std::path::Path;
    use std::time::Duration;
    use tidegate_embedded_etcd::Embedded;
    use tidegate_proto::Prefix;
    use tidegate_proto::record::report::Identity;
    use tidegate_store::Store;
    use tokio_util::sync::CancellationToken;

    /// An instance whose agent has a lease of two seconds, in a store of its own, until `cancel`.
    async fn opened(room: &Path, cancel: &CancellationToken) -> (Instance, Link) {
        let mut node = parse(&example::text("n1"), Path::new("agent.toml")).unwrap();
        (node.state_dir, node.lease_ttl) = (room.to_owned(), Duration::from_secs(2));
        let mut service = node.services.values().next().unwrap().clone();
        service.disable_file = room.join("disable");
        let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
        let link = Link::over(store, &node, cancel);
        let identity = Identity { nonce: "nonce".into(), boot: "boot".into() };
        let instance = Instance::open(&Machine::shared(), &node, &service, &identity, &link).unwrap();
        (instance, link)
    }

    /// Its look is from before its agent was stopped.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn instance_is_not_shown_while_its_lease_is_overdue() {
        let (room, cancel) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        let (mut instance, link) = opened(room.path(), &cancel).await;
        assert!(link.leases().wait_for(Option::is_some).await.is_ok());
        let service = instance.service.clone();
        let seen = Story::serving().seen;
        let held = instance.store.epoch();
        instance.journal.unexposed = true;
        assert!(instance.put_disable_file().await.unwrap());
        for under in [None, held.map(|epoch| epoch + 1)] {
            instance.store.admitted_under = under;
            assert!(
                !instance.enable(&seen).await.unwrap(),
                "nothing is admitted under the lease {held:?}: {under:?}"
            );
            assert!(instance.journal.unexposed, "it was not shown");
        }
        instance.store.admitted_under = held;
        assert!(instance.enable(&seen).await.unwrap());
        assert!(!service.disable_file.exists() && !instance.journal.unexposed, "its lease is held");
        assert!(instance.put_disable_file().await.unwrap());
        // Nothing confirms the lease, as while a process is stopped.
        link.hangs(&service.name, true);
        let end = Instant::now() + Duration::from_secs(20);
        while !link.is_lease_overdue() {
            assert!(Instant::now() < end, "it is held although nothing confirms it");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!instance.enable(&seen).await.unwrap());
        assert!(service.disable_file.exists());
        assert!(instance.timers.not_kept_out_for(seen.now).is_zero(), "its verification does not count that");
        cancel.cancel();
    }

    /// Its lease ends while the disk writes that it is about to be shown.
    #[test]
    fn instance_kept_hidden_after_a_slow_write_is_unexposed() {
        // One thread writes, and something else keeps it busy.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let (room, cancel) = (tempfile::tempdir().unwrap(), CancellationToken::new());
            let (mut instance, link) = opened(room.path(), &cancel).await;
            assert!(link.leases().wait_for(Option::is_some).await.is_ok());
            let seen = Seen { masked: true, ..Story::serving().seen };
            instance.store.admitted_under = instance.store.epoch();
            (instance.journal.phase, instance.journal.unexposed) = (Phase::Verifying, true);
            assert!(instance.put_disable_file().await.unwrap());
            let name = instance.service.name.clone();
            let (begun, is_begun) = std::sync::mpsc::channel();
            tokio::task::spawn_blocking(move || {
                // The lease is held until the write is waited for.
                is_begun.recv().unwrap();
                link.hangs(&name, true);
                let end = Instant::now() + Duration::from_secs(20);
                while !link.is_lease_overdue() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let begin = async { begun.send(()).unwrap() };
            let (shown, ()) = tokio::join!(instance.enable(&seen), begin);
            assert!(!shown.unwrap(), "its lease is overdue");
            assert!(instance.service.disable_file.exists());
            let home = room.path().join(instance.service.name.as_str());
            let written = StateFile::<Journal>::within(&Machine::shared(), &home).read().unwrap();
            let was_held = !written.unexposed && written.shown_unjudged;
            assert!(was_held, "its lease ended before the write, so that no slow write was tried");
            let Journal { unexposed, shown_unjudged, .. } = &instance.journal;
            assert_eq!((*unexposed, *shown_unjudged), (true, false), "it was not shown");
            cancel.cancel();
        });
    }

    /// A store that answers an admission late keeps it from looking.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn time_without_a_look_is_not_counted_as_healthy() {
        let (room, cancel) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        let (mut instance, _link) = opened(room.path(), &cancel).await;
        instance.timers = Timers::new(Instant::now(), false);
        for is_late in [false, true] {
            let now = Instant::now();
            instance.observer.keep(Seen { now, ..Story::serving().seen });
            instance.look().await.unwrap();
            assert_eq!(instance.timers.steady.lasts(now), Some(Duration::ZERO));
            let is_kept_out = instance.timers.kept_out_at.is_some();
            assert_eq!(is_kept_out, is_late, "the deadline of its verification does not count that");
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        cancel.cancel();
    }

    /// The store grants no lease, as an etcd whose space is used up: its watch goes on.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn time_without_an_admission_is_no_failure() {
        let (room, cancel) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        cancel.cancel();
        let (mut instance, _link) = opened(room.path(), &cancel).await;
        let shown = Story::serving();
        let mut hidden = shown.clone();
        hidden.disabled();
        let mut unready = hidden.clone();
        unready.seen.ready = false;
        for (story, expected) in [(shown, false), (unready, false), (hidden, true)] {
            let Story { seen, .. } = story;
            assert!(!instance.admit_running(version(1), None, &seen).await.unwrap(), "it has no lease");
            let is_kept_out = instance.timers.not_kept_out_for(seen.now).is_zero();
            assert_eq!(is_kept_out, expected, "{:?}, ready: {}", seen.file, seen.ready);
        }
    }
}
