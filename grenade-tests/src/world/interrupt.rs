//! Turns the signals that end a program into an error, so that the ordinary way out runs and drops the world.

use std::future::poll_fn;
use std::task::Poll;

use rustix::process;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::world::WorldError;

/// Every signal whose default is to end a program, and that a program can take: without this it would leave its processes
/// running. Not those of a fault in the program itself (SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV), nor SIGPIPE, which is
/// ignored.
const SIGNALS: [(process::Signal, &str); 14] = [
    (process::Signal::INT, "SIGINT"),
    (process::Signal::TERM, "SIGTERM"),
    (process::Signal::HUP, "SIGHUP"),
    (process::Signal::QUIT, "SIGQUIT"),
    (process::Signal::USR1, "SIGUSR1"),
    (process::Signal::USR2, "SIGUSR2"),
    (process::Signal::ALARM, "SIGALRM"),
    (process::Signal::VTALARM, "SIGVTALRM"),
    (process::Signal::PROF, "SIGPROF"),
    (process::Signal::XCPU, "SIGXCPU (the limit on CPU time)"),
    (process::Signal::XFSZ, "SIGXFSZ (the limit on the size of a file)"),
    (process::Signal::IO, "SIGPOLL"),
    (process::Signal::POWER, "SIGPWR"),
    (process::Signal::STKFLT, "SIGSTKFLT"),
];

/// Waits for one of the signals that end a program.
#[derive(Debug)]
pub struct Interrupt {
    signals: Vec<(Signal, &'static str)>,
}

impl Interrupt {
    /// Listens from now on: make it before the first process is started.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Result<Self, WorldError> {
        let on = |(number, name): (process::Signal, _)| match signal(SignalKind::from_raw(number.as_raw())) {
            Ok(signal) => Ok((signal, name)),
            Err(source) => {
                Err(WorldError::Process { tried: "listen to signals of", name: "this".to_owned(), source })
            }
        };
        Ok(Self { signals: SIGNALS.into_iter().map(on).collect::<Result<_, _>>()? })
    }

    /// Ends when one of them comes.
    pub async fn interrupted(&mut self) -> WorldError {
        let name = poll_fn(|context| {
            let came = |(signal, name): &mut (Signal, &'static str)| {
                signal.poll_recv(context).is_ready().then_some(*name)
            };
            self.signals.iter_mut().find_map(came).map_or(Poll::Pending, Poll::Ready)
        });
        WorldError::Interrupted(name.await)
    }
}
