//! What interrupts the program: it ends the processes of schedules, and the program goes the ordinary way to its end, which
//! removes directories and prints what was played until then.

use crate::world::WorldError;
use crate::world::descendants::{Scope, sweep};
use crate::world::interrupt::Interrupt;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tidegate_proto::printable::to_stderr;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// The exit code of a run that was interrupted.
pub(super) const INTERRUPTED: u8 = 130;

/// How long the program may take, at most, to clean up after the schedules that were ended.
const CLEANS_UP: Duration = Duration::from_secs(10);

/// Between two looks for processes that were started meanwhile, and, in a thread without a runtime, for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A terminal interrupts the processes of schedules as well: one may have ended before this process knows why.
const IS_NOTICED: Duration = Duration::from_millis(200);

static CAME: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Listens from now on. To be called before the first process is started.
///
/// # Errors
/// When the system refuses.
pub(super) fn listen() -> anyhow::Result<()> {
    let hangs_up = !ignores_hangups();
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let interrupt = {
        let _entered = runtime.enter();
        Interrupt::listen()?
    };
    std::thread::Builder::new().spawn(move || end_when_interrupted(&runtime, interrupt, hangs_up))?;
    Ok(())
}

/// Whether the run was interrupted.
pub(super) fn came() -> bool {
    CAME.is_cancelled()
}

/// Whether the run was interrupted, also where this process is about to notice it.
pub(super) fn came_just_now() -> bool {
    let began = Instant::now();
    while !came() && began.elapsed() < IS_NOTICED {
        std::thread::sleep(LOOK_EVERY);
    }
    came()
}

/// Ends once the run is interrupted.
pub(super) async fn interrupted() {
    CAME.cancelled().await;
}

/// Whether this program was started so, as by `nohup`: SIGHUP is bit 0 of the mask.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

fn end_when_interrupted(runtime: &Runtime, mut interrupt: Interrupt, hangs_up: bool) {
    let mut why = runtime.block_on(interrupt.interrupted());
    while !hangs_up && matches!(why, WorldError::Interrupted("SIGHUP")) {
        why = runtime.block_on(interrupt.interrupted());
    }
    CAME.cancel();
    to_stderr(format_args!("\rtidegate-simulate: {why}"));
    let began = Instant::now();
    // A thread may have been about to start a schedule.
    while began.elapsed() < CLEANS_UP {
        sweep(&Scope::Every);
        std::thread::sleep(LOOK_EVERY);
    }
    std::process::exit(i32::from(INTERRUPTED));
}
