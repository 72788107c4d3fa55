//! Two fleets of the same size and kind: one whose nodes have agents, one that the shell loop looks after. The same two
//! hooks stop and start an instance of either.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tidegate_proto::Digest;

use crate::fixture::node::SERVICE;
use crate::world::{World, port, program, wait};

/// What each hook sleeps.
pub(super) const HOOK: Duration = Duration::from_millis(200);
/// How long a fleet may take to answer.
const READY: Duration = Duration::from_secs(60);

/// One place where an instance lives.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its node.
    pub node: String,
    /// Its directory.
    pub home: PathBuf,
    /// Where its instance answers.
    pub address: SocketAddr,
}

impl Place {
    fn disable_file(&self) -> PathBuf {
        self.home.join("disable")
    }
}

/// The files that both fleets share.
#[derive(Debug)]
pub(super) struct Fleets {
    stop: PathBuf,
    start: PathBuf,
    artifacts: PathBuf,
    versions: u32,
}

/// The tag of the release with a version.
pub(super) fn tag(version: u32) -> String {
    format!("service-{version}.0.0")
}

impl Fleets {
    /// Writes hooks and the artifacts of `versions` releases.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn build(world: &World, versions: u32) -> anyhow::Result<Self> {
        let artifacts = world.path("artifacts");
        std::fs::create_dir_all(&artifacts).context("could not make the directory of artifacts")?;
        for version in 1..=versions {
            std::fs::write(artifacts.join(tag(version)), artifact(version))
                .context("could not write an artifact")?;
        }
        let (stop, start) = (world.path("stop.sh"), world.path("start.sh"));
        let seconds = HOOK.as_secs_f64();
        // The arguments: the instance's directory, its address, the version. What they do beside sleeping is as little
        // as can be: it counts as no side's overhead.
        let ended = format!("read -r pid <\"$1/pid\"\nkill \"$pid\"\nexec sleep {seconds}\n");
        let begun = format!(
            "{service} --listen \"$2\" --carries \"$3\" --disable-file \"$1/disable\" >>\"$1/log\" 2>&1 </dev/null &\n\
             echo $! >\"$1/pid\"\nexec sleep {seconds}\n",
            service = shell(&program::own("tidegate-bench-service")?),
        );
        std::fs::write(&stop, ended).context("could not write the stop hook")?;
        std::fs::write(&start, begun).context("could not write the start hook")?;
        Ok(Self { stop, start, artifacts, versions })
    }

    /// Free places for a fleet.
    ///
    /// # Errors
    /// When no port is free or a directory cannot be made.
    pub(super) fn places(world: &World, fleet: &str, count: u32) -> anyhow::Result<Vec<Place>> {
        let place = |n| {
            let node = format!("{fleet}-{n:02}");
            let home = world.path("nodes").join(&node);
            std::fs::create_dir_all(&home).context("could not make a node's directory")?;
            Ok(Place { node, home, address: port::free()? })
        };
        (1..=count).map(place).collect()
    }

    /// The digest of the release with a version.
    pub(super) fn digest(version: u32) -> Digest {
        Digest::of(artifact(version).as_bytes())
    }

    /// The configuration of the agent at a place. No wait is configured: there is no balancer to wait for, so the
    /// shortest check is set.
    pub(super) fn agent(&self, place: &Place, store: &[String]) -> String {
        let at = |path: &str| text(format!("http://{}{path}", place.address));
        let hook = |script: &Path, version: &str| {
            json!(["/bin/sh", script, place.home, place.address.to_string(), version]).to_string()
        };
        let artifacts: String = (1..=self.versions)
            .map(|version| {
                let (tag, source) = (tag(version), path(&self.artifacts.join(tag(version))));
                format!("[service.{SERVICE}.artifact.{tag:?}]\nsource = {source}\nversion = {version}\n")
            })
            .collect();
        format!(
            "node = {node}\nstate_dir = {state}\nruntime_dir = {run}\n\n[store]\nendpoints = {store}\n\n\
             [service.{SERVICE}]\nprobe = {{ http = {version} }}\nready_url = {ready}\nhealth_url = {health}\n\
             disable_file = {disable}\nin_flight = {{ url = {in_flight} }}\n\
             check = {{ interval = \"0s\", fall = 1, rise = 1 }}\ninitial_release = {first}\n\n\
             [service.{SERVICE}.driver.command]\nstop = {stop}\nstart = {start}\n\n{artifacts}",
            node = text(&place.node),
            state = path(&place.home.join("state")),
            run = path(&place.home.join("run")),
            store = json!(store),
            version = at("/version"),
            ready = at("/ready"),
            health = at("/healthcheck"),
            in_flight = at("/in-flight"),
            disable = path(&place.disable_file()),
            first = text(tag(1)),
            stop = hook(&self.stop, "{version}"),
            start = hook(&self.start, "{version}"),
        )
    }

    /// What a person writes who has no coordinator: batch by batch, side by side within a batch, and on the same
    /// evidence. Its arguments: the version, then the sizes of the batches; the places are a list in a file.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn shell_loop(&self, world: &World, places: &[Place]) -> anyhow::Result<PathBuf> {
        let list: String =
            places.iter().map(|place| format!("{} {}\n", place.home.display(), place.address)).collect();
        let (nodes, script) = (world.path("shell-nodes"), world.path("loop.sh"));
        std::fs::write(&nodes, list).context("could not write the list of the shell's nodes")?;
        let text = format!(
            "set -eu\nversion=$1; shift\n\
             status() {{ curl -s -o /dev/null -w '%{{http_code}}' \"http://$1\" || true; }}\n\
             one() {{\n\
             \x20 touch \"$1/disable\"\n\
             \x20 until [ \"$(status \"$2/healthcheck\")\" = 503 ]; do sleep {POLL}; done\n\
             \x20 /bin/sh {stop} \"$1\" \"$2\" \"$version\"\n\
             \x20 /bin/sh {start} \"$1\" \"$2\" \"$version\"\n\
             \x20 until [ \"$(curl -s \"http://$2/version\")\" = \"$version\" ]; do sleep {POLL}; done\n\
             \x20 rm \"$1/disable\"\n\
             \x20 until [ \"$(status \"$2/healthcheck\")\" = 200 ]; do sleep {POLL}; done\n\
             }}\n\
             exec 3<{nodes}\n\
             began=$(date +%s%N)\n\
             for size in \"$@\"; do\n\
             \x20 while [ \"$size\" -gt 0 ]; do\n\
             \x20   read -r home address <&3\n\
             \x20   one \"$home\" \"$address\" &\n\
             \x20   size=$((size - 1))\n\
             \x20 done\n\
             \x20 wait\n\
             done\n\
             echo $(( $(date +%s%N) - began ))\n",
            stop = shell(&self.stop),
            start = shell(&self.start),
            nodes = shell(&nodes),
        );
        std::fs::write(&script, text).context("could not write the shell loop")?;
        Ok(script)
    }

    /// The command that starts an instance at version 1 at a place that has no agent.
    pub(super) fn launch(&self, place: &Place) -> [String; 4] {
        let words = [&self.start, &place.home].map(|path| path.display().to_string());
        let [script, home] = words;
        [script, home, place.address.to_string(), "1".to_owned()]
    }
}

/// The seconds that a shell loop took, as it printed them: a process that waits for its end sees that later.
///
/// # Errors
/// When it printed none.
pub(super) fn took(output: &str) -> anyhow::Result<f64> {
    let nanoseconds: u64 =
        output.lines().last().unwrap_or_default().parse().context("the shell loop printed no time")?;
    Ok(Duration::from_nanos(nanoseconds).as_secs_f64())
}

/// Between two questions of the shell loop, in seconds.
const POLL: f64 = 0.02;

/// Waits until every instance answers that it carries `version` and that it is in rotation: asked of the instances.
///
/// # Errors
/// When one does not in time; it is named.
pub(super) async fn all_carry(places: &[Place], version: u32) -> anyhow::Result<()> {
    for place in places {
        wait::wait_for(&format!("{} to carry version {version}", place.node), READY, || async {
            let (_, carries) = wait::get(place.address, "/version").await?;
            let (health, _) = wait::get(place.address, "/healthcheck").await?;
            match (health, carries.trim() == version.to_string()) {
                (200, true) => Ok(()),
                _ => Err(format!("version {carries}, health check {health}")),
            }
        })
        .await?;
    }
    Ok(())
}

fn artifact(version: u32) -> String {
    format!("release {version} of the service\n")
}

/// JSON's strings are TOML's basic strings.
fn text(text: impl AsRef<str>) -> String {
    json!(text.as_ref()).to_string()
}

fn path(path: &Path) -> String {
    text(path.display().to_string())
}

/// A path as a word of the shell.
fn shell(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
