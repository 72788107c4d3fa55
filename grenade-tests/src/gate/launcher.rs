//! How commands of a gate file are run: what their places mean, and the script that starts a version on any node.

use std::fmt::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use crate::gate::file::companion::place;
use crate::gate::file::{Command, Gate, Version};
use crate::gate::late::{Failed, Late};
use crate::gate::processes::{PLACE, VERSION};
use crate::load::template::quoted;
use crate::world::wait::wait_for;
use crate::world::{Process, Spawn, World, port, program};

/// How long a command that is no service may take.
const COMMAND: Duration = Duration::from_secs(600);
/// A command that takes longer than this is named.
const SLOW: Duration = Duration::from_secs(10);
/// The name of the script in a release.
pub const SCRIPT: &str = "run";

/// What a service of this run uses.
#[derive(Debug, Clone, Default)]
pub struct Data {
    /// The URL of its database; empty where there is none.
    pub url: String,
    /// The file of its database, where it is one.
    pub file: PathBuf,
    /// The companions that run, with their addresses.
    pub companions: Vec<(String, SocketAddr)>,
}

/// What the places of a command mean.
#[derive(Debug, Clone)]
pub struct Places(Map<String, Value>);

impl Places {
    /// For the whole service, over this database.
    ///
    /// # Errors
    /// When this program cannot be found.
    pub fn of(world: &World, gate: &Gate, data: &Data) -> anyhow::Result<Self> {
        let bin = bin()?;
        let mut places = Map::new();
        places.insert("database".to_owned(), data.url.clone().into());
        places.insert("database_file".to_owned(), data.file.display().to_string().into());
        places.insert("here".to_owned(), gate.here.display().to_string().into());
        places.insert("work".to_owned(), world.dir().display().to_string().into());
        places.insert("bin".to_owned(), bin.display().to_string().into());
        for (name, address) in &data.companions {
            places.insert(place(name), format!("http://{address}").into());
        }
        for (name, version) in [("base_source", &gate.service.base), ("target_source", &gate.service.target)]
        {
            if let Some(directory) = version.source.directory() {
                places.insert(name.to_owned(), directory.display().to_string().into());
            }
        }
        Ok(Self(places))
    }

    /// With the balancer's address.
    #[must_use]
    pub fn behind(mut self, balancer: SocketAddr) -> Self {
        self.0.insert("url".to_owned(), format!("http://{balancer}").into());
        self
    }

    /// With further variables.
    #[must_use]
    pub fn and(mut self, variables: &Map<String, Value>) -> Self {
        self.0.extend(variables.clone());
        self
    }

    /// With the ledger of a load, and the Unix time in milliseconds from which it counts.
    #[must_use]
    pub fn load(mut self, ledger: &Path, began_ms: u128) -> Self {
        self.0.insert("ledger".to_owned(), ledger.display().to_string().into());
        self.0.insert("began_ms".to_owned(), began_ms.to_string().into());
        self
    }

    /// With the file that describes the fleet.
    #[must_use]
    pub fn fleet(mut self, file: &Path) -> Self {
        self.0.insert("fleet".to_owned(), file.display().to_string().into());
        self
    }

    /// The words of a command.
    ///
    /// # Errors
    /// A place that has no value here.
    pub fn words(&self, command: &Command) -> anyhow::Result<Vec<String>> {
        command
            .words(&|name| self.0.get(name).cloned())
            .map_err(|name| anyhow::anyhow!("`{{{name}}}` has no value here"))
    }

    /// The script that starts a version: `run NODE PORT NODE_DIR DISABLE_FILE`. It is the same for all nodes.
    fn script(&self, version: &Version) -> String {
        let mut script = "#!/bin/sh\nset -eu\nnode=$1 port=$2 node_dir=$3 disable_file=$4\n".to_owned();
        script.push_str("address=127.0.0.1:$port\n");
        for (name, value) in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(script, "{name}={}", quoted(value.as_str().unwrap_or_default()));
        }
        if let Some(directory) = version.source.directory() {
            let _ = writeln!(script, "source={}", quoted(&directory.display().to_string()));
        }
        let _ = writeln!(script, "export {PLACE}=\"$node_dir\" {VERSION}={}", version.number);
        for (name, value) in &version.env {
            let _ = writeln!(script, "export {name}={}", value.shell_word());
        }
        let _ = writeln!(script, "cd \"$node_dir\"\nexec {}", version.command.shell());
        script
    }

    /// Writes the script of a version into a directory, as a release of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn release(&self, version: &Version, directory: &Path) -> anyhow::Result<PathBuf> {
        let path = directory.join(SCRIPT);
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&path, self.script(version)))
            .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("could not write {}", path.display()))?;
        Ok(path)
    }
}

/// The directory of this program and those beside it.
///
/// # Errors
/// When this program cannot be found.
pub fn bin() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("could not find this program")?;
    let bin = own.parent().unwrap_or(Path::new("/"));
    // A test is one directory below the programs.
    Ok(if bin.ends_with("deps") { bin.parent().unwrap_or(bin) } else { bin }.to_owned())
}

/// What a place means in a command that builds a version.
pub fn place_of_build(gate: &Gate, source: &Path, place: &str) -> Option<Value> {
    let path = match place {
        "source" => source.to_owned(),
        "here" => gate.here.clone(),
        "bin" => bin().ok()?,
        _ => return None,
    };
    Some(path.display().to_string().into())
}

/// One place that an instance runs at.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its own directory.
    pub home: PathBuf,
    /// Where its instance listens.
    pub address: SocketAddr,
    /// Where the agent serves its health check, where the service has none.
    pub health: SocketAddr,
}

impl Node {
    /// On free ports, with a directory below `home`.
    ///
    /// # Errors
    /// When there is no free port, or the directory cannot be made.
    pub fn make(name: &str, home: &Path) -> anyhow::Result<Self> {
        let home = home.join(name);
        std::fs::create_dir_all(&home).with_context(|| format!("could not make {}", home.display()))?;
        Ok(Self { name: name.to_owned(), home, address: port::free()?, health: port::free()? })
    }

    /// The file that takes it out of rotation.
    pub fn disable_file(&self) -> PathBuf {
        self.home.join("disable")
    }

    /// What the script is given.
    pub fn arguments(&self) -> [String; 4] {
        let port = self.address.port().to_string();
        [self.name.clone(), port, self.home.display().to_string(), self.disable_file().display().to_string()]
    }

    /// Starts a version here, by its script, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or does not become ready in time, with the last lines of its log.
    pub async fn start(&self, world: &World, gate: &Gate, script: &Path) -> anyhow::Result<Process> {
        let mut process = world.spawn(Spawn::new(&self.name, script).args(self.arguments()))?;
        let (address, path) = (self.address, gate.service.ready.as_str());
        let child = tokio::sync::Mutex::new(&mut process);
        let ready = wait_for(&format!("{} to be ready", self.name), gate.service.start_timeout, || async {
            if let Some(status) = child.lock().await.ended() {
                return Ok(Some(status));
            }
            match crate::world::wait::get(address, path).await {
                Ok((200, _)) => Ok(None),
                Ok((status, body)) => Err(format!("{path} answers {status} {body}")),
                Err(e) => Err(format!("{path}: {e}")),
            }
        })
        .await;
        match ready {
            Ok(None) => Ok(process),
            Ok(Some(status)) => {
                let hint =
                    if status.ends_with(": 0") { " (does it put itself into the background?)" } else { "" };
                bail!("{} ended with {status} before it was ready{hint}{}", self.name, last_lines(&process))
            }
            Err(late) => Err(anyhow::Error::new(Late(format!(
                "{late}; it must listen on port {}, and `service.start_timeout` says how long a start may take{}",
                address.port(),
                last_lines(&process)
            )))),
        }
    }
}

/// The end of its log, where it said anything.
pub fn last_lines(process: &Process) -> String {
    match process.tail() {
        tail if tail.is_empty() => "; its log is empty".to_owned(),
        tail => format!("; the last lines of its log:\n{tail}"),
    }
}

/// Runs a command to its end, in the directory of the gate file; what it said is in `<name>.log`.
///
/// # Errors
/// When it cannot be started, or does not exit with 0: with its last lines.
pub async fn run(
    world: &World,
    gate: &Gate,
    name: &str,
    command: &Command,
    places: &Places,
) -> anyhow::Result<()> {
    let words = places.words(command)?;
    let mut process = begin(world, gate, name, command, places)?;
    let status = end_of(&mut process, &words).await?;
    if status.success() {
        return Ok(());
    }
    let (words, tail) = (words.join(" "), process.tail());
    Err(Failed(format!("`{words}` ended with {status}; its last lines:\n{tail}")).into())
}

/// Waits for the end of a command, and names one that is slow.
async fn end_of(process: &mut Process, words: &[String]) -> anyhow::Result<ExitStatus> {
    let log = process.log().display().to_string();
    let ended = process.wait(COMMAND);
    tokio::pin!(ended);
    tokio::select! {
        status = &mut ended => Ok(status?),
        () = tokio::time::sleep(SLOW) => {
            tracing::warn!(command = words.join(" "), log, "still runs after {SLOW:?}; it may take {COMMAND:?}");
            Ok(ended.await?)
        }
    }
}

/// Starts a command in the directory of the gate file.
///
/// # Errors
/// When it cannot be started.
pub fn begin(
    world: &World,
    gate: &Gate,
    name: &str,
    command: &Command,
    places: &Places,
) -> anyhow::Result<Process> {
    let words = places.words(command)?;
    let program = found(&words[0], &gate.here)?;
    Ok(world.spawn(Spawn::new(name, &program).args(&words[1..]).dir(&gate.here))?)
}

/// A program by its path (from the directory of the gate file) or its name.
///
/// # Errors
/// When there is no such program.
pub fn found(name: &str, here: &Path) -> anyhow::Result<PathBuf> {
    if name.contains('/') {
        let path = here.join(name);
        if path.is_file() {
            return Ok(path);
        }
        bail!(
            "there is no program {}; write a whole path, such as `{{here}}/{name}` or `{{source}}/{name}`",
            path.display()
        );
    }
    let package = match name {
        "git" => "; Debian's package `git` has it",
        "haproxy" => "; Debian's package `haproxy` has it",
        "etcd" => "; Debian's package `etcd-server` has it",
        "postgres" | "initdb" => "; Debian's package `postgresql` has it",
        "mariadbd" | "mariadb-install-db" => "; Debian's package `mariadb-server-core` has it",
        "mariadb" => "; Debian's package `mariadb-client-core` has it",
        "python3" => "; Debian's package `python3` has it",
        _ => ", or not on the path",
    };
    program::outside(name).map_err(|_| anyhow::anyhow!("the program `{name}` is not installed{package}"))
}
