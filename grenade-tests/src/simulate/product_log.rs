//! The product's own log (`RUST_LOG`) on standard error, each line with its simulated time in the form of the event log.

use super::event_log;
use std::fmt;
use std::sync::OnceLock;
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Whether it is asked for.
pub(super) fn is_asked_for() -> bool {
    std::env::var_os("RUST_LOG").is_some()
}

/// Writes it from now on, if it is asked for.
pub(super) fn write() {
    if is_asked_for() {
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .with_timer(SimulatedTime)
            .init();
    }
}

/// The simulated world begins now.
pub(super) fn begin() {
    BEGAN.get_or_init(Instant::now);
}

/// What a process wrote to standard error beside this log.
pub(super) fn without(stderr: &str) -> String {
    let is_of_it = |line: &&str| {
        let time = line.split_whitespace().next().and_then(|word| word.split_once('.'));
        time.is_some_and(|(seconds, ms)| seconds.parse::<u64>().is_ok() && ms.parse::<u64>().is_ok())
    };
    stderr.lines().filter(|line| !is_of_it(line)).collect::<Vec<_>>().join("\n").trim().to_owned()
}

struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let since = BEGAN.get().map(|began| Instant::now().saturating_duration_since(*began));
        let ms = u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        write!(w, "{}", event_log::seconds(ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_of_an_end_is_found_beside_the_log() {
        let panic = "thread 'main' panicked at proto/src/a.rs:1:2:\nwhy";
        let stderr = format!("   0.000  INFO tidegate_agent: begins\n\n{panic}\n  14.165 DEBUG a: drains\n");
        assert_eq!(without(&stderr), panic);
        assert_eq!(without("it did not end within 300 s\n"), "it did not end within 300 s");
    }
}
