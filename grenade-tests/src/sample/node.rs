//! What an operator would write by hand: the configuration of an agent of the sample service.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::balancer::stat::PROXY;
use crate::world::balancer::{CHECK_INTERVAL, FALL, RISE};

/// The service.
pub const SERVICE: &str = "pantry-api";
/// The release that runs.
pub const OLD: &str = "pantry-1.0.0";
/// The release that it is upgraded to.
pub const NEW: &str = "pantry-2.0.0";
/// The name of the program in each release.
pub const PROGRAM: &str = "pantry";
/// Where the coordinator finds the catalogue.
pub const DATABASE_VARIABLE: &str = "PANTRY_DATABASE_URL";

/// What one node's agent must be told.
#[derive(Debug, Clone)]
pub struct NodeConfig<'a> {
    /// The node.
    pub node: &'a str,
    /// Its own directory.
    pub home: PathBuf,
    /// Where its instance listens.
    pub address: SocketAddr,
    /// The catalogue.
    pub database: &'a str,
    /// The store.
    pub store: &'a [String],
    /// The balancer's socket.
    pub balancer: &'a Path,
    /// The directory of artifacts.
    pub artifacts: &'a Path,
    /// From which instance on version 2 is broken, and the file that counts starts.
    pub broken: Option<(u32, PathBuf)>,
}

impl NodeConfig<'_> {
    /// What takes its instance out of rotation.
    pub fn disable_file(&self) -> PathBuf {
        self.home.join("pantry-api.disable")
    }

    fn argv(&self) -> Vec<String> {
        let mut argv = vec![
            format!("{{release_dir}}/{PROGRAM}"),
            "--listen".to_owned(),
            self.address.to_string(),
            "--database".to_owned(),
            self.database.to_owned(),
            "--node".to_owned(),
            "{node}".to_owned(),
            "--disable-file".to_owned(),
            self.disable_file().display().to_string(),
        ];
        if let Some((from, ledger)) = &self.broken {
            argv.extend(["--broken-from".to_owned(), from.to_string(), "--broken-version".to_owned()]);
            argv.extend(["2".to_owned(), "--start-ledger".to_owned(), ledger.display().to_string()]);
        }
        argv
    }

    /// The file, as TOML.
    pub fn toml(&self) -> String {
        self.toml_with(&self.argv())
    }

    /// The same, where programs are told their release: one program is several of them.
    pub fn toml_naming_releases(&self) -> String {
        let mut argv = self.argv();
        argv.extend(["--release", "{tag}"].map(str::to_owned));
        self.toml_with(&argv)
    }

    fn toml_with(&self, argv: &[String]) -> String {
        let at = |path: &str| quoted(&format!("http://{}{path}", self.address));
        let artifact = |tag: &str, version: u32| {
            let source = path(&self.artifacts.join(tag).join(PROGRAM));
            format!("[service.{SERVICE}.artifact.{tag:?}]\nsource = {source}\nversion = {version}\n")
        };
        format!(
            "# The agent of one node of the demo; `tidegate-agent init` explains every field.\n\
             node = {node}\nlabels = {{ zone = \"demo\" }}\nstate_dir = {state}\nruntime_dir = {runtime}\n\n\
             [store]\nendpoints = {store}\n\n\
             [service.{SERVICE}]\nprobe = {{ http = {version}, pointer = \"/version\" }}\n\
             ready_url = {ready}\nhealth_url = {health}\ndisable_file = {disable}\n\
             in_flight = {{ url = {in_flight}, pointer = \"/in_flight\" }}\n\
             check = {{ interval = \"{interval}ms\", fall = {FALL}, rise = {RISE} }}\n\
             initial_release = \"{OLD}\"\n\n\
             [[service.{SERVICE}.balancer]]\nstats = {stats}\nbackend = {backend}\nserver = {node}\n\n\
             [service.{SERVICE}.driver.process]\nargv = {argv}\nstop_timeout = \"20s\"\n\n{one}\n{two}",
            node = quoted(self.node),
            state = path(&self.home.join("state")),
            runtime = path(&self.home.join("run")),
            store = json!(self.store),
            version = at("/version"),
            ready = at("/ready"),
            health = at("/healthcheck"),
            disable = path(&self.disable_file()),
            in_flight = at("/in-flight"),
            interval = CHECK_INTERVAL.as_millis(),
            backend = quoted(PROXY),
            stats = quoted(&format!("unix:{}", self.balancer.display())),
            argv = json!(argv),
            one = artifact(OLD, 1),
            two = artifact(NEW, 2),
        )
    }
}

/// A text in quotes: JSON's are TOML's basic strings.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}
