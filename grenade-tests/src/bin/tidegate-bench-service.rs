//! The smallest service that can be upgraded: what `make bench` replaces where only the overhead counts.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use grenade_tests::bench::overhead::service::{SmallService, serve};

/// Answers a version, readiness, a health check that a file disables, and how much is in flight.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where it answers
    #[arg(long)]
    listen: SocketAddr,
    /// The version that it answers
    #[arg(long)]
    carries: u32,
    /// The file that makes the health check answer 503
    #[arg(long)]
    disable_file: PathBuf,
}

fn main() -> std::io::Result<()> {
    let Arguments { listen, carries, disable_file } = Arguments::parse();
    serve(listen, &SmallService { version: carries, disable_file })
}
