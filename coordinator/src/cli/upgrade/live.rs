//! `tidegate upgrade watch` on a terminal: a frame that is drawn over itself until the upgrade is over.

use super::follow::follow;
use super::frame;
use super::watch::outcome;
use super::watched::Watched;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::terminal::screen::Screen;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tidegate_proto::wire::v1::{UpgradeStatusReply, UpgradeStatusRequest};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the frame is drawn: a resize is answered within this time.
const FRAME: Duration = Duration::from_millis(200);

/// How often the status is asked for.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a status may take before the frame says that no coordinator answers.
const LATE: Duration = Duration::from_secs(3);

/// How long the last status may take: the outcome is known by then.
const LAST: Duration = Duration::from_secs(2);

/// Watches until it is over, or until a signal.
pub(super) async fn live(options: &GlobalOptions, id: String, screen: Screen) -> Result<Outcome, Failure> {
    let (watched, screen) = (RefCell::new(Watched::default()), RefCell::new(screen));
    let mut signals = Signals::new()?;
    let events = follow(options, &id, async |seen| {
        let over = watched.borrow_mut().see(seen, Instant::now());
        Ok(over.as_ref().map(outcome))
    });
    let ended = tokio::select! {
        ended = events => ended,
        failure = refresh(options, &id, &watched) => Err(failure),
        failure = draw(&watched, &screen) => Err(failure),
        ended = signals.ended(&screen) => ended,
    };
    let (watched, mut screen) = (watched.into_inner(), screen.into_inner());
    let ended = last(options, id, watched, &mut screen, ended).await;
    screen.close()?;
    ended
}

/// Draws the last frame, of an upgrade that is over.
async fn last(
    options: &GlobalOptions,
    id: String,
    mut watched: Watched,
    screen: &mut Screen,
    ended: Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    if matches!(ended, Ok(Outcome::Good | Outcome::Negative)) {
        let status = final_status(options, &id);
        // Without it the frame is a second old.
        if let Ok(Ok(status)) = tokio::time::timeout(LAST, status).await {
            watched.status(status, Instant::now());
        }
        show(&watched, screen)?;
    }
    ended
}

/// The status of an upgrade that is over. The stream may be ahead of it by some milliseconds.
async fn final_status(options: &GlobalOptions, id: &str) -> Result<UpgradeStatusReply, Failure> {
    let mut client = options.client().await?;
    loop {
        let status = client.upgrade_status(request(id)).await?.into_inner();
        if status.upgrade.as_ref().is_none_or(|upgrade| upgrade.over) {
            return Ok(status);
        }
        tokio::time::sleep(FRAME).await;
    }
}

fn request(id: &str) -> UpgradeStatusRequest {
    UpgradeStatusRequest { id: id.to_owned(), max_instances: 0 }
}

/// Asks for the status over and over. That the upgrade is unknown, and that a coordinator stays away, is found by the stream.
async fn refresh(options: &GlobalOptions, id: &str, watched: &RefCell<Watched>) -> Failure {
    loop {
        let mut client = match options.client().await {
            Ok(client) => client,
            Err(_) => {
                watched.borrow_mut().went_away(Instant::now());
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // A coordinator that hangs refuses no connection.
        while let Ok(Ok(status)) = tokio::time::timeout(LATE, client.upgrade_status(request(id))).await {
            watched.borrow_mut().status(status.into_inner(), Instant::now());
            tokio::time::sleep(PAUSE).await;
        }
        watched.borrow_mut().went_away(Instant::now());
        tokio::time::sleep(PAUSE).await;
    }
}

async fn draw(watched: &RefCell<Watched>, screen: &RefCell<Screen>) -> Failure {
    loop {
        if let Err(error) = show(&watched.borrow(), &mut screen.borrow_mut()) {
            return error;
        }
        tokio::time::sleep(FRAME).await;
    }
}

fn show(watched: &Watched, screen: &mut Screen) -> Result<(), Failure> {
    if let Some(frame) = watched.frame(Instant::now()) {
        screen.draw(|width, height| frame::lines(&frame, width, height))?;
    }
    Ok(())
}

/// Signals that end the watch, and the one that stops it for a while.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    suspend: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|e| Failure::failed(format!("could not listen for signals: {e}")));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            suspend: listen(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
        })
    }

    /// Returns when one ends the watch, with the exit code that shells use for it. While the process is stopped (Ctrl-Z), the
    /// usual screen is there; the next frame takes it back.
    async fn ended(&mut self, screen: &RefCell<Screen>) -> Result<Outcome, Failure> {
        loop {
            let code = tokio::select! {
                _ = self.interrupt.recv() => 130,
                _ = self.terminate.recv() => 143,
                _ = self.hangup.recv() => 129,
                _ = self.suspend.recv() => {
                    screen.borrow_mut().suspend()?;
                    let stopped = rustix::process::kill_process(
                        rustix::process::getpid(),
                        rustix::process::Signal::STOP,
                    );
                    stopped.map_err(std::io::Error::from)?;
                    continue;
                }
            };
            return Ok(Outcome::Says(code));
        }
    }
}
