//! The sample service at version 2.

use std::process::ExitCode;

use grenade_tests::sample::{cli, v2};

fn main() -> ExitCode {
    cli::main("pantry-v2", &v2::EDITION)
}
