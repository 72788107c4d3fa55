//! `tidegate-simulate`: random worlds in simulated time. See `docs/testing.md`.

mod fixed;

use clap::Parser;
use grenade_tests::simulate::many::{self, Arguments};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    many::main(arguments, fixed::by)
}
