//! A coordinator: the product's own loop over the simulated store, with no socket.

use super::dice::Dice;
use super::gate::{Gate, Passage};
use super::line::{Line, Place};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_coordinator::record::metrics::Metrics;
use tidegate_coordinator::report::Mirror;
use tidegate_coordinator::room::Room;
use tidegate_coordinator::seat::Seat;
use tidegate_coordinator::wheel;
use tidegate_proto::Prefix;
use tidegate_store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a leadership lasts without a sign of life.
pub const TTL: Duration = Duration::from_secs(3);

/// One coordinator, as a process.
pub struct Coordinator {
    /// What stands between it and everything else.
    pub gate: Gate,
    /// Its line to the store.
    pub line: Line,
    /// What its operations stand in.
    pub room: Room,
    cancel: CancellationToken,
    loops: [JoinHandle<()>; 2],
}

impl Coordinator {
    /// Starts one.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub async fn start(
        place: &Place,
        name: &str,
        migrations: PathBuf,
        dice: &mut Dice,
    ) -> Result<Self, etcd_client::Error> {
        let gate = Gate::open();
        let line = Line::new(place.clone(), gate.clone(), Dice::of(dice.seed(), "line"));
        let store = Store::over(line.client().await?, Prefix::default());
        let mirror = Mirror::new();
        let (seats, seat) = watch::channel(None);
        let room = Room {
            store: store.clone(),
            mirror: Arc::clone(&mirror),
            seat,
            metrics: Arc::new(Metrics::new()),
            migrations: Some(migrations),
            hindrance: watch::Sender::default(),
            address: format!("http://{name}:1").into(),
            static_settings: Arc::default(),
            releases: Arc::default(),
        };
        let cancel = CancellationToken::new();
        let loops = [
            tokio::spawn(mirror.follow(store, cancel.clone())),
            tokio::spawn(wheel::run(room.clone(), seats, TTL, cancel.clone())),
        ];
        Ok(Self { gate, line, room, cancel, loops })
    }

    /// The seat, where it leads.
    pub fn leads(&self) -> Option<Arc<Seat>> {
        self.room.led_here()
    }

    /// kill -9. What it had sent to a database is carried out or taken back by that.
    pub fn kill(self) {
        self.gate.set(Passage::Dead);
        self.cancel.cancel();
        self.loops[0].abort();
    }

    /// Whether one of its loops broke: a fault of the product.
    pub fn is_broken(&self) -> bool {
        self.loops[1].is_finished()
    }
}
