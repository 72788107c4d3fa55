//! `tidegate man DIR`.

use super::Cli;
use super::exit::{Failure, Outcome};
use clap::CommandFactory;
use std::path::PathBuf;

/// Where to.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory for the pages; it is created where it is missing.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Args {
    /// Writes a page for each command.
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let unwritten = |error: std::io::Error| {
            Failure::failed(format!("could not write man pages to {}: {error}", self.directory.display()))
        };
        std::fs::create_dir_all(&self.directory).map_err(unwritten)?;
        clap_mangen::generate_to(Cli::command(), &self.directory).map_err(unwritten)?;
        Ok(Outcome::Good)
    }
}
