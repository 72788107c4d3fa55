//! A coordinator: the product's own loop over the simulated store, with no socket.

use super::dice::Dice;
use super::gate::{Gate, Passage};
use super::line::{Line, Place};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::leader_loop;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::metrics::Metrics;
use tidegate_coordinator::report::Mirror;
use tidegate_proto::Prefix;
use tidegate_store::Reader;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a leadership lasts without a sign of life.
pub(super) const TTL: Duration = Duration::from_secs(3);

/// Whose a session of a leader with a database is. There is one world in a process.
static LED: Mutex<Led> = Mutex::new(Led { started: Vec::new(), sessions: BTreeMap::new() });

struct Led {
    /// Every coordinator that was started, with what it knows of its own leadership.
    started: Vec<(Gate, watch::Receiver<Option<Arc<Leadership>>>)>,
    /// By the name of the session, which contains the term.
    sessions: BTreeMap<String, Gate>,
}

fn held(led: &Mutex<Led>) -> std::sync::MutexGuard<'_, Led> {
    led.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Led {
    /// The gate of the coordinator whose session this is: its first statement comes while it leads.
    fn gate(&mut self, session: &str) -> Option<Gate> {
        if let Some(gate) = self.sessions.get(session) {
            return Some(gate.clone());
        }
        let number: i64 = session.strip_prefix("tidegate/")?.strip_suffix("/schema")?.parse().ok()?;
        // A reconciled store counts on from the revisions of the former one.
        let of = self.started.iter().filter_map(|(gate, leadership)| {
            let revision = leadership.borrow().as_ref().map(|leadership| leadership.leading.revision.0)?;
            (revision <= number).then(|| (revision, gate.clone()))
        });
        let gate = of.max_by_key(|(revision, _)| *revision)?.1;
        self.sessions.insert(session.to_owned(), gate.clone());
        Some(gate)
    }
}

tokio::task_local! {
    static OF_A_PERSON: ();
}

/// A command of a person at a database. Its session has the term that the database has, and so the name of the session of
/// the coordinator which leads under that term; but it goes on where that is stopped.
pub(super) async fn of_a_person<T>(command: impl Future<Output = T>) -> T {
    OF_A_PERSON.scope((), command).await
}

/// Waits as long as the coordinator is stopped whose session this is. What was killed has sent what it had to send.
pub(super) fn goes_on(session: &str) -> BoxFuture<'static, ()> {
    let is_a_persons = OF_A_PERSON.try_with(|()| ()).is_ok();
    let gate = if is_a_persons { None } else { held(&LED).gate(session) };
    async move {
        if let Some(gate) = gate {
            gate.thaws().await;
        }
    }
    .boxed()
}

/// The session of this name belongs to the coordinator behind a gate.
#[cfg(test)]
pub(super) fn session_is_of(session: &str, gate: &Gate) {
    held(&LED).sessions.insert(session.to_owned(), gate.clone());
}

/// One coordinator, as a process.
pub(super) struct Coordinator {
    /// The gate between it and everything else.
    pub gate: Gate,
    /// Its line to the store.
    pub line: Line,
    /// The context of its operations.
    pub context: Context,
    /// Since when it is stopped, where it led then, in milliseconds.
    pub stopped_at: Option<u64>,
    cancel: CancellationToken,
    loops: [JoinHandle<()>; 2],
}

impl Coordinator {
    /// Starts one.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub(super) async fn start(
        place: &Place,
        name: &str,
        migrations: PathBuf,
        dice: &mut Dice,
    ) -> Result<Self, etcd_client::Error> {
        let gate = Gate::open();
        let line = Line::new(place.clone(), gate.clone(), Dice::of(dice.seed(), "line"));
        let store = Reader::over(line.client().await?, Prefix::default());
        let mirror = Mirror::new();
        let (seats, leadership) = watch::channel(None);
        let context = Context {
            store: store.clone(),
            mirror: Arc::clone(&mirror),
            leadership,
            metrics: Arc::new(Metrics::new()),
            migrations: Some(migrations),
            hindrance: watch::Sender::default(),
            address: format!("http://{name}:1").into(),
            static_settings: Arc::default(),
            releases: Arc::default(),
        };
        held(&LED).started.push((gate.clone(), context.leadership.clone()));
        let cancel = CancellationToken::new();
        let loops = [
            tokio::spawn(gate.run(mirror.follow(store, cancel.clone()))),
            tokio::spawn(gate.run(leader_loop::run(context.clone(), seats, TTL, cancel.clone()))),
        ];
        Ok(Self { gate, line, context, stopped_at: None, cancel, loops })
    }

    /// The leadership, where it leads. One that is stopped answers no request; and to ask whether its leadership lasts
    /// would show it the end of that before it goes on.
    pub(super) fn leads(&self) -> Option<Arc<Leadership>> {
        if self.gate.is_open() { self.context.led_here() } else { None }
    }

    /// kill -9. What it had sent to a database is carried out or taken back by that.
    pub(super) fn kill(self) {
        // Before the gate, which lets the tasks of a stopped process go on: they see first that they are to end.
        self.cancel.cancel();
        self.loops[0].abort();
        self.gate.set(Passage::Dead);
    }

    /// Its loop ends, as it would where the product broke.
    pub(super) fn end_by_itself(&self) {
        self.loops[1].abort();
    }

    /// Whether one of its loops broke: a fault of the product.
    pub(super) fn is_broken(&self) -> bool {
        self.loops[1].is_finished()
    }
}
