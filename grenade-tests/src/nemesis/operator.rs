//! A person at the command line: starts an upgrade, reads what `explain` says, types the command that it names.

use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tidegate_proto::record::waiting::WaitingFor;

use super::event_log::EventLog;
use crate::world::program;

/// How long a command may take; a person then tries the other coordinator.
const PATIENCE: Duration = Duration::from_secs(10);
/// A command that fails with this code may be tried again: the coordinator is away, or none leads.
const AWAY: i32 = 4;
/// As often a person resumes before they roll back.
const RESUMPTIONS: u32 = 6;
/// Between two commands of a kind, so that what one of them did can be seen first.
const AGAIN: Duration = Duration::from_secs(2);

/// A person.
#[derive(Debug, Clone)]
pub(super) struct Operator {
    coordinators: Vec<SocketAddr>,
    token: PathBuf,
    log: EventLog,
    last: Arc<Mutex<String>>,
}

/// What a command said.
#[derive(Debug)]
pub(super) struct Said {
    code: Option<i32>,
    /// Its answer.
    pub out: String,
    /// Its messages.
    pub err: String,
}

impl Said {
    /// Whether it did what was asked.
    pub(super) fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// Whether trying again may help.
    pub(super) fn is_away(&self) -> bool {
        self.code.is_none_or(|code| code == AWAY)
    }
}

impl Operator {
    /// An operator that knows these coordinators, and has the token of this file.
    pub(super) fn new(coordinators: Vec<SocketAddr>, token: PathBuf, log: &EventLog) -> Self {
        Self { coordinators, token, log: log.clone(), last: Arc::default() }
    }

    /// One command, at the first coordinator that answers.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub(super) async fn ask(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        let mut last = None;
        for coordinator in &self.coordinators {
            let said = self.ask_at(*coordinator, arguments).await?;
            if !said.is_away() {
                return Ok(said);
            }
            last = Some(said);
        }
        last.ok_or_else(|| anyhow::anyhow!("there is no coordinator to ask"))
    }

    async fn ask_at(&self, coordinator: SocketAddr, arguments: &[&str]) -> anyhow::Result<Said> {
        let mut command = tokio::process::Command::new(program::own("tidegate")?);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
            command.env_remove(name);
        }
        command
            .args(["--coordinator", &format!("http://{coordinator}"), "--as", "nemesis", "--token-file"])
            .arg(&self.token)
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let done = match tokio::time::timeout(PATIENCE, command.output()).await {
            Err(_) => return Ok(Said { code: None, out: String::new(), err: "no answer".to_owned() }),
            Ok(done) => done?,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(Said { code: done.status.code(), out: text(&done.stdout), err: text(&done.stderr) })
    }

    /// One command, written to the event log.
    async fn act(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        let said = self.ask(arguments).await?;
        let answer = if said.is_good() { &said.out } else { &said.err };
        let answer: String = answer.lines().next().unwrap_or_default().chars().take(300).collect();
        let line = format!("tidegate {}: {:?} {answer}", arguments.join(" "), said.code);
        // A refused command is retried for a while, and logged once.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != line {
            self.log.log(&line);
            *last = line;
        }
        drop(last);
        Ok(said)
    }

    /// Starts an upgrade.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub(super) async fn start(&self, spec: &str, id: &str) -> anyhow::Result<Said> {
        self.act(&["upgrade", "start", spec, "--id", id]).await
    }

    /// Asks for the rollback.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub(super) async fn roll_back(&self, id: &str) -> anyhow::Result<Said> {
        self.act(&["upgrade", "rollback", id, "--why", "as planned"]).await
    }
}

/// What a person does about one upgrade.
#[derive(Debug)]
pub(super) struct Care {
    operator: Operator,
    id: String,
    approves_after: Duration,
    resumptions: u32,
    /// Since when the same approval is waited for.
    waits: Option<(String, Instant)>,
    acted: Option<(String, Instant)>,
    reasons: Vec<String>,
    kinds: Vec<String>,
}

impl Care {
    /// Of an upgrade; approvals take a while.
    pub(super) fn of(operator: Operator, id: &str, approves_after: Duration) -> Self {
        let id = id.to_owned();
        let (reasons, kinds) = (Vec::new(), Vec::new());
        Self { operator, id, approves_after, resumptions: 0, waits: None, acted: None, reasons, kinds }
    }

    /// What was waited for when it was last asked.
    pub(super) fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// Reads why the upgrade waits, and types one command that helps.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub(super) async fn look(&mut self) -> anyhow::Result<()> {
        let said = self.operator.ask(&["--json", "upgrade", "explain", &self.id]).await?;
        if !said.is_good() {
            self.reasons = vec![format!("explain failed: {}", said.err)];
            return Ok(());
        }
        let explained: Value = serde_json::from_str(&said.out)?;
        let reasons: Vec<WaitingFor> = serde_json::from_value(explained["reasons"].clone())?;
        let mut found: Vec<String> = reasons.iter().map(|reason| reason.blocked_on.clone()).collect();
        found.extend(explained["trouble"].as_str().map(str::to_owned));
        // The kinds of what is waited for change seldom; the numbers in their sentences change all the time.
        let kinds: Vec<String> = reasons.iter().map(|reason| reason.kind.clone()).collect();
        if kinds != self.kinds {
            self.operator.log.log(format!("{} waits: {}", self.id, found.join("; ")));
            self.kinds = kinds;
        }
        self.reasons = found;
        for reason in &reasons {
            let command = reason.next_step.as_deref().unwrap_or_default();
            if let Some(words) = self.advised(&reason.kind, command) {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.operator.act(&words).await?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// The words to type for a command that `explain` names; none = a person waits.
    fn advised(&mut self, kind: &str, command: &str) -> Option<Vec<String>> {
        let first = command.split(',').next().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().skip(1).collect();
        let verb = words.get(..2)?.join(" ");
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        match verb.as_str() {
            "upgrade approve" => {
                let since = match &self.waits {
                    Some((what, since)) if what == first => *since,
                    _ => self.waits.insert((first.to_owned(), Instant::now())).1,
                };
                if since.elapsed() < self.approves_after {
                    return None;
                }
            }
            "upgrade resume" => {
                self.resumptions += 1;
                if self.resumptions > RESUMPTIONS {
                    words = ["upgrade", "rollback", &self.id].map(str::to_owned).to_vec();
                }
                words.extend(["--why", "as advised"].map(str::to_owned));
            }
            // What is stalled by a fault goes on by itself.
            "upgrade rollback" if kind == "stalled" => return None,
            "upgrade rollback" => {
                words.retain(|word| word != "…" && word != "--why");
                words.extend(["--why", "as advised"].map(str::to_owned));
            }
            "upgrade retry" => words.extend(["--why", "as advised"].map(str::to_owned)),
            _ => return None,
        }
        let text = words.join(" ");
        if self.acted.as_ref().is_some_and(|(what, at)| *what == text && at.elapsed() < AGAIN) {
            return None;
        }
        self.acted = Some((text, Instant::now()));
        Some(words)
    }
}
