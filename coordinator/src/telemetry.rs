//! Logs: to stderr, so that stdout is data. `RUST_LOG` sets what is logged; spans are named for their role (`turn`,
//! `action`) and ids always have the same names (`node`, `service`, `upgrade`). An event is one line, whatever it
//! quotes.

pub(crate) use tidegate_proto::Chain;
use tidegate_proto::printable::OneLineEach;
use tracing_subscriber::EnvFilter;

/// Begins to log; `default` where `RUST_LOG` says nothing. Called once, by main.
pub(crate) fn begin(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| OneLineEach(std::io::stderr()))
        .with_ansi(false)
        .with_target(false)
        .init();
}
