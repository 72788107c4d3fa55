//! The service of a gate file.

use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use tidegate_proto::{ServiceName, ServiceVersion, Span};

use crate::gate::file::command::{Command, OF_NODE, command, commands};
use crate::gate::file::level;
use crate::gate::file::source::{Commit, Source};
use crate::gate::written::{self, Counter, VersionProbe};
use crate::load::exchange;
use crate::load::findings::Findings;
use crate::load::template::{Template, known};

/// One version of the service.
#[derive(Debug, Clone)]
pub struct Version {
    /// Its number.
    pub number: ServiceVersion,
    /// How it is started.
    pub command: Command,
    /// Its environment.
    pub env: Vec<(String, Template)>,
    /// Where its code is.
    pub source: Source,
}

impl Version {
    /// Whether the other one is started by the same words in the same environment.
    pub fn starts_like(&self, other: &Self) -> bool {
        self.command.has_words_of(&other.command) && self.env == other.env
    }
}

/// The service.
#[derive(Debug)]
pub struct Service {
    /// Its name.
    pub name: ServiceName,
    /// What runs before.
    pub base: Version,
    /// What it is upgraded to.
    pub target: Version,
    /// How the version that runs is learned.
    pub version: VersionProbe,
    /// Answers 200 when an instance can serve.
    pub ready: String,
    /// What balancers ask; absent: the agent serves it.
    pub health: Option<String>,
    /// How requests in flight are counted.
    pub in_flight: Option<Counter>,
    /// How long a start may take.
    pub start_timeout: Duration,
    /// How long a stop may take.
    pub stop_timeout: Span,
    /// Says which version answered.
    pub version_header: Option<String>,
}

/// Checks it; `of_service` are the places of commands of the whole service.
pub fn service(
    written: written::Service,
    here: &Path,
    of_service: &[&str],
    findings: &mut Findings,
) -> Option<Service> {
    let (base, target) = (
        version("service.base", written.base, here, of_service, findings),
        version("service.target", written.target, here, of_service, findings),
    );
    for (field, path) in [
        ("service.ready", Some(&written.ready)),
        ("service.version.path", Some(&written.version.path)),
        ("service.health", written.health.as_ref()),
        ("service.in_flight.path", written.in_flight.as_ref().map(|counter| &counter.path)),
    ] {
        let Some(path) = path else { continue };
        if !path.starts_with('/') || path.parse::<PathAndQuery>().is_err() {
            findings.add(field, format!("`{path}` is no path; one that begins with `/` is allowed"));
        }
    }
    if let Some(pointer) = &written.version.pointer {
        exchange::is_pointer("service.version.pointer", pointer, findings);
    }
    if let Some(pointer) = written.in_flight.as_ref().and_then(|counter| counter.pointer.as_ref()) {
        exchange::is_pointer("service.in_flight.pointer", pointer, findings);
    }
    for (field, span) in [("start_timeout", written.start_timeout), ("stop_timeout", written.stop_timeout)] {
        if span.as_millis() < 1_000 {
            findings.add(&format!("service.{field}"), "at least 1s is allowed");
        }
    }
    let (base, target) = (base?, target?);
    level::check(base.number, target.number, written.skip_level, findings);
    let means = &written.version.means;
    if !means.is_empty() {
        for number in [base.number, target.number] {
            if !means.values().any(|meant| *meant == number) {
                findings.add("service.version.means", format!("no answer means {number}"));
            }
        }
    }
    Some(Service {
        name: written.name,
        base,
        target,
        version: written.version,
        ready: written.ready,
        health: written.health,
        in_flight: written.in_flight,
        start_timeout: Duration::from_millis(written.start_timeout.as_millis()),
        stop_timeout: written.stop_timeout,
        version_header: written.version_header,
    })
}

/// Where an instance listens: one of these places must be in the command or the environment of a version.
const LISTENS: [&str; 2] = ["port", "address"];

fn version(
    field: &str,
    written: written::Version,
    here: &Path,
    of_service: &[&str],
    findings: &mut Findings,
) -> Option<Version> {
    let source = source(field, &written, here, findings);
    let of_service = of_service.iter().copied().filter(|place| !place.ends_with("_source"));
    let mut places: Vec<&str> = OF_NODE.into_iter().chain(of_service).collect();
    places.retain(|place| *place != "source" || source.is_some());
    let command = command(&format!("{field}.command"), &written.command, &places, findings);
    let mut env = Vec::new();
    for (name, text) in &written.env {
        let field = format!("{field}.env.{name}");
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            findings
                .add(&field, format!("`{name}` is no name of a variable; letters, digits and _ are allowed"));
            continue;
        }
        if let Some(value) = findings.good(&field, Template::parse(text)) {
            known(&field, value.variables(), &places, findings);
            env.push((name.clone(), value));
        }
    }
    let listens = |value: &Template| value.variables().any(|place| LISTENS.contains(&place));
    let is_in_env = env.iter().any(|(_, value)| listens(value));
    if command.as_ref().is_some_and(|command| !command.reads(&LISTENS) && !is_in_env) {
        let what = "has neither {port} nor {address}, nor has `env`: each instance must know where to listen";
        findings.add(&format!("{field}.command"), what);
    }
    Some(Version { number: written.number, command: command?, env, source })
}

fn source(field: &str, written: &written::Version, here: &Path, findings: &mut Findings) -> Source {
    let build = commands(&format!("{field}.build"), &written.build, &["source", "here", "bin"], findings);
    if !build.is_empty() && written.git.is_none() {
        findings.add(&format!("{field}.build"), "is for a version from `git`");
    }
    match (&written.directory, &written.git) {
        (Some(_), Some(_)) => {
            findings.add(field, "has both `directory` and `git`");
            Source::None
        }
        (Some(directory), None) => {
            let directory = here.join(directory);
            if !directory.is_dir() {
                findings
                    .add(&format!("{field}.directory"), format!("{} is no directory", directory.display()));
            }
            Source::Directory(directory)
        }
        (None, Some(reference)) => Source::Git(Commit::new(reference.clone(), build)),
        (None, None) => Source::None,
    }
}
