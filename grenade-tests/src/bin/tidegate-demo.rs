//! `make demo`: a whole rolling upgrade, to be watched.

use std::process::ExitCode;

use clap::Parser;
use grenade_tests::demo;
use grenade_tests::demo::arguments::Arguments;

/// What a shell gives to a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let plan = match Arguments::parse().into_plan() {
        Ok(plan) => plan,
        Err(nonsense) => {
            eprintln!("tidegate-demo: {nonsense}");
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .init();
    match demo::run(plan).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidegate-demo: {error:#}");
            if demo::is_interrupt(&error) { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}
