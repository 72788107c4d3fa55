//! The command line: `init`, `check`, `run`, `admit`, `completion`.

mod check;

use crate::admit::{Candidate, NotAdmitted, admit};
use crate::config::{self, example};
use crate::instance::Fatal;
use crate::replace::launch;
use crate::task::run;
use crate::{agent, identity};
use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tidegate_proto::form::Finding;
use tidegate_proto::printable::{one_line, to_stderr};
use tidegate_proto::{Chain, InstanceId, Revision, ServiceName, ServiceVersion};

/// The daemon on each node: reports the version that really runs, takes the node out of rotation and back, replaces
/// the code, and refuses what is too old or too new. The services that it manages outlive it.
#[derive(Debug, Parser)]
#[command(name = "tidegate-agent", version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

const EXIT_CODES: &str = "Exit codes:
  0  done, or ended on a signal
  1  could not go on; the message says why
  2  the configuration has findings, or the arguments are wrong
  3  admission refused: the version is outside the window
  4  another agent has this node's name, or this state directory

A first use:
  tidegate-agent init --node node-1 > agent.toml    # then edit it
  tidegate-agent check --config agent.toml
  tidegate-agent run --config agent.toml

An instance that runs already is adopted: probed, admitted, reported; it is not taken out of rotation for that.";

const CONFIG: &str = "/etc/tidegate/agent.toml";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print a commented configuration to begin with.
    Init {
        /// The node's name.
        #[arg(long, default_value = "node-1")]
        node: tidegate_proto::NodeId,
        /// Write it to this file instead; one that exists is kept.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Say whether this node is able to do what its configuration asks for. Lists every finding.
    ///
    /// Tried: directories, the store, artifacts, programs and hooks (there and executable), the version probe, ready_url,
    /// health_url, disable_file (not another instance's), each balancer and where its server is, and the status hook, which
    /// is run. Nothing is changed. Whether disable_file turns health_url to 503 is measured by the first drain.
    Check(Configured),
    /// Look after the services of this node, until SIGTERM or Ctrl-C.
    Run(Configured),
    /// Ask whether a version of a service may start here, and have it admitted. For `ExecStartPre=`; needs no
    /// running agent.
    Admit {
        #[command(flatten)]
        configured: Configured,
        /// The service.
        #[arg(long)]
        service: ServiceName,
        /// Its service version, a whole number.
        #[arg(long)]
        version: ServiceVersion,
    },
    /// Print the JSON Schema of the configuration, with which editors complete and check it.
    Schema,
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page for each command.
    Man {
        /// Directory for the pages; it is created where it is missing.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// How the agent calls itself to wait for the hook of a task.
    #[command(name = run::WORD, hide = true)]
    RunTask {
        /// Where it is written down how the hook ended.
        #[arg(long)]
        directory: PathBuf,
        /// How long the hook may take.
        #[arg(long)]
        limit_ms: u64,
        /// The hook.
        #[arg(last = true)]
        argv: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Configured {
    /// The configuration.
    #[arg(long, short, env = "TIDEGATE_AGENT_CONFIG", default_value = CONFIG, value_name = "FILE")]
    config: PathBuf,
}

/// How long the agent waits at its end for what writes to the disk in the background.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    // Before anything else is made ready: it is on the way of every start and every hook.
    if let Some(argv) = launch::asked() {
        let error = launch::become_service(&argv);
        to_stderr(format_args!("tidegate-agent: could not start {argv:?}: {error}"));
        return ExitCode::from(127);
    }
    let arguments = Arguments::parse();
    if let Verb::RunTask { directory, limit_ms, argv } = &arguments.command {
        // Its output is read by no one: a missing outcome shows the failure.
        let ran = run::become_runner(directory, Duration::from_millis(*limit_ms), argv);
        return if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match dispatch(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            let lines = match error.downcast_ref::<config::NotAConfig>() {
                Some(refused) => refused.lines(),
                None => vec![Chain(error.as_ref()).to_string()],
            };
            lines.iter().for_each(|line| to_stderr(format_args!("tidegate-agent: {}", one_line(line))));
            ExitCode::from(code_of(&error))
        }
    }
}

/// A service of the command line that the configuration does not name.
#[derive(Debug, thiserror::Error)]
#[error("the configuration names no service {service}; it names {}", .known.join(", "))]
struct NoSuchService {
    service: ServiceName,
    known: Vec<String>,
}

fn code_of(error: &anyhow::Error) -> u8 {
    if error.is::<config::NotAConfig>() || error.is::<NoSuchService>() {
        return 2;
    }
    let refused = matches!(error.downcast_ref(), Some(NotAdmitted::Refused(_)));
    let held = matches!(error.downcast_ref(), Some(NotAdmitted::Held { .. }))
        || matches!(error.downcast_ref(), Some(Fatal::Held(_)))
        || matches!(error.downcast_ref(), Some(identity::NotHeld::Busy { .. }));
    match (refused, held) {
        (true, _) => 3,
        (_, true) => 4,
        _ => 1,
    }
}

fn dispatch(command: Verb) -> anyhow::Result<ExitCode> {
    match command {
        Verb::Init { node, output } => init(node.as_str(), output.as_deref()),
        Verb::Check(configured) => {
            let node = config::load(&configured.config)?;
            runtime()?.block_on(check::check(&node, &configured.config))
        }
        Verb::Run(configured) => {
            let node = config::load(&configured.config)?;
            let findings: Vec<_> =
                check::cannot_disable(&node).into_iter().map(Finding::without_place).collect();
            if !findings.is_empty() {
                return Err(config::NotAConfig::Wrong { path: configured.config, findings }.into());
            }
            trace();
            for finding in check::open_to_others(&node) {
                tracing::warn!("{finding}");
            }
            let runtime = runtime()?;
            let ran = runtime.block_on(agent::run(node));
            // A copy of an artifact that is under way is begun again by the next agent; nothing waits for its end.
            runtime.shutdown_timeout(SHUTDOWN);
            ran.map(|()| ExitCode::SUCCESS)
        }
        Verb::Admit { configured, service, version } => {
            runtime()?.block_on(admit_one(&configured.config, service, version))
        }
        Verb::Schema => {
            print(&format!("{:#}\n", config::schema()))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "tidegate-agent", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Man { directory } => {
            let wrote = std::fs::create_dir_all(&directory)
                .and_then(|()| clap_mangen::generate_to(Arguments::command(), &directory));
            wrote.with_context(|| format!("could not write man pages to {}", directory.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::RunTask { .. } => Ok(ExitCode::FAILURE),
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // One worker: an agent waits nearly always, and whatever one thread hands to another wakes a core. What waits for the
    // disk says so (`block_in_place`), and the rest goes on beside it.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("could not start the runtime")
}

fn trace() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // Colours are off: an event is one line of plain text, whatever it quotes.
    let stderr = || tidegate_proto::printable::OneLineEach(std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(stderr).init();
}

/// Writes to stdout. A reader that closed its end is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("could not write the output")
        }
        _ => Ok(()),
    }
}

fn init(node: &str, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let text = example::text(node);
    match output {
        None => print(&text)?,
        Some(path) => {
            crate::durable::create(path, text.as_bytes())
                .with_context(|| format!("could not write {}", path.display()))?;
            let path = path.display();
            print(&format!("wrote {path}: edit it, then run `tidegate-agent check --config {path}`\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn admit_one(path: &Path, service: ServiceName, version: ServiceVersion) -> anyhow::Result<ExitCode> {
    let node = config::load(path)?;
    let settings = node.services.get(&service).ok_or_else(|| NoSuchService {
        service: service.clone(),
        known: node.services.keys().map(ToString::to_string).collect(),
    })?;
    let release = settings.release_of(version);
    std::fs::create_dir_all(&node.state_dir)
        .with_context(|| format!("could not make {}", node.state_dir.display()))?;
    let identity = identity::read(&node.state_dir)?;
    let store = tidegate_store::Store::connect(&node.store, node.prefix.clone()).await?;
    let instance = InstanceId::new(service, node.name.clone());
    let candidate = Candidate {
        instance: &instance,
        version,
        release,
        labels: &node.labels,
        identity: &identity,
        known: Revision::ABSENT,
        obeyed: Revision::ABSENT,
        accepted: Revision::ABSENT,
        shown: None,
    };
    match admit(&store, &candidate).await {
        Ok(admission) => {
            let revision = admission.revision;
            // The exit code is the answer, and the admission stands: a line that is lost changes neither.
            let _ = print(&format!("{instance} admitted at version {version} (admission {revision})\n"));
            Ok(ExitCode::SUCCESS)
        }
        // `main` prints its causes.
        Err(error) => Err(anyhow::Error::new(error).context(format!("{instance} may not start"))),
    }
}
