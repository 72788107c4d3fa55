//! The built-in balancer: addresses and a health URL in, requests passed on, `show stat` on a socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use grenade_tests::balancer::check::CheckPlan;
use grenade_tests::balancer::health::Thresholds;
use grenade_tests::balancer::run::{BalancerOptions, run};
use grenade_tests::balancer::server::ServerAddress;

/// An HTTP/1.1 balancer without retries that reports its servers' state as HAProxy does.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Address that clients connect to
    #[arg(long)]
    listen: SocketAddr,
    /// Unix socket that answers `show stat`
    #[arg(long)]
    stats_socket: PathBuf,
    /// Milliseconds from one check to the next
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    check_interval_ms: u64,
    /// Milliseconds that a check may take
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    check_timeout_ms: u64,
    /// Failed checks in a row that take a server out
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    fall: u32,
    /// Passed checks in a row that bring it back
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rise: u32,
    /// Path of the health check
    #[arg(long, default_value = "/healthcheck", value_parser = path)]
    health_path: String,
    /// A server as NAME=ADDR:PORT, or NAME=ADDR:PORT,check=ADDR:PORT where its health is asked elsewhere; once for each
    #[arg(long = "server", required = true)]
    servers: Vec<ServerAddress>,
}

fn path(text: &str) -> Result<String, String> {
    match text.parse::<http::uri::PathAndQuery>() {
        Ok(_) if text.starts_with('/') => Ok(text.to_owned()),
        _ => Err("a path that begins with `/` is allowed".to_owned()),
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    run(BalancerOptions {
        listen: arguments.listen,
        stats_socket: arguments.stats_socket,
        check: CheckPlan {
            interval: Duration::from_millis(arguments.check_interval_ms),
            timeout: Duration::from_millis(arguments.check_timeout_ms),
            path: arguments.health_path,
        },
        thresholds: Thresholds { fall: arguments.fall, rise: arguments.rise },
        servers: arguments.servers,
    })
    .await
}
