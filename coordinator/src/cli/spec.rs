//! `tidegate spec new`.

use super::exit::{Failure, Outcome};
use super::show;
use crate::operation::spec::EXAMPLE;
use clap::Subcommand;

/// Verbs on specs.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print a commented, valid example spec.
    New,
}

impl Args {
    /// Prints it.
    pub fn run(self) -> Result<Outcome, Failure> {
        match self.verb {
            Verb::New => show::raw(EXAMPLE)?,
        }
        Ok(Outcome::Good)
    }
}
