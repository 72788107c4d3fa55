//! Holds a small world for hands-on work, until Ctrl-C.

use std::path::PathBuf;

use clap::Parser;
use grenade_tests::hold::{HoldOptions, hold};

/// Pantry at version 1 behind a balancer, on free ports, until Ctrl-C; then everything is ended.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Directory for its files
    #[arg(long)]
    dir: PathBuf,
    /// Instances of pantry
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    instances: u32,
    /// Rows to seed
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    rows: u32,
    /// PostgreSQL instead of SQLite
    #[arg(long)]
    postgres: bool,
    /// HAProxy instead of the built-in balancer
    #[arg(long)]
    haproxy: bool,
    /// Requests per second, 0 for none
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=5000))]
    rate: u32,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let Arguments { dir, instances, rows, postgres, haproxy, rate } = Arguments::parse();
    hold(HoldOptions { dir, instances, rows, postgres, haproxy, rate }).await
}
