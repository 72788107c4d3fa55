//! `tidegate-simulate`: random worlds in simulated time. See `docs/testing.md`.

mod fixed;

use clap::Parser;
use grenade_tests::simulate::many::{self, Arguments, Fix};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    many::main(arguments, Fix { chance: fixed::chance, clock: fixed::clock })
}
