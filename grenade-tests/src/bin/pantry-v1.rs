//! The sample service at version 1.

use std::process::ExitCode;

use grenade_tests::sample::{cli, v1};

fn main() -> ExitCode {
    cli::main("pantry-v1", &v1::EDITION)
}
