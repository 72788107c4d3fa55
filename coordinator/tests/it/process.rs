//! The real binary: a daemon in a directory of its own, and the commands that ask it.

use crate::herd::Herd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tidegate_proto::Prefix;
use tidegate_store::{Endpoints, Store};

/// The token of coordinators on an etcd cluster.
const SHARED: &str = "tgt_operator_0123456789abcdef";

/// How long a daemon may take to be ready, or a command to end.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn tidegate() -> Command {
    without_settings(Command::new(env!("CARGO_BIN_EXE_tidegate")))
}

fn without_settings(mut command: Command) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    command.env("USER", "op").stdin(Stdio::null());
    command
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub(crate) fn run(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A daemon that ends with its handle.
pub(crate) struct Daemon {
    child: Child,
    pub ready: serde_json::Value,
    pub dir: TempDir,
}

impl Daemon {
    /// With an embedded store that is served.
    pub(crate) fn embedded(configure: impl FnOnce(&mut Command, &Path)) -> Self {
        Self::start(|command, dir| {
            let store = format!("embedded:{}", dir.join("store").display());
            command.args(["--store", &store, "--store-listen", "127.0.0.1:0"]);
            configure(command, dir);
        })
    }

    /// With nothing but what is asked for.
    pub(crate) fn bare(configure: impl FnOnce(&mut Command, &Path)) -> Self {
        Self::start(configure)
    }

    /// With the embedded store of a directory that outlives it.
    pub(crate) fn embedded_in(store: &Path, configure: impl FnOnce(&mut Command, &Path)) -> Self {
        let store = format!("embedded:{}", store.display());
        Self::start(|command, dir| {
            command.args(["--store", &store, "--store-listen", "127.0.0.1:0"]);
            configure(command, dir);
        })
    }

    /// Beside another one, over its store.
    pub(crate) fn beside(first: &Self) -> Self {
        let store = format!("etcd:http://{}", first.address("store"));
        let token = first.address("token_file");
        Self::start(|command, _| {
            command.args(["--store", &store, "--token-file", &token]);
        })
    }

    /// Over an etcd cluster.
    pub(crate) fn over(url: &str) -> Self {
        let store = format!("etcd:{url}");
        Self::start(|command, dir| {
            std::fs::write(dir.join("token"), SHARED).unwrap();
            command.args(["--store", &store, "--leader-ttl", "2s", "--token-file"]).arg(dir.join("token"));
        })
    }

    /// With an embedded store, and at most so many descriptors.
    pub(crate) fn with_descriptors(most: u32) -> Self {
        let mut command = without_settings(Command::new("sh"));
        command.args([
            "-c",
            &format!("ulimit -n {most} && exec \"$0\" \"$@\""),
            env!("CARGO_BIN_EXE_tidegate"),
        ]);
        Self::begin(command, |command, dir| {
            let store = format!("embedded:{}", dir.join("store").display());
            command.args(["--store", &store, "--store-listen", "127.0.0.1:0"]);
        })
    }

    fn start(configure: impl FnOnce(&mut Command, &Path)) -> Self {
        Self::begin(tidegate(), configure)
    }

    fn begin(mut command: Command, configure: impl FnOnce(&mut Command, &Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready.json");
        command.arg("coordinator").env("TIDEGATE_HTTP", "127.0.0.1:0").env("TIDEGATE_GRPC", "127.0.0.1:0");
        command.arg("--ready-file").arg(&ready).stdout(Stdio::null());
        command.stderr(std::fs::File::create(dir.path().join("log")).unwrap());
        configure(&mut command, dir.path());
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        let ready = loop {
            if let Ok(text) = std::fs::read_to_string(&ready) {
                break serde_json::from_str(&text).unwrap();
            }
            let log = || std::fs::read_to_string(dir.path().join("log")).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "the daemon ended: {}", log());
            assert!(began.elapsed() < LIMIT, "the daemon is not ready: {}", log());
            std::thread::sleep(Duration::from_millis(10));
        };
        let daemon = Self { child, ready, dir };
        while !daemon.sees_a_leader() {
            assert!(began.elapsed() < LIMIT, "no coordinator leads: {}", daemon.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon
    }

    fn sees_a_leader(&self) -> bool {
        // Over TLS only its log can be asked without further ado.
        let tls = self.address("advertise").starts_with("https");
        if tls { self.log().contains(" leads ") } else { self.http("/readyz").starts_with("HTTP/1.1 200") }
    }

    pub(crate) fn address(&self, of: &str) -> String {
        self.ready[of].as_str().unwrap().to_owned()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// As the operator, unless the arguments name another token.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.anonymous(args);
        command.env("TIDEGATE_TOKEN_FILE", self.address("token_file"));
        command
    }

    /// Without any token.
    pub(crate) fn anonymous(&self, args: &[&str]) -> Command {
        let mut command = tidegate();
        command.args(["--coordinator", &self.address("advertise")]).args(args);
        command
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Said {
        run(&mut self.command(args))
    }

    /// Asks until the answer is such, or says what the last one was.
    pub(crate) fn until(&self, what: &str, args: &[&str], good: impl Fn(&Said) -> bool) -> Said {
        let began = Instant::now();
        loop {
            let said = self.ask(args);
            if good(&said) {
                return said;
            }
            assert!(began.elapsed() < LIMIT, "not in time: {what}; last {said:#?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// One HTTP request, by hand.
    pub(crate) fn http(&self, path: &str) -> String {
        self.request("GET", path, None, "")
    }

    /// The same with everything that it may have, and its answer.
    pub(crate) fn request(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> String {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(self.address("http")).unwrap();
        let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{bearer}Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A connection to its store, as an agent has one.
    pub(crate) async fn store(&self) -> Store {
        let endpoints = Endpoints::plain([format!("http://{}", self.address("store"))]);
        Store::connect(&endpoints, Prefix::default()).await.unwrap()
    }

    /// A herd at version 1 on its store.
    pub(crate) async fn herd(&self, count: usize) -> Herd {
        Herd::at_version_1(self.store().await, count).await
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM; its exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.ended().0
    }

    /// Waits until it has ended; its exit code and its log.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        while began.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it did not end: {}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
