//! A private PostgreSQL for one test process: on a socket in a temporary directory, as an
//! unprivileged user when we are root, ended with us however we end.

use super::Client;
use sqlx::{Connection, PgConnection};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static SHARED: OnceLock<Cluster> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// The running server. Its keeper, a shell, waits for the end of a pipe that only we hold, then
/// stops the server and removes its files: so it ends after a panic and a kill, too.
pub(crate) struct Cluster {
    socket: PathBuf,
    _keeper: Child,
}

const PASSWORD: &str = "tide";

impl Cluster {
    pub(crate) fn shared() -> &'static Cluster {
        SHARED.get_or_init(Cluster::start)
    }

    fn start() -> Cluster {
        let bin = bin();
        let home = tempfile::Builder::new().prefix("tidegate-pg-").tempdir().unwrap().keep();
        let data = home.join("data");
        std::fs::write(home.join("password"), PASSWORD).unwrap();
        if rustix::process::geteuid().is_root() {
            let owned = Command::new("chown").args(["-R", "postgres"]).arg(&home).status().unwrap();
            assert!(owned.success(), "could not give {} to the user postgres", home.display());
        }
        let template = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("postgres-{}", version(&bin)));
        if !copied(&template, &data) {
            make(&bin, &home, &data);
            keep_template(&data, &template);
        }
        let script = r#""$@" >"$HOME_DIR/log" 2>&1 & server=$!; read -r _; kill -QUIT $server; wait $server; rm -rf "$HOME_DIR""#;
        let server = unprivileged(&bin.join("postgres"));
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", script, "sh"]).arg(server.get_program()).args(server.get_args());
        keeper.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c", "max_prepared_transactions=10"]);
        keeper.arg("-c").arg(format!("unix_socket_directories={}", home.display()));
        keeper.args(["-c", "fsync=off", "-c", "max_connections=40", "-c", "shared_buffers=32MB"]);
        keeper.args(["-c", "wal_level=logical"]);
        keeper.env("HOME_DIR", &home).current_dir("/");
        let keeper =
            keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Cluster { socket: home, _keeper: keeper }
    }

    pub(crate) fn url(&self, user: &str, password: &str, database: &str) -> String {
        let socket = self.socket.display().to_string().replace('/', "%2F");
        format!("postgres://{user}:{password}@{socket}/{database}")
    }

    /// Makes an empty database; answers its address.
    pub(crate) async fn new_database(&self) -> String {
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let admin = self.url("postgres", PASSWORD, "postgres");
        let since = std::time::Instant::now();
        let connection = loop {
            match PgConnection::connect(&admin).await {
                Ok(connection) => break connection,
                Err(error) => {
                    let log = std::fs::read_to_string(self.socket.join("log")).unwrap_or_default();
                    assert!(since.elapsed() < Duration::from_secs(60), "no server: {error}; its log: {log}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        let mut admin = Client::Postgres(connection);
        admin.run(&format!("CREATE DATABASE {name}")).await;
        admin.close().await;
        self.url("postgres", PASSWORD, &name)
    }
}

/// The server's version as its directory names it, so that another one does not get this one's files.
fn version(bin: &Path) -> String {
    bin.components().rev().nth(1).map_or("unknown".into(), |c| c.as_os_str().to_string_lossy().into_owned())
}

/// Makes a cluster.
fn make(bin: &Path, home: &Path, data: &Path) {
    let made = unprivileged(&bin.join("initdb"))
        .args(["--no-sync", "--auth=scram-sha-256", "--username=postgres", "--encoding=UTF8", "--locale=C"])
        .arg(format!("--pwfile={}", home.join("password").display()))
        .arg(format!("--pgdata={}", data.display()))
        .current_dir("/")
        .output()
        .unwrap();
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
}

/// Keeps a made cluster for the next process: making one takes a second, copying it a tenth.
fn keep_template(data: &Path, template: &Path) {
    let own = template.with_extension(std::process::id().to_string());
    // Another process may be first; then its template is as good.
    if !copied(data, &own) || std::fs::rename(&own, template).is_err() {
        let _ = std::fs::remove_dir_all(&own);
    }
}

fn copied(from: &Path, to: &Path) -> bool {
    from.exists() && Command::new("cp").arg("-a").arg(from).arg(to).status().is_ok_and(|s| s.success())
}

/// The newest installed server's programs.
fn bin() -> PathBuf {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path.file_name()?.to_str()?.parse().ok()?;
            Some((number, path.join("bin")))
        })
        .collect();
    versions.sort();
    if let Some((_, bin)) = versions.pop() {
        return bin;
    }
    let asked = Command::new("pg_config")
        .arg("--bindir")
        .output()
        .expect("PostgreSQL must be installed for this test");
    PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim())
}

/// PostgreSQL refuses to run as root.
fn unprivileged(program: &Path) -> Command {
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}
