//! `grenade compat`: runs a compatibility suite for a pair of tags, and records its verdict in the coordinator.

mod log;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::wire::v1::{ListEvidenceRequest, RecordEvidenceRequest};
use tidegate_proto::{Digest, ReleaseTag};
use tokio::time::Instant;

use self::log::{Log, LogError};
use crate::gate::exit::{BAD_INPUT, INTERRUPTED, NOT_RUN, print, say, span};
use crate::gate::reach::{self, Reach, Unasked};
use crate::world::World;
use crate::world::interrupt::Interrupt;

/// The tag of the compute release, for the suite.
pub const COMPUTE: &str = "TIDEGATE_COMPUTE_TAG";
/// The tag of the storage release, for the suite.
pub const STORAGE: &str = "TIDEGATE_STORAGE_TAG";

/// How long a suite may take to end once it was asked to, before it is killed.
const GENTLE: Duration = Duration::from_secs(10);
/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How many lines of the log are shown where it did not pass, and how many bytes at most.
const TAIL: (usize, usize) = (20, 8 * 1024);
/// The form of the JSON; raised when a field changes its meaning.
const FORM: u32 = 1;

const AFTER: &str = "\
The command has TIDEGATE_COMPUTE_TAG and TIDEGATE_STORAGE_TAG in its environment. Its exit code 0 is a pass; another
code, a signal and the end of --max-time are a fail. A release that waits for this evidence goes out when it passes.
The verdict that was recorded last counts; those before it are kept, and `grenade matrix` shows how many there are.

Exit codes:
  0    it passed, and that is recorded
  1    it failed, and that is recorded
  3    the command line is wrong; nothing was started
  4    the command could not be started, or no coordinator recorded the verdict
  130  interrupted; nothing is recorded";

/// Options of `grenade compat`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Compat {
    /// Tag of the compute release
    #[arg(long, value_name = "TAG")]
    compute_tag: ReleaseTag,
    /// Tag of the storage release
    #[arg(long, value_name = "TAG")]
    storage_tag: ReleaseTag,
    /// File for the command's output; it must not exist. Default: grenade-compat-COMPUTE-STORAGE-DIGEST.log, by its sha256
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Time limit for the command; what runs longer fails
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = span)]
    max_time: Duration,
    /// One line of detail to record. Default: the command, how it ended, and after how long
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
    /// The suite and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How the suite ended.
enum Ended {
    Passed,
    /// With why.
    Failed(String),
    /// By which signal we were asked to end.
    Interrupted(String),
}

/// The output.
#[derive(Debug, Serialize)]
struct Output<'a> {
    form: u32,
    compute_tag: &'a ReleaseTag,
    storage_tag: &'a ReleaseTag,
    verdict: Verdict,
    note: String,
    seconds: f64,
    log: &'a Path,
    log_sha256: Digest,
    /// Whether the coordinator has it.
    recorded: bool,
    /// What is strange about the tags, as the coordinator says.
    warnings: Vec<String>,
}

impl Compat {
    /// Runs the suite and records what it found.
    pub async fn run(self) -> ExitCode {
        // A suite may take an hour: a coordinator that cannot record its verdict is found before it.
        if let Err(error) = self.is_known().await {
            return error.exit();
        }
        let room = match tempfile::tempdir() {
            Ok(room) => room,
            Err(error) => return failed(NOT_RUN, &format!("could not make a temporary directory: {error}")),
        };
        // Whatever the suite leaves behind is a descendant of this process, and ends with the world.
        let (world, mut interrupt) = match (World::alone(room.path()), Interrupt::listen()) {
            (Ok(world), Ok(interrupt)) => (world, interrupt),
            (Err(error), _) | (_, Err(error)) => return failed(NOT_RUN, &error.to_string()),
        };
        let began = Instant::now();
        let (log, mut suite) = match self.start() {
            Ok(started) => started,
            Err(code) => return code,
        };
        let ended = self.ends(&mut suite, &mut interrupt).await;
        let took = began.elapsed();
        world.sweep();
        let (verdict, how) = match ended {
            Ended::Passed => (Verdict::Pass, "exit status 0".to_owned()),
            Ended::Failed(how) => (Verdict::Fail, how),
            Ended::Interrupted(signal) => {
                let kept = log.keep().map_or_else(
                    |error| format!("and its output is lost: {error}"),
                    |kept| format!("its output is in {}", kept.display()),
                );
                return failed(INTERRUPTED, &format!("interrupted by {signal}; nothing is recorded, {kept}"));
            }
        };
        let (log, log_sha256) = match log.settle() {
            Ok(settled) => settled,
            Err(error) => return failed(NOT_RUN, &format!("{error}; nothing is recorded")),
        };
        let ran = || format!("{}: {how} after {}", self.command.join(" "), reach::seconds(took));
        let note = reach::note(&self.note.clone().unwrap_or_else(ran));
        let (compute_tag, storage_tag) = (&self.compute_tag, &self.storage_tag);
        let output = Output {
            form: FORM,
            compute_tag,
            storage_tag,
            verdict,
            note,
            seconds: took.as_secs_f64(),
            log: &log,
            log_sha256,
            recorded: false,
            warnings: Vec::new(),
        };
        self.record(output).await
    }

    /// Asks whether a coordinator is there, and knows what it is asked of.
    async fn is_known(&self) -> Result<(), Unasked> {
        let asked = ListEvidenceRequest {
            compute_tag: self.compute_tag.to_string(),
            storage_tag: self.storage_tag.to_string(),
        };
        let mut releases = self.reach.connect().await?.releases();
        releases.list_evidence(asked).await.map(drop).map_err(|status| self.reach.refused(&status))
    }

    /// Starts it in a group of its own, with its output in the log.
    fn start(&self) -> Result<(Log, Child), ExitCode> {
        let unwritable = |error: LogError| failed(BAD_INPUT, &error.to_string());
        let (log, out) =
            Log::begin(self.log.as_deref(), &self.compute_tag, &self.storage_tag).map_err(unwritable)?;
        let path = log.path().to_owned();
        let err = out.try_clone().map_err(|error| unwritable(LogError::Unwritable { path, error }))?;
        // clap demands one word at least.
        let (program, arguments) = self.command.split_first().ok_or(ExitCode::from(BAD_INPUT))?;
        say(format_args!("running {}; output: {}", self.command.join(" "), log.path().display()));
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env(COMPUTE, self.compute_tag.as_str())
            .env(STORAGE, self.storage_tag.as_str())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        // Where nothing ran there is no log.
        let suite = command.spawn().map_err(|error| {
            failed(NOT_RUN, &format!("could not start {program}: {error}; nothing is recorded"))
        })?;
        Ok((log, suite))
    }

    /// Waits for its end; asks it to end, and then kills it, when its time is over or we are interrupted.
    async fn ends(&self, suite: &mut Child, interrupt: &mut Interrupt) -> Ended {
        let ended = tokio::select! {
            ended = end_of(suite) => return ended,
            signal = interrupt.interrupted() => Ended::Interrupted(match signal {
                crate::world::WorldError::Interrupted(signal) => signal.to_owned(),
                other => other.to_string(),
            }),
            () = tokio::time::sleep(self.max_time) => {
                Ended::Failed(format!("not over within {} (--max-time)", reach::limit(self.max_time)))
            }
        };
        // It may have ended meanwhile; then there is no group.
        let _ = kill_process_group(Pid::from_child(suite), Signal::INT);
        let _ = tokio::time::timeout(GENTLE, end_of(suite)).await;
        ended
    }

    async fn record(&self, output: Output<'_>) -> ExitCode {
        let asked = RecordEvidenceRequest {
            compute_tag: output.compute_tag.to_string(),
            storage_tag: output.storage_tag.to_string(),
            verdict: output.verdict.to_string(),
            note: output.note.clone(),
            who: self.reach.who(),
            log_sha256: output.log_sha256.to_string(),
        };
        let recorded = self
            .reach
            .insist(async |connection| connection.releases().record_evidence(asked.clone()).await)
            .await;
        let (output, failure) = match recorded {
            Ok(reply) => (Output { recorded: true, warnings: reply.into_inner().warnings, ..output }, None),
            Err(error) => (output, Some(error)),
        };
        output.warnings.iter().for_each(|warning| say(format_args!("warning: {warning}")));
        let said = match self.json {
            true => serde_json::to_string(&output).unwrap_or_default() + "\n",
            false => self.text(&output),
        };
        let printed = print(&said);
        if let Some(error) = failure {
            say(format_args!("the verdict is not recorded: {error}"));
            say(format_args!(
                "to record it later: tidegate release evidence {} {} {} --log-sha256 {}",
                output.compute_tag, output.storage_tag, output.verdict, output.log_sha256
            ));
            return ExitCode::from(NOT_RUN);
        }
        match output.verdict {
            _ if printed != ExitCode::SUCCESS => printed,
            Verdict::Pass => ExitCode::SUCCESS,
            Verdict::Fail | Verdict::Inconclusive => ExitCode::FAILURE,
        }
    }

    fn text(&self, output: &Output<'_>) -> String {
        let verdict = output.verdict.word().to_uppercase();
        let mut text = format!("{verdict}  {} with {}\n", output.compute_tag, output.storage_tag);
        text.push_str(&format!("      {}\n", output.note));
        text.push_str(&format!("      log: {} (sha256 {})\n", output.log.display(), output.log_sha256));
        if output.recorded {
            text.push_str(&format!("      recorded at {}\n", self.reach.url()));
        }
        if output.verdict != Verdict::Pass {
            text.push_str(&tail(output.log));
        }
        text
    }
}

/// Says why, and how to exit.
fn failed(code: u8, why: &str) -> ExitCode {
    say(why);
    ExitCode::from(code)
}

async fn end_of(suite: &mut Child) -> Ended {
    loop {
        match suite.try_wait() {
            Ok(None) => tokio::time::sleep(LOOK_EVERY).await,
            Ok(Some(status)) if status.success() => return Ended::Passed,
            Ok(Some(status)) => return Ended::Failed(how(status)),
            Err(error) => return Ended::Failed(format!("its end could not be seen: {error}")),
        }
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// The last lines of the log, indented.
fn tail(log: &Path) -> String {
    let (most, bytes) = TAIL;
    let all = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&all[all.len().saturating_sub(bytes)..]).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(most)..];
    let shown = last.iter().map(|line| format!("      | {}\n", tidegate_proto::printable::one_line(line)));
    shown.collect()
}
