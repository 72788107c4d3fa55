//! The demo's command line, and what it asks for. Only parses.

use std::path::PathBuf;

use clap::{Parser, value_parser};

const AFTER: &str = "\
What happens: a store, a coordinator, six agents with six processes of the sample service at version 1, a balancer and \
a load are started, all on free loopback ports; the service is upgraded from 1 to 2 by canary waves while you watch. \
Everything is ended at the end, on Ctrl-C, and on any error.

What it leaves in target/demo: report.json, requests.csv (one line for each request), the configurations, and the log \
of each process. Each run replaces it.

Examples:
  make demo                         the embedded store, SQLite, the built-in balancer: nothing to install
  make demo ARGS=--break-at=3       the new version is broken from the third instance on: it must roll back
  make demo ARGS=--real             three members of etcd, PostgreSQL and HAProxy (`make deps` installs them)

Exit: 0 when the upgrade ended as the arguments call for and no request failed; 1 when not; 2 for arguments that make \
no sense; 130 when interrupted.";

/// A whole rolling upgrade of a sample service: real processes, under load, in front of your eyes.
#[derive(Debug, Clone, Parser)]
#[command(name = "tidegate-demo", version, after_help = AFTER)]
pub struct Arguments {
    /// A three-member etcd, PostgreSQL and HAProxy instead of what is built in
    #[arg(long)]
    real: bool,
    /// The new version never becomes ready from the Nth instance on; the upgrade must roll back
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    break_at: Option<u32>,
    /// How many instances
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = value_parser!(u32).range(2..=24))]
    instances: u32,
    /// Requests per second
    #[arg(long, value_name = "N", default_value_t = 110, value_parser = value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Rows in the service's catalogue before it begins; all of them are migrated under load
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = value_parser!(u32).range(2..=1_000_000))]
    rows: u32,
    /// Where its files are; it must be empty, absent, or an earlier run's [default: target/demo]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep everything, also databases, stores and staged code
    #[arg(long)]
    keep: bool,
    /// Lines instead of a picture, also on a terminal
    #[arg(long)]
    plain: bool,
}

/// What is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoPlan {
    /// Real etcd, PostgreSQL and HAProxy.
    pub real: bool,
    /// From which instance on the new version is broken.
    pub break_at: Option<u32>,
    /// How many instances.
    pub instances: u32,
    /// Requests per second.
    pub rate: u32,
    /// Seeded rows.
    pub rows: u32,
    /// Where its files are; absent: beside the directory of this program.
    pub dir: Option<PathBuf>,
    /// Whether everything stays.
    pub keep: bool,
    /// Whether lines are wanted on a terminal too.
    pub plain: bool,
}

/// Arguments that make no sense together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--break-at {at} of {instances} instances; 1 to {instances} is allowed")]
pub struct NoSuchInstance {
    at: u32,
    instances: u32,
}

impl Arguments {
    /// Checks what the parser cannot.
    ///
    /// # Errors
    /// [`NoSuchInstance`].
    pub fn into_plan(self) -> Result<DemoPlan, NoSuchInstance> {
        let Self { real, break_at, instances, rate, rows, dir, keep, plain } = self;
        match break_at.filter(|at| *at > instances) {
            Some(at) => Err(NoSuchInstance { at, instances }),
            None => Ok(DemoPlan { real, break_at, instances, rate, rows, dir, keep, plain }),
        }
    }
}

impl DemoPlan {
    /// How the upgrade must end.
    pub fn called_for(&self) -> crate::demo::report::Outcome {
        match self.break_at {
            None => crate::demo::report::Outcome::Completed,
            Some(_) => crate::demo::report::Outcome::RolledBack,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Arguments;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for bad in [
            "--brake-at=3",
            "--break-at=0",
            "--break-at=x",
            "--instances=1",
            "--instances=25",
            "--rate=0",
            "--rows=1",
            "left-over",
        ] {
            assert!(Arguments::try_parse_from(["tidegate-demo", bad]).is_err(), "{bad} was taken");
        }
        let seven = Arguments::try_parse_from(["tidegate-demo", "--break-at=7"]).unwrap();
        assert!(seven.into_plan().unwrap_err().to_string().contains("1 to 6"));
        assert!(Arguments::try_parse_from(["tidegate-demo", "--break-at=6"]).unwrap().into_plan().is_ok());
    }
}
