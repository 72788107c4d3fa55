//! The command lines of `pantry-v1` and `pantry-v2`. Only parses and hands over.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::sample::database::DatabaseUrl;
use crate::sample::edition::Edition;
use crate::sample::image::parse_id;
use crate::sample::seed::{self, MOST_ROWS};
use crate::sample::serve::{ServeOptions, serve};

/// pantry: an image catalogue over its own database, the sample service of Tidegate.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Command {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    serve: Option<ServeArgs>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serves the catalogue; the same as giving these options without a verb.
    Serve(ServeArgs),
    /// Makes the schema of version 1 in an empty database and seeds it.
    Init {
        /// postgres://… or sqlite:PATH
        #[arg(long)]
        database: DatabaseUrl,
        /// Images to seed.
        #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_ROWS)))]
        rows: u32,
    },
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Address to listen on, say 127.0.0.1:9292
    #[arg(long)]
    listen: SocketAddr,
    /// postgres://… or sqlite:PATH
    #[arg(long)]
    database: DatabaseUrl,
    /// Name of the node, 1 to 40 letters, digits, `-`, `_` or `.`
    #[arg(long, value_parser = node_name)]
    node: String,
    /// While this file exists, /healthcheck answers 503
    #[arg(long)]
    disable_file: PathBuf,
    /// Release that this program is run as: `pantry-N.0.0`, N from its own version on
    #[arg(long, value_name = "TAG")]
    release: Option<String>,
    /// Milliseconds until a start may become ready
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    start_delay_ms: u64,
    /// A seeded fault: from this instance on, by order of first start, none becomes ready
    #[arg(long, requires = "start_ledger", value_parser = clap::value_parser!(u32).range(1..))]
    broken_from: Option<u32>,
    /// The only version that has that fault; absent: every one
    #[arg(long, requires = "broken_from")]
    broken_version: Option<u32>,
    /// The file in which starts are counted for --broken-from
    #[arg(long)]
    start_ledger: Option<PathBuf>,
}

/// 40, so that `pantry-api/<version>/<node>` fits PostgreSQL's 63 bytes of `application_name`.
fn node_name(text: &str) -> Result<String, String> {
    match parse_id(text) {
        Ok(name) if name.len() <= 40 => Ok(name),
        _ => Err("1 to 40 letters, digits, `-`, `_` or `.` are allowed".to_owned()),
    }
}

/// Runs the program `name` for one edition.
pub fn main(name: &'static str, edition: &'static Edition) -> ExitCode {
    let matches = Command::command().name(name).version(edition.release).get_matches();
    let command = Command::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let done = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(edition, command)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{name}: {e:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(edition: &'static Edition, command: Command) -> anyhow::Result<()> {
    match (command.verb, command.serve) {
        (Some(Verb::Init { database, rows }), _) => {
            anyhow::ensure!(
                edition.version == 1,
                "only pantry-v1 makes a catalogue: later shapes of the schema come by migration"
            );
            seed::init(&database, rows).await?;
            println!("made a catalogue of {rows} images");
            Ok(())
        }
        (Some(Verb::Serve(args)), _) | (None, Some(args)) => {
            let edition = match &args.release {
                Some(tag) => edition.released_as(tag).map_err(|why| anyhow::anyhow!("--release {why}"))?,
                None => edition,
            };
            serve(edition, args.into_options(edition)).await
        }
        (None, None) => anyhow::bail!("nothing asked for; see --help"),
    }
}

impl ServeArgs {
    fn into_options(self, edition: &Edition) -> ServeOptions {
        let faulty = self.broken_version.is_none_or(|version| version == edition.version);
        let broken = match (self.broken_from.filter(|_| faulty), self.start_ledger) {
            (Some(from), Some(ledger)) => Some((from as usize, ledger)),
            _ => None,
        };
        ServeOptions {
            listen: self.listen,
            database: self.database,
            node: self.node,
            disable_file: self.disable_file,
            start_delay: Duration::from_millis(self.start_delay_ms),
            broken,
        }
    }
}
