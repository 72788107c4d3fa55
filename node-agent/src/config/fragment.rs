//! The configuration as it is written. Every field has its type, unknown fields are refused; what must hold between
//! fields is checked in `settings`.

use super::address::{AbsolutePath, Listen, Stats, Url};
use serde::Deserialize;
use serde::de::Error as _;
use std::collections::BTreeMap;
use tidegate_proto::{Digest, GroupName, HookName, NodeId, ReleaseTag, ServiceName, ServiceVersion, Span};

/// The whole file.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The node's name; one agent a node.
    pub node: NodeId,
    /// Labels of the node: `zone` and the like.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What must outlive a reboot: journal, nonce, staged releases.
    pub state_dir: AbsolutePath,
    /// What need not: logs of processes that the agent starts.
    pub runtime_dir: AbsolutePath,
    /// How long the store waits for the agent before its reports lapse.
    #[serde(default = "ten_seconds")]
    pub lease_ttl: Span,
    /// Where the store is.
    pub store: Store,
    /// The services of this node.
    #[serde(default)]
    pub service: BTreeMap<ServiceName, Service>,
    /// The metadata groups that it follows.
    #[serde(default)]
    pub metadata: BTreeMap<GroupName, Metadata>,
    /// The hooks that a task may name.
    #[serde(default)]
    pub hook: BTreeMap<HookName, super::task_hook::Written>,
}

fn ten_seconds() -> Span {
    Span::from_secs(10)
}

/// A metadata group that the node follows.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// The file that holds the document.
    pub file: AbsolutePath,
    /// Run when it has changed: program and arguments, with `{file}`, `{group}`, `{generation}`, `{node}`.
    pub hook: Option<Vec<String>>,
    /// How long the hook may take.
    #[serde(default = "one_minute")]
    pub timeout: Span,
}

/// Where the store is and who asks.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// etcd's client URLs.
    pub endpoints: Vec<String>,
    /// What every key begins with.
    pub prefix: Option<String>,
    /// The user, where the store asks for one.
    pub user: Option<String>,
    /// A file that holds the password.
    pub password_file: Option<AbsolutePath>,
    /// A variable of the environment that holds it.
    pub password_env: Option<String>,
    /// TLS, where the store speaks it.
    pub tls: Option<Tls>,
}

/// TLS towards the store.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The authority that signed the store's certificate.
    pub ca: AbsolutePath,
    /// This client's certificate.
    pub cert: Option<AbsolutePath>,
    /// Its key.
    pub key: Option<AbsolutePath>,
    /// The name in the store's certificate, where it is not the host of its URL.
    pub domain: Option<String>,
}

/// One service.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// How the version that runs is learned.
    pub probe: Probe,
    /// Answers 200 when the service can serve.
    pub ready_url: Url,
    /// What the balancers ask.
    pub health_url: Url,
    /// The file that makes `health_url` answer 503.
    pub disable_file: AbsolutePath,
    /// Between two looks at a service at rest, on average: each rest is up to a quarter shorter or longer.
    #[serde(default = "one_second")]
    pub interval: Span,
    /// Between two looks while something moves.
    #[serde(default = "a_tenth")]
    pub fast_interval: Span,
    /// How long a question to the service may take.
    #[serde(default = "two_seconds")]
    pub timeout: Span,
    /// How many equal answers change the reported health. Of an instance that is in service, answers less than half an
    /// `interval` after each other count as one. After a start of the agent, the first answer counts at once, unless it is a
    /// bad one of such an instance and more than one is needed: its health is unknown until the answers after it decide.
    #[serde(default = "two")]
    pub debounce: u32,
    /// The balancers that can be asked.
    #[serde(default)]
    pub balancer: Vec<Balancer>,
    /// The balancers' own check, where they cannot be asked.
    #[serde(default)]
    pub check: Check,
    /// How requests in flight are counted.
    pub in_flight: Option<InFlight>,
    /// How code is replaced; absent: the agent only watches, and drains.
    pub driver: Option<Driver>,
    /// What to start when nothing runs and nothing was ever admitted.
    pub initial_release: Option<ReleaseTag>,
    /// Whether the release last admitted here may be started while the store is away.
    #[serde(default)]
    pub start_without_store: bool,
    /// Where the artifact of each release is.
    #[serde(default)]
    pub artifact: BTreeMap<ReleaseTag, Artifact>,
    /// Serve the health check here, for a service that has none.
    pub healthcheck: Option<Healthcheck>,
}

fn one_second() -> Span {
    Span::from_secs(1)
}
fn two_seconds() -> Span {
    Span::from_secs(2)
}
fn a_tenth() -> Span {
    Span::from_millis(100)
}
fn two() -> u32 {
    2
}

/// How a version is learned: `{file = …}`, `{http = …}` or `{command = […]}`.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// A file that holds the number.
    pub file: Option<AbsolutePath>,
    /// An address that answers it.
    pub http: Option<Url>,
    /// Where in a JSON answer it is (RFC 6901); absent: the whole answer is the number.
    pub pointer: Option<String>,
    /// A command that prints it.
    pub command: Option<Vec<String>>,
}

/// A balancer that can be asked.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Balancer {
    /// Its runtime socket.
    pub stats: Stats,
    /// Its name for the service.
    pub backend: String,
    /// Its name for this instance.
    pub server: String,
    /// Where it sends this instance's requests, for `check`: where that is no port that the agent asks.
    pub address: Option<std::net::SocketAddr>,
}

/// The balancers' check, by HAProxy's words and defaults.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Check {
    /// Between two checks (HAProxy: 2 s).
    pub interval: Span,
    /// Failures before DOWN (HAProxy: 3).
    pub fall: u32,
    /// Successes before UP (HAProxy: 2).
    pub rise: u32,
}

impl Default for Check {
    fn default() -> Self {
        Self { interval: Span::from_secs(2), fall: 3, rise: 2 }
    }
}

/// How requests in flight are counted: `{url = …, pointer = …}` or `{tcp_port = …}`.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InFlight {
    /// An address that answers the number.
    pub url: Option<Url>,
    /// Where in a JSON answer it is.
    pub pointer: Option<String>,
    /// A port of this machine whose established connections are counted.
    pub tcp_port: Option<u16>,
}

/// How code is replaced.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The agent starts the process itself.
    Process(Process),
    /// Hooks do it.
    Command(Hooks),
}

/// A process of the agent.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Program and arguments, with `{release_dir}`, `{tag}`, `{node}`, `{service}`.
    pub argv: Vec<String>,
    /// Its environment, besides the agent's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where it runs; absent: its release's directory.
    pub cwd: Option<AbsolutePath>,
    /// How long it may take to end after SIGTERM, before SIGKILL.
    #[serde(default = "thirty_seconds")]
    pub stop_timeout: Span,
}

fn thirty_seconds() -> Span {
    Span::from_secs(30)
}

/// Hooks, each a program with arguments, with `{release_dir}`, `{tag}`, `{node}`, `{service}`, `{version}`.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// Brings the new code onto the node; absent: the artifact is copied to `{release_dir}`.
    pub stage: Option<Vec<String>>,
    /// Stops what runs.
    pub stop: Option<Vec<String>>,
    /// Starts the release.
    pub start: Option<Vec<String>>,
    /// Removes a release's code.
    pub remove: Option<Vec<String>>,
    /// Says by its exit code whether the service runs, as init scripts do: 0 it runs, 1 to 3 it does not. Asked while the
    /// service does not listen, also before a start: nothing is started beside what it says runs; with `{node}` and
    /// `{service}` only. Absent: that it has ended is not known.
    pub status: Option<Vec<String>>,
    /// How long each may take.
    #[serde(default = "one_minute")]
    pub timeout: Span,
}

fn one_minute() -> Span {
    Span::from_secs(60)
}

/// The artifact of a release.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The file.
    pub source: AbsolutePath,
    /// Its sha256, where it is pinned here too. A stage hook verifies it for a release that no directive named, such as one
    /// that ran before Tidegate; `absent` ([`Digest::ABSENT`]) declares that there is none to verify.
    #[serde(default, deserialize_with = "pinned")]
    #[schemars(with = "Option<tidegate_proto::schema::PinnedDigest>")]
    pub sha256: Option<Digest>,
    /// The service version that it carries.
    pub version: ServiceVersion,
    /// The largest size in bytes that is copied. Default: 4 GiB.
    #[serde(default = "four_gib")]
    pub max_bytes: u64,
}

fn four_gib() -> u64 {
    4 << 30
}

/// A digest, or the word `absent`.
fn pinned<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Digest>, D::Error> {
    let text = String::deserialize(from)?;
    match text.as_str() {
        "absent" => Ok(Some(Digest::ABSENT)),
        _ => text.parse().map(Some).map_err(D::Error::custom),
    }
}

/// The health check served by the agent.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Healthcheck {
    /// Answers `GET /healthcheck` by the service's disable-file.
    pub listen: Option<Listen>,
    /// Further sockets, each with a file of its own (the per-port form).
    #[serde(default)]
    pub files: BTreeMap<Listen, AbsolutePath>,
    /// Answers HAProxy's agent-check.
    pub agent_check: Option<Listen>,
}
