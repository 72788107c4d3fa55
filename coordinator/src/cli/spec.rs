//! `tidegate spec …`: what goes into the files that people write.

use super::exit::{Failure, Outcome};
use super::show;
use crate::operation::spec::{EXAMPLE, schema};
use clap::{Subcommand, ValueEnum};

/// Verbs on specs.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print a commented, valid example spec.
    New,
    /// Print the JSON Schema of a file, with which editors complete and check it.
    Schema {
        /// Kind of file that the schema describes.
        #[arg(value_enum, default_value_t = File::Spec)]
        of: File,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum File {
    /// The spec of an upgrade (YAML).
    Spec,
    /// A migration (TOML).
    Migration,
}

impl Args {
    /// Prints it.
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.verb {
            Verb::New => show::raw(EXAMPLE)?,
            Verb::Schema { of: File::Spec } => show::raw(&format!("{:#}\n", schema()))?,
            Verb::Schema { of: File::Migration } => {
                show::raw(&format!("{:#}\n", tidegate_migrations::json_schema()))?
            }
        }
        Ok(Outcome::Good)
    }
}
