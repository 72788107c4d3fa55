//! `tidegate`: the daemon and the operator's commands.

use std::process::ExitCode;
use tidegate_coordinator::cli::Cli;

fn main() -> ExitCode {
    Cli::read().run()
}
