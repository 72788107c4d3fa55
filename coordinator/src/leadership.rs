//! A leadership: what it keeps between turns, in memory only. A new leader has a new one and knows
//! everything that matters from the store.

use crate::metrics::{Metrics, Outcome};
use crate::report::View;
use crate::shown::Shown;
use crate::stopwatch::{DeclineWatches, GroupWatches, RecallWatches, Stopwatches, StreamWatches};
use crate::telemetry::Chain;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tidegate_planner::gate::store::{closed, stale};
use tidegate_planner::{Leading, Moment, PlannedCommit, Reason, SchemaFacts};
use tidegate_proto::key::Subject;
use tidegate_proto::record::Timestamp;
use tidegate_proto::{Commit, Key, Precondition, Revision, ServiceName, UpgradeId, Write, mutant};
use tidegate_store::{CommitError, Committed, Fenced};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What rests on a recent view is sent for as long after it was planned as the view may be old, and as long tried.
pub(crate) const OLDEST_VIEW: Duration = Duration::from_millis(stale::OLDEST_VIEW_MS);

pub struct Leadership {
    /// Under which term.
    pub leading: Leading,
    /// Cancelled when the leadership is lost or resigned: nothing acts any more.
    pub lost: CancellationToken,
    store: Mutex<Option<tidegate_store::Leadership>>,
    writes: Fenced,
    metrics: Arc<Metrics>,
    next_event: Mutex<u64>,
    watches: Mutex<Stopwatches>,
    streams: Mutex<StreamWatches>,
    groups: Mutex<GroupWatches>,
    declines: Mutex<DeclineWatches>,
    recalls: Mutex<RecallWatches>,
    committed: AtomicI64,
    shown: Mutex<Shown>,
    /// By service, the newest budget that an unanswered commit compares.
    unanswered: Mutex<BTreeMap<ServiceName, Revision>>,
    schemas: watch::Sender<BTreeMap<UpgradeId, SchemaFacts>>,
    taken: Instant,
    refused: Mutex<BTreeMap<Subject, Reason>>,
}

impl Leadership {
    /// A leadership that was just taken.
    pub fn new(leadership: tidegate_store::Leadership, metrics: Arc<Metrics>) -> Self {
        let committed = AtomicI64::new(leadership.create_revision.0);
        Self {
            leading: Leading { term: leadership.term.clone(), revision: leadership.create_revision },
            lost: leadership.lost.clone(),
            writes: leadership.writes().clone(),
            metrics,
            store: Mutex::new(Some(leadership)),
            next_event: Mutex::new(0),
            watches: Mutex::default(),
            streams: Mutex::default(),
            groups: Mutex::default(),
            declines: Mutex::default(),
            recalls: Mutex::default(),
            committed,
            shown: Mutex::default(),
            unanswered: Mutex::default(),
            schemas: watch::Sender::default(),
            taken: Instant::now(),
            refused: Mutex::default(),
        }
    }

    /// Keeps what the store refused in a turn, by subject. A subject that was withheld keeps its former refusal: nothing was
    /// tried that would show whether the store still refuses it.
    pub fn keep_refused(&self, refused: BTreeMap<Subject, Reason>, withheld: &BTreeSet<Subject>) {
        let mut kept = held(&self.refused);
        kept.retain(|subject, _| withheld.contains(subject));
        kept.extend(refused);
    }

    /// What the store refused of a subject in the last turn.
    pub fn refused(&self, subject: &Subject) -> Option<Reason> {
        held(&self.refused).get(subject).cloned()
    }

    /// How long this coordinator has led, in milliseconds.
    pub fn leading_ms(&self) -> u64 {
        u64::try_from(self.taken.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether this coordinator still leads, by the clock too: asked before each act, so that a process that was
    /// stopped for longer than its TTL does nothing more.
    pub fn is_held(&self) -> bool {
        held(&self.store).as_ref().is_some_and(tidegate_store::Leadership::is_held)
    }

    /// Gives the leadership up, so that another need not wait for the TTL. Doing it again does nothing.
    pub async fn resign(&self) {
        let leadership = held(&self.store).take();
        if let Some(Err(error)) =
            futures::future::OptionFuture::from(leadership.map(tidegate_store::Leadership::resign)).await
        {
            tracing::warn!(error = %Chain(&error), "could not give the leadership up; it lapses by itself");
        }
    }

    /// Plans under this moment. The numbers of the events that the plan holds are taken before another may plan, so
    /// that no two plans ever share one; a plan that fails leaves a gap.
    pub fn plan<T>(&self, view: &View, plan: impl FnOnce(&Moment) -> T, events: impl FnOnce(&T) -> u64) -> T {
        let mut next_event = held(&self.next_event);
        let mut moment = Moment {
            leader: self.leading.clone(),
            wall: now(),
            elapsed: BTreeMap::new(),
            uncounted: BTreeMap::new(),
            group_uncounted: BTreeMap::new(),
            declined_ms: held(&self.declines).read(&view.fleet),
            recalled_ms: held(&self.recalls).read(&view.fleet),
            next_event: *next_event,
            schemas: self.schemas.borrow().clone(),
            leading_ms: self.leading_ms(),
            report_grace_left_ms: view.report_grace_left_ms(),
            view: held(&self.shown).age(view.fleet.revision()),
            unanswered: held(&self.unanswered).keys().cloned().collect(),
        };
        let nothing_acts = closed(&view.fleet, &moment).is_some();
        moment.elapsed = held(&self.watches).read(&view.fleet, nothing_acts);
        moment.uncounted = held(&self.streams).read(&view.fleet, nothing_acts);
        moment.group_uncounted = held(&self.groups).read(&view.fleet, nothing_acts);
        let planned = plan(&moment);
        if !mutant::is("event-numbers-are-not-counted") {
            *next_event += events(&planned);
        }
        planned
    }

    /// The last revision that this leader wrote: no turn starts from a state before it.
    pub fn committed(&self) -> Revision {
        Revision(self.committed.load(Ordering::Acquire))
    }

    /// Carries out a commit under this leadership, and counts it: the one way in which a coordinator writes.
    ///
    /// # Errors
    /// [`CommitError`]; a conflict also where this leadership is over.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, CommitError> {
        self.carry_out(commit, stale::taken_of(commit).is_some()).await
    }

    /// Carries out a commit that a turn has planned.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) async fn commit_planned(&self, planned: &PlannedCommit) -> Result<Committed, CommitError> {
        self.carry_out(&planned.commit, planned.by_recent_view).await
    }

    async fn carry_out(&self, commit: &Commit, by_recent_view: bool) -> Result<Committed, CommitError> {
        let sent = Instant::now();
        let done = match by_recent_view {
            true => self.writes.commit_within(commit, OLDEST_VIEW).await,
            false => self.writes.commit(commit).await,
        };
        self.note_answer(commit, &done);
        if let Ok(committed) = &done {
            held(&self.shown).wrote(committed.revision, sent);
            self.committed.fetch_max(committed.revision.0, Ordering::AcqRel);
        }
        self.metrics.committed(match &done {
            Ok(_) => Outcome::Done,
            Err(CommitError::Conflict { .. }) => Outcome::Conflict,
            Err(_) => Outcome::Failed,
        });
        done
    }

    /// Remembers the services with an unanswered commit that takes instances out. Such a commit fails once the budget that it
    /// compares was written again.
    fn note_answer(&self, commit: &Commit, done: &Result<Committed, CommitError>) {
        let mut unanswered = held(&self.unanswered);
        match (done, stale::taken_of(commit)) {
            // Where this answer was read back, it may be that of an earlier commit with the same content.
            (Ok(Committed { revision }), _) => unanswered
                .retain(|service, compared| !writes_budget(commit, service) || *revision <= *compared),
            (Err(CommitError::NotApplied { .. } | CommitError::Unknown { .. }), Some(service))
                if !mutant::is("unanswered-order-is-forgotten") =>
            {
                let compared = compared_budget(commit, service);
                let newest = unanswered.entry(service.clone()).or_insert(compared);
                *newest = (*newest).max(compared);
            }
            _ => {}
        }
    }

    /// Whether the last turn withheld something, because the view was old: then no deadline counts until the next one.
    pub(crate) fn withholds(&self, withholds: bool) {
        held(&self.watches).withhold(withholds);
    }

    /// Asks the store whether this leadership lasts; writes nothing.
    ///
    /// # Errors
    /// [`CommitError`]; a conflict where it is over.
    pub async fn confirm(&self) -> Result<(), CommitError> {
        self.writes.commit(&Commit::new()).await.map(|_| ())
    }

    /// What the schema worker sees in the databases.
    pub fn schemas(&self) -> &watch::Sender<BTreeMap<UpgradeId, SchemaFacts>> {
        &self.schemas
    }
}

/// Which budget of a service a commit compares.
fn compared_budget(commit: &Commit, of: &ServiceName) -> Revision {
    let compared = commit.when.iter().find_map(|when| match when {
        Precondition::At(Key::Budget(service), at) if service == of => Some(*at),
        _ => None,
    });
    compared.unwrap_or(Revision::ABSENT)
}

fn writes_budget(commit: &Commit, of: &ServiceName) -> bool {
    commit.writes.iter().any(|write| matches!(write, Write::Put(Key::Budget(service), _) if service == of))
}

/// How many events a commit writes.
pub fn events_in(commit: &Commit) -> u64 {
    commit.writes.iter().filter(|write| matches!(write, Write::Put(Key::Event(..), _))).count() as u64
}

/// This machine's clock, for records that people read; never for a decision.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A lock is held for a computation only; one that panicked leaves values that are whole.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
