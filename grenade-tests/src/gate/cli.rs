//! The command line of `grenade`. Only translates.

mod calibrate;
mod check;
mod compare;
mod explore;
mod run;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};

use crate::gate::exit::{BAD_INPUT, INTERRUPTED, NOT_RUN, print, say};
use crate::gate::file::{self, Gate, tags};
use crate::gate::plan::Plan;
use crate::gate::watch::Probe;
use crate::gate::{compat, init, matrix, record};
use crate::world::interrupt::Interrupt;
use crate::world::place::{Place, PlaceError};
use crate::world::{World, WorldError};

const AFTER: &str = "\
Examples:
  grenade init > gate.yaml                          a commented example to begin with
  grenade init --url http://127.0.0.1:8080          the same, with what a running service answers filled in
  grenade check gate.yaml                           each version alone: what is missing?
  grenade run gate.yaml                             the whole gate, with a verdict for each tag
  grenade run gate.yaml --junit junit.xml --json    for a build
  grenade explore gate.yaml --plans 5 --seed 1      upgrades with pauses, rollbacks and kills that a seed draws
  grenade calibrate gate.yaml --pairs 20            how far zero-impact can be trusted on this machine
  grenade compare twin.csv upgraded.csv --drains t  zero-impact, from the ledgers of two pools
  grenade compat --compute-tag C --storage-tag S -- tests/compat.sh    run a suite and record its verdict

All processes are private to the run, on free loopback ports. They are ended with it, also by Ctrl-C and every
signal that a program can take; what SIGKILL leaves, the next run names.

Exit codes:
  0    every asserted tag passes
  1    one fails
  2    none fails, but one is inconclusive (see --on-inconclusive)
  3    the gate file or the command line is wrong; nothing was started
  4    the gate could not be run to a verdict; the text says why
  130  interrupted";

/// Runs old and new versions of a service together under load, counts every request, and says pass, fail or inconclusive.
#[derive(Debug, Parser)]
#[command(name = "grenade", version, max_term_width = 110, after_help = AFTER)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a gate and give its verdict.
    Run(run::Run),
    /// Validate a gate file, start each version alone, and say what is missing.
    Check {
        /// The gate file.
        gate: PathBuf,
    },
    /// Upgrade by plans that a seed draws (waves, pauses, rollbacks, kills); one that fails is made smaller and kept.
    Explore(explore::Explore),
    /// Print the plan that a seed draws, to be edited and run with `grenade run --plan`.
    Plan {
        /// The gate file.
        gate: PathBuf,
        /// The seed
        #[arg(long, value_name = "N", default_value = "1")]
        seed: u64,
    },
    /// Measure how far the judge of zero-impact can be trusted on this machine, with two pools that are both left alone.
    Calibrate(calibrate::Calibrate),
    /// Judge two ledgers of twin pools for zero-impact: the same load at the same time, only one was upgraded.
    Compare {
        /// The ledger of the pool that was not upgraded.
        twin: PathBuf,
        /// The ledger of the pool that was.
        upgraded: PathBuf,
        /// A file with the instants at which its instances left rotation: milliseconds since the load's start, one a line
        #[arg(long, value_name = "FILE")]
        drains: PathBuf,
        /// Print the checks as JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Run a compatibility suite for a compute tag and a storage tag, and record its verdict in the coordinator.
    Compat(compat::Compat),
    /// Show which compute tags were tested with which storage tags, and which releases wait for which pair.
    Matrix(matrix::Matrix),
    /// Record what the report of a gate says, for the two artifacts that it tested.
    Record(record::Record),
    /// Print a gate file to begin with: a commented example, or one that fits a service that runs.
    Init {
        /// The service, as http://IP:PORT: its usual paths are asked for version, readiness, health and requests in flight
        #[arg(long, value_name = "URL")]
        url: Option<http::Uri>,
    },
    /// Print the JSON Schema of a gate file.
    Schema,
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page for each command.
    Man {
        /// The directory for the pages; it is created where it is missing.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print the number of the version that an instance answers with.
    #[command(hide = true)]
    VersionOf {
        /// What is asked.
        #[arg(long)]
        url: http::Uri,
        /// Where in the answer it is.
        #[arg(long)]
        pointer: Option<String>,
        /// The number of the version that answers so, as ANSWER=NUMBER.
        #[arg(long, value_parser = meaning)]
        means: Vec<(String, u32)>,
    },
}

/// A file that the command line names cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write {}", path.display())]
struct Unwritable {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

fn meaning(text: &str) -> Result<(String, u32), String> {
    let (said, number) = text.rsplit_once('=').ok_or("ANSWER=NUMBER is allowed")?;
    Ok((said.to_owned(), number.parse().map_err(|_| format!("`{number}` is no number"))?))
}

impl Cli {
    /// Parses the command line; what is wrong with it ends the program with this tool's own code.
    pub fn read() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            // Help and version go to stdout and are no failure.
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(BAD_INPUT) } else { ExitCode::SUCCESS }
        })
    }

    /// Runs it.
    pub async fn run(self) -> ExitCode {
        match self.verb {
            Verb::Run(run) => run.run().await,
            Verb::Check { gate } => check::check(&gate).await,
            Verb::Calibrate(calibrate) => calibrate.run().await,
            Verb::Explore(explore) => explore.run().await,
            Verb::Plan { gate, seed } => match load(&gate) {
                Ok(gate) if gate.procedure.is_some() => no_plans(),
                Ok(gate) => match Plan::draw(seed, &gate).yaml() {
                    Ok(plan) => print(&plan),
                    Err(error) => not_run(&error),
                },
                Err(code) => code,
            },
            Verb::Compare { twin, upgraded, drains, json } => {
                match compare::compare(&twin, &upgraded, &drains) {
                    Ok(checks) => compare::said(&checks, json),
                    Err(error) => {
                        say(format_args!("{error:#}"));
                        ExitCode::from(BAD_INPUT)
                    }
                }
            }
            Verb::Compat(compat) => compat.run().await,
            Verb::Matrix(matrix) => matrix.run().await,
            Verb::Record(record) => record.run().await,
            Verb::Init { url: None } => print(init::EXAMPLE),
            Verb::Init { url: Some(url) } => match address_of(&url) {
                Ok(address) => match init::of_running(address).await {
                    Ok(text) => print(&text),
                    Err(error) => not_run(&error),
                },
                Err(code) => code,
            },
            Verb::Schema => match serde_json::to_string_pretty(&file::schema()) {
                Ok(schema) => print(&format!("{schema}\n")),
                Err(error) => not_run(&error.into()),
            },
            Verb::Completion { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "grenade", &mut script);
                print(&String::from_utf8_lossy(&script))
            }
            Verb::Man { directory } => match man(&directory) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => not_run(&error),
            },
            Verb::VersionOf { url, pointer, means } => version_of(&url, pointer, means).await,
        }
    }
}

fn man(directory: &Path) -> anyhow::Result<()> {
    let written =
        std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.with_context(|| format!("could not write man pages to {}", directory.display()))
}

fn no_plans() -> ExitCode {
    say("plans are for Tidegate; this gate has a `procedure`");
    ExitCode::from(BAD_INPUT)
}

fn not_run(error: &anyhow::Error) -> ExitCode {
    say(format_args!("{error:#}"));
    let interrupted = matches!(error.downcast_ref(), Some(WorldError::Interrupted(_)));
    let misnamed =
        error.downcast_ref::<PlaceError>().is_some() || error.downcast_ref::<Unwritable>().is_some();
    ExitCode::from(match (interrupted, misnamed) {
        (true, _) => INTERRUPTED,
        (_, true) => BAD_INPUT,
        _ => NOT_RUN,
    })
}

/// Says what this gate does not decide, for another gate job may: tags that the asserted ones presuppose, and what is in the
/// file for one of them.
fn say_undecided(gate: &Gate) {
    if let Some(presupposed) = tags::presupposed(&gate.tags) {
        say(format_args!("{}: {presupposed}", gate.origin.at("tags")));
    }
    for (field, tag) in &gate.unused {
        say(format_args!("{}: decides nothing here: it is for the tag {tag}", gate.origin.at(field)));
    }
}

fn load(path: &Path) -> Result<Gate, ExitCode> {
    file::load(path).map_err(|error| {
        say(format_args!("{:#}", anyhow::Error::from(error)));
        ExitCode::from(BAD_INPUT)
    })
}

/// Runs `work` with a directory and processes of its own. A signal or the time limit ends it; nothing is left running.
async fn in_a_world<T>(
    directory: &Path,
    most: Duration,
    work: impl AsyncFnOnce(&World) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut interrupt = Interrupt::listen()?;
    let place = Place::fresh(directory)?;
    let world = World::alone(place.dir())?;
    world.must_have_room()?;
    let done = tokio::select! {
        done = work(&world) => done,
        full = is_full(&world) => Err(full.into()),
        signal = interrupt.interrupted() => Err(signal.into()),
        () = tokio::time::sleep(most) => {
            Err(anyhow::anyhow!("it was not over after {most:?}, the most that --max-time allows"))
        }
    };
    world.sweep();
    // What cannot be written fails in the words of whatever writes it, and the cause is this.
    done.map_err(|error| match world.must_have_room() {
        Err(full)
            if error
                .downcast_ref::<WorldError>()
                .is_none_or(|error| !matches!(error, WorldError::Full { .. })) =>
        {
            error.context(full)
        }
        _ => error,
    })
}

/// From one look at the room that is left to the next.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Ends when the world's directory is full: what is judged after that says nothing about the service.
async fn is_full(world: &World) -> WorldError {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Err(full) = world.must_have_room() {
            return full;
        }
    }
}

fn address_of(url: &http::Uri) -> Result<SocketAddr, ExitCode> {
    let is_http = url.scheme_str().is_none_or(|scheme| scheme == "http");
    let address = url.authority().filter(|_| is_http).and_then(|authority| {
        let port = authority.port_u16().unwrap_or(80);
        match authority.host().trim_matches(['[', ']']) {
            "localhost" => Some(SocketAddr::from(([127, 0, 0, 1], port))),
            host => Some(SocketAddr::new(host.parse().ok()?, port)),
        }
    });
    address.ok_or_else(|| {
        say(format_args!(
            "{url} is not allowed; http://IP:PORT or http://localhost:PORT is (no TLS, no other names)"
        ));
        ExitCode::from(BAD_INPUT)
    })
}

async fn version_of(url: &http::Uri, pointer: Option<String>, means: Vec<(String, u32)>) -> ExitCode {
    let address = match address_of(url) {
        Ok(address) => address,
        Err(code) => return code,
    };
    let means: BTreeMap<String, u32> = means.into_iter().collect();
    match Probe::new(url.path().to_owned(), pointer, means).ask(address).await {
        Ok(version) => print(&format!("{version}\n")),
        Err(why) => {
            say(why);
            ExitCode::from(NOT_RUN)
        }
    }
}
