//! `tidegate completion SHELL`.

use super::Cli;
use super::exit::{Failure, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// For which shell.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell that shall complete.
    shell: Shell,
}

impl Args {
    /// Prints the script.
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tidegate", &mut script);
        std::io::stdout().lock().write_all(&script)?;
        Ok(Outcome::Good)
    }
}
