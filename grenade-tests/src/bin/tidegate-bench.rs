//! `make bench`: the figures, each with its limit.

use std::process::ExitCode;

use clap::Parser;
use grenade_tests::bench;
use grenade_tests::bench::arguments::Arguments;
use grenade_tests::world::interrupt::Interrupt;

/// What a shell gives to a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match measure(&Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidegate-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(listen) = arguments.bare_handler {
        bench::releases::bare::serve(listen).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => bench::default_dir()?,
    };
    let mut interrupt = Interrupt::listen()?;
    tokio::select! {
        kept = bench::run(arguments, &dir) => Ok(if kept? { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        ended = interrupt.interrupted() => {
            eprintln!("tidegate-bench: {ended}; every process was ended");
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}
