//! Turns the signals that ask for an end into an error, so that the ordinary way out runs and drops the world.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::world::WorldError;

/// Waits for SIGINT, SIGTERM, SIGHUP or SIGQUIT.
#[derive(Debug)]
pub struct Interrupt {
    signals: [(Signal, &'static str); 4],
}

impl Interrupt {
    /// Listens from now on: make it before the first process is started.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Result<Self, WorldError> {
        let on = |kind, name| match signal(kind) {
            Ok(signal) => Ok((signal, name)),
            Err(source) => {
                Err(WorldError::Process { tried: "listen to signals of", name: "this".to_owned(), source })
            }
        };
        let signals = [
            on(SignalKind::interrupt(), "SIGINT")?,
            on(SignalKind::terminate(), "SIGTERM")?,
            on(SignalKind::hangup(), "SIGHUP")?,
            on(SignalKind::quit(), "SIGQUIT")?,
        ];
        Ok(Self { signals })
    }

    /// Ends when one of them comes.
    pub async fn interrupted(&mut self) -> WorldError {
        let [(int, a), (term, b), (hup, c), (quit, d)] = &mut self.signals;
        WorldError::Interrupted(tokio::select! {
            _ = int.recv() => a,
            _ = term.recv() => b,
            _ = hup.recv() => c,
            _ = quit.recv() => d,
        })
    }
}
