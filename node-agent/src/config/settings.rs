//! The validated configuration: alternatives are enums, defaults are filled in, constraints between fields hold.

mod store;

use super::address::{Stats, Url};
use super::findings::{Findings, Table};
use super::fragment::{self, Balancer, Check, Healthcheck};
use super::task_hook::{self, TaskHook};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_proto::{Digest, GroupName, HookName, NodeId, Prefix, ReleaseTag, ServiceName, ServiceVersion};

pub use super::fragment::{Artifact, Process};

/// What a node's agent is to do.
#[derive(Debug, Clone)]
pub struct Node {
    /// The node's name.
    pub name: NodeId,
    pub labels: BTreeMap<String, String>,
    /// What must outlive a reboot.
    pub state_dir: PathBuf,
    /// What need not.
    pub runtime_dir: PathBuf,
    /// How long the store waits for the agent.
    pub lease_ttl: Duration,
    pub store: tidegate_store::Endpoints,
    /// What every key begins with.
    pub prefix: Prefix,
    /// The services, by name.
    pub services: BTreeMap<ServiceName, Service>,
    /// The metadata groups, by name.
    pub metadata: BTreeMap<GroupName, MetadataGroup>,
    /// The hooks that a task may name.
    pub hooks: BTreeMap<HookName, TaskHook>,
}

/// What it is to do for one metadata group.
#[derive(Debug, Clone)]
pub struct MetadataGroup {
    pub name: GroupName,
    /// The file that holds the document.
    pub file: PathBuf,
    /// Run when it has changed; at least a program.
    pub hook: Option<Vec<String>>,
    /// How long the hook may take.
    pub timeout: Duration,
}

/// What it is to do for one service.
#[derive(Debug, Clone)]
pub struct Service {
    pub name: ServiceName,
    /// How its version is learned.
    pub probe: Probe,
    /// Answers 200 when it can serve.
    pub ready_url: Url,
    /// What balancers ask.
    pub health_url: Url,
    /// What makes that answer 503.
    pub disable_file: PathBuf,
    /// Between two looks at rest, on average.
    pub interval: Duration,
    /// Between two looks while something moves.
    pub fast_interval: Duration,
    /// How long a question may take.
    pub timeout: Duration,
    /// How many equal answers change the reported health. Of an instance that is in service, answers less than half an
    /// `interval` after each other count as one. After a start of the agent, the first answer counts at once, unless it is a
    /// bad one of such an instance and more than one is needed: its health is unknown until the answers after it decide.
    pub debounce: u32,
    /// Balancers that can be asked.
    pub balancers: Vec<Balancer>,
    /// The balancers' own check.
    pub check: Check,
    /// How requests in flight are counted.
    pub in_flight: Option<InFlight>,
    /// How code is replaced.
    pub driver: Option<Driver>,
    /// What to start when nothing runs and nothing was ever admitted.
    pub initial_release: Option<ReleaseTag>,
    /// Whether what was last admitted here may start while the store is away.
    pub start_without_store: bool,
    pub artifacts: BTreeMap<ReleaseTag, Artifact>,
    /// The health check served here.
    pub healthcheck: Option<Healthcheck>,
}

impl Service {
    /// How long balancers need to see that an instance is back: interval × rise.
    pub fn rise_time(&self) -> Duration {
        Duration::from(self.check.interval) * self.check.rise
    }

    /// The release that carries `version`, where exactly one of the configured ones does.
    pub fn release_of(&self, version: ServiceVersion) -> Option<ReleaseTag> {
        let mut carrying = self.artifacts.iter().filter(|(_, artifact)| artifact.version == version);
        carrying.next().filter(|_| carrying.next().is_none()).map(|(tag, _)| tag.clone())
    }

    /// How long they need to see that it is gone: interval × fall.
    pub fn fall_time(&self) -> Duration {
        Duration::from(self.check.interval) * self.check.fall
    }
}

/// How a version is learned.
#[derive(Debug, Clone)]
pub enum Probe {
    /// A file holds the number.
    File(PathBuf),
    /// An address answers it, whole or at a JSON pointer.
    Http(Url, Option<String>),
    /// A command prints it.
    Command(Vec<String>),
}

/// How requests in flight are counted.
#[derive(Debug, Clone)]
pub enum InFlight {
    /// An address answers the number, whole or at a JSON pointer.
    Http(Url, Option<String>),
    /// Established connections of a local port.
    Tcp(u16),
}

/// How code is replaced.
#[derive(Debug, Clone)]
pub enum Driver {
    /// The agent starts the process itself.
    Process(Process),
    /// Hooks do it.
    Command(Hooks),
}

impl Driver {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Process(_) => "process",
            Self::Command(_) => "command",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Hooks {
    /// Brings new code; absent: the artifact is copied.
    pub stage: Option<Vec<String>>,
    /// Stops what runs.
    pub stop: Vec<String>,
    /// Starts a release.
    pub start: Vec<String>,
    /// Removes a release's code, besides the agent's own copy.
    pub remove: Option<Vec<String>>,
    /// Says by its exit code whether the service runs.
    pub status: Option<Vec<String>>,
    /// How long each may take.
    pub timeout: Duration,
}

/// etcd grants no lease shorter than this (measured: one of 1 s is granted 2 s).
const SHORTEST_LEASE: Duration = Duration::from_secs(2);

/// Settles what was written, or lists everything that does not go together.
pub(super) fn settle(written: fragment::Node) -> Result<Node, Findings> {
    let mut findings = Findings::default();
    let lease_ttl = Duration::from(written.lease_ttl);
    if lease_ttl < SHORTEST_LEASE {
        let what = format!("lease_ttl is {}: at least 2s is allowed", written.lease_ttl);
        findings.field(&["lease_ttl"], what);
    }
    let prefix = match written.store.prefix.as_deref().map(str::parse).transpose() {
        Ok(prefix) => prefix.unwrap_or_default(),
        Err(e) => {
            findings.field(&["store", "prefix"], format!("store.prefix: {e}"));
            Prefix::default()
        }
    };
    let store = store::endpoints(written.store, &mut findings);
    let services: BTreeMap<_, _> = written
        .service
        .into_iter()
        .filter_map(|(name, s)| Some((name.clone(), service(name, s, &mut findings)?)))
        .collect();
    shared_files(&services, &mut findings);
    let metadata = metadata(written.metadata, &mut findings);
    let hooks = task_hook::settle(written.hook, &mut findings);
    if !findings.is_empty() {
        return Err(findings);
    }
    Ok(Node {
        name: written.node,
        labels: written.labels,
        state_dir: written.state_dir.0,
        runtime_dir: written.runtime_dir.0,
        lease_ttl,
        store,
        prefix,
        services,
        metadata,
        hooks,
    })
}

fn metadata(
    written: BTreeMap<GroupName, fragment::Metadata>,
    findings: &mut Findings,
) -> BTreeMap<GroupName, MetadataGroup> {
    let mut owners: BTreeMap<PathBuf, GroupName> = BTreeMap::new();
    let mut groups = BTreeMap::new();
    for (name, group) in written {
        let file = group.file.0;
        let shown = file.display();
        let mut table = Table::of(findings, "metadata", name.as_str());
        if file.file_name().is_none() {
            table.field(&["file"], format!("file {shown} is not a file's path"));
        }
        if group.hook.as_ref().is_some_and(Vec::is_empty) {
            table.field(&["hook"], "hook is empty: name a program with its arguments, or leave it out");
        }
        if let Some(other) = owners.insert(file.clone(), name.clone()) {
            findings.field(
                &["metadata", name.as_str(), "file"],
                format!("metadata groups {other} and {name} share the file {shown}: give each its own"),
            );
        }
        let settled =
            MetadataGroup { name: name.clone(), file, hook: group.hook, timeout: group.timeout.into() };
        groups.insert(name, settled);
    }
    groups
}

fn service(name: ServiceName, s: fragment::Service, findings: &mut Findings) -> Option<Service> {
    let before = findings.len();
    let mut table = Table::of(findings, "service", name.as_str());
    let probe = probe(s.probe, &mut table);
    let in_flight = s.in_flight.and_then(|counted| in_flight(counted, &mut table));
    let driver = s.driver.and_then(|written| driver(written, &mut table));
    for (field, span) in
        [("interval", s.interval), ("fast_interval", s.fast_interval), ("timeout", s.timeout)]
    {
        if span.as_millis() < 10 {
            table.field(&[field], format!("{field} is {span}: at least 10ms is allowed"));
        }
    }
    for (field, count) in [
        (&["debounce"][..], s.debounce),
        (&["check", "fall"][..], s.check.fall),
        (&["check", "rise"][..], s.check.rise),
    ] {
        if !(1..=1000).contains(&count) {
            table.field(field, format!("{} is {count}: 1 to 1000 is allowed", field.join(".")));
        }
    }
    if let Some(tag) = s.initial_release.as_ref() {
        if !s.artifact.contains_key(tag) {
            let what =
                format!("initial_release {tag} has no artifact: add [service.{name}.artifact.\"{tag}\"]");
            table.beside(&[], &["initial_release"], what);
        }
        if driver.is_none() {
            table.beside(&[], &["initial_release"], "initial_release needs a driver that can start it");
        }
    }
    let by_hook = matches!(&driver, Some(Driver::Command(hooks)) if hooks.stage.is_some());
    for (tag, _) in
        s.artifact.iter().filter(|(_, artifact)| !by_hook && artifact.sha256 == Some(Digest::ABSENT))
    {
        table.beside(
            &[],
            &["artifact", tag.as_str(), "sha256"],
            format!(
                "artifact.\"{tag}\".sha256 = \"absent\" needs a stage hook: an artifact that is copied has a sha256; leave the line out"
            ),
        );
    }
    if s.disable_file.as_path().file_name().is_none() {
        let what = format!("disable_file {} is not a file's path", s.disable_file.as_path().display());
        table.field(&["disable_file"], what);
    }
    if findings.len() > before {
        return None;
    }
    Some(Service {
        name,
        probe: probe?,
        ready_url: s.ready_url,
        health_url: s.health_url,
        disable_file: s.disable_file.0,
        interval: s.interval.into(),
        fast_interval: s.fast_interval.into(),
        timeout: s.timeout.into(),
        debounce: s.debounce,
        balancers: s.balancer,
        check: s.check,
        in_flight,
        driver,
        initial_release: s.initial_release,
        start_without_store: s.start_without_store,
        artifacts: s.artifact,
        healthcheck: s.healthcheck,
    })
}

fn probe(written: fragment::Probe, table: &mut Table<'_>) -> Option<Probe> {
    let pointer = pointer("probe", written.pointer, table);
    match (written.file, written.http, written.command) {
        (Some(file), None, None) => Some(Probe::File(file.0)),
        (None, Some(url), None) => Some(Probe::Http(url, pointer)),
        (None, None, Some(argv)) if !argv.is_empty() => Some(Probe::Command(argv)),
        _ => {
            let what = "probe needs exactly one of file, http or command (with at least a program)";
            table.field(&["probe"], what);
            None
        }
    }
}

fn in_flight(written: fragment::InFlight, table: &mut Table<'_>) -> Option<InFlight> {
    let pointer = pointer("in_flight", written.pointer, table);
    match (written.url, written.tcp_port) {
        (Some(url), None) => Some(InFlight::Http(url, pointer)),
        (None, Some(port)) => Some(InFlight::Tcp(port)),
        _ => {
            table.field(&["in_flight"], "in_flight needs exactly one of url or tcp_port");
            None
        }
    }
}

fn pointer(field: &str, written: Option<String>, table: &mut Table<'_>) -> Option<String> {
    if let Some(bad) = written.as_ref().filter(|p| !p.is_empty() && !p.starts_with('/')) {
        let what = format!(
            "{field}.pointer {bad:?} is not a JSON pointer: it begins with a slash, such as /version"
        );
        table.field(&[field, "pointer"], what);
    }
    written
}

fn driver(written: fragment::Driver, table: &mut Table<'_>) -> Option<Driver> {
    match written {
        fragment::Driver::Process(p) if p.argv.is_empty() => {
            let what = "driver.process.argv is empty: name the program to start";
            table.field(&["driver", "process", "argv"], what);
            None
        }
        fragment::Driver::Process(p) => Some(Driver::Process(p)),
        fragment::Driver::Command(h) => {
            let mut hook = |name: &str, argv: Option<Vec<String>>| {
                let argv = argv.filter(|a| !a.is_empty());
                if argv.is_none() {
                    let what =
                        format!("driver.command has no {name} hook: name a program with its arguments");
                    table.beside(&["driver", "command"], &[name], what);
                }
                argv
            };
            let (stop, start) = (hook("stop", h.stop), hook("start", h.start));
            Some(Driver::Command(Hooks {
                stage: h.stage.filter(|a| !a.is_empty()),
                stop: stop?,
                start: start?,
                remove: h.remove.filter(|a| !a.is_empty()),
                status: h.status.filter(|a| !a.is_empty()),
                timeout: h.timeout.into(),
            }))
        }
    }
}

/// Two services with one disable-file would take each other out.
fn shared_files(services: &BTreeMap<ServiceName, Service>, findings: &mut Findings) {
    let mut owners: BTreeMap<&PathBuf, &ServiceName> = BTreeMap::new();
    for service in services.values() {
        if let Some(other) = owners.insert(&service.disable_file, &service.name) {
            let what = format!(
                "services {other} and {} share the disable_file {}: give each its own",
                service.name,
                service.disable_file.display()
            );
            findings.field(&["service", service.name.as_str(), "disable_file"], what);
        }
    }
}

impl std::fmt::Display for Balancer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at: &Stats = &self.stats;
        write!(f, "{}/{} at {at}", self.backend, self.server)
    }
}
