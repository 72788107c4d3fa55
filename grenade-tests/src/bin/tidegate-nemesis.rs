//! `tidegate-nemesis`: faults on real processes. See `docs/testing.md`.

use clap::Parser;
use grenade_tests::nemesis::arguments::Arguments;
use grenade_tests::nemesis::program;
use std::process::ExitCode;

fn main() -> ExitCode {
    program::main(&Arguments::parse())
}
