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
use tidegate_planner::{Leading, Moment, Reason, SchemaFacts};
use tidegate_proto::key::Subject;
use tidegate_proto::record::Timestamp;
use tidegate_proto::{Commit, Key, Revision, ServiceName, UpgradeId, Write, mutant};
use tidegate_store::{CommitError, Committed, Fenced};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// An order that takes an instance out is sent for as long after it was planned as the view may be old, and as long waited for.
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
    unanswered: Mutex<BTreeSet<ServiceName>>,
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

    /// Keeps what the store refused in a turn, by subject.
    pub fn keep_refused(&self, refused: BTreeMap<Subject, Reason>) {
        *held(&self.refused) = refused;
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
            unanswered: held(&self.unanswered).clone(),
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
        let (sent, takes) = (Instant::now(), stale::taken_of(commit));
        let done = match takes {
            Some(_) => self.writes.commit_within(commit, OLDEST_VIEW).await,
            None => self.writes.commit(commit).await,
        };
        self.note_answer(takes, commit, &done);
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
    fn note_answer(
        &self,
        takes: Option<&ServiceName>,
        commit: &Commit,
        done: &Result<Committed, CommitError>,
    ) {
        let mut unanswered = held(&self.unanswered);
        match (done, takes) {
            (Ok(_), _) => unanswered.retain(|service| !writes_budget(commit, service)),
            (Err(CommitError::NotApplied { .. } | CommitError::Unknown { .. }), Some(service)) => {
                unanswered.insert(service.clone());
            }
            _ => {}
        }
    }

    /// The last turn withheld something, because the view was old: until the next one, no deadline counts.
    pub(crate) fn withheld(&self) {
        held(&self.watches).hold();
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
