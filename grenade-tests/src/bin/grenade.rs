//! `grenade`: gate jobs with a verdict.

use std::process::ExitCode;

use grenade_tests::gate::cli::Cli;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .init();
    match Cli::read() {
        Ok(cli) => cli.run().await,
        Err(code) => code,
    }
}
