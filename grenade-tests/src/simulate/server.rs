//! The private PostgreSQL server of a run: started before the first schedule, ended with the run, by what interrupts it, and
//! by the system where the run is killed with SIGKILL.

use crate::world::World;
use crate::world::descendants::{Scope, sweep};
use crate::world::interrupt::Interrupt;
use crate::world::postgres::{self, Postgres, ServerPlan, USER};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Row};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::timeout;

/// The exit code of a run that was interrupted.
const INTERRUPTED: i32 = 130;

/// Sessions of a schedule: of programs, coordinators, the judge. One schedule of a few hundred has as many.
const SESSIONS: usize = 130;

/// How long the threads of the program may take, at most, to clean up after the schedules that were ended.
const CLEANS_UP: Duration = Duration::from_secs(5);

/// Between two looks for what was started meanwhile.
const SWEEPS_EVERY: Duration = Duration::from_millis(100);

/// What is lost with the server may be lost, and what it does by itself differs from run to run.
const SETTINGS: [&str; 10] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "autovacuum=off",
    "checkpoint_timeout=1h",
    "jit=off",
    "log_min_messages=fatal",
    "log_checkpoints=off",
];

/// What each session of a schedule waits for at most: for a lock that only a session may have that is ending, and, where
/// it waits for something else, for so long that it counts as a failure.
const LIMITS: &str = "options[lock_timeout]=5ms&options[statement_timeout]=10s";

/// The server.
pub(super) struct Server {
    pool: PgPool,
    postgres: Postgres,
    schedules: AtomicU64,
    playing: watch::Sender<usize>,
    interrupted: Arc<AtomicBool>,
    runtime: Runtime,
    _world: World,
    _directory: tempfile::TempDir,
    /// Dropped last: then the thread ends that started the server.
    _starter: mpsc::Sender<Infallible>,
}

/// A schedule that is played. Dropped once nothing of it is left.
pub(super) struct Playing {
    prefix: String,
    count: watch::Sender<usize>,
}

impl Playing {
    /// What the names of its databases begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}

impl Server {
    /// Starts it, with room for so many schedules at a time.
    ///
    /// # Errors
    /// Where PostgreSQL is not installed or cannot be started.
    pub(super) fn start(jobs: usize) -> anyhow::Result<Self> {
        let (starter, dropped) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        // The system ends the server with the thread that starts it, so that thread lasts as long as this value.
        std::thread::spawn(move || {
            // The answer is waited for.
            let _ = answer.send(Self::start_here(jobs, starter));
            // Nothing is ever sent.
            let _ = dropped.recv();
        });
        answered.recv()?
    }

    fn start_here(jobs: usize, starter: mpsc::Sender<Infallible>) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let directory = tempfile::tempdir()?;
        let world = World::alone(directory.path())?;
        let most = format!("max_connections={}", 50 + SESSIONS * jobs);
        let pool = PgPoolOptions::new().max_connections(u32::try_from(jobs)?);
        let settings = SETTINGS.into_iter().map(str::to_owned).chain([most]).collect();
        let plan = ServerPlan { socket: true, ends_with_starter: true, settings, ..ServerPlan::default() };
        let interrupted = Arc::new(AtomicBool::new(false));
        let noticed = Arc::clone(&interrupted);
        let (playing, played) = watch::channel(0);
        let (postgres, pool) = runtime.block_on(async {
            let mut interrupt = Interrupt::listen()?;
            let postgres = tokio::select! {
                started = postgres::start_on(&world, &plan) => started?,
                ended = interrupt.interrupted() => return Err(ended.into()),
            };
            let rooms = [directory.path().to_owned(), postgres.directory().to_owned()];
            tokio::spawn(end_when_interrupted(interrupt, noticed, played, rooms));
            let options = PgConnectOptions::from_str(&url(&postgres, postgres.directory(), "postgres"))?;
            anyhow::Ok((postgres, pool.connect_lazy_with(options)))
        })?;
        let schedules = AtomicU64::new(0);
        let (_world, _directory, _starter) = (world, directory, starter);
        Ok(Self { pool, postgres, schedules, playing, interrupted, runtime, _world, _directory, _starter })
    }

    /// The next schedule. Does not return once the run is interrupted: the process is about to end.
    pub(super) fn next_schedule(&self) -> Playing {
        while self.interrupted.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.playing.send_modify(|count| *count += 1);
        let prefix = format!("s{}_", self.schedules.fetch_add(1, Ordering::SeqCst));
        Playing { prefix, count: self.playing.clone() }
    }

    /// The URL of the server's database `postgres`, for its administrator.
    pub(super) fn url_of_itself(&self) -> String {
        url(&self.postgres, self.postgres.directory(), "postgres")
    }

    /// Makes a directory with a link to its socket, which can be taken away; answers the URL of a database that is reached
    /// there.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn link(&self, directory: &Path, database: &str) -> std::io::Result<String> {
        std::fs::create_dir(directory)?;
        let name = format!(".s.PGSQL.{}", self.postgres.address().port());
        std::os::unix::fs::symlink(self.postgres.directory().join(&name), directory.join(&name))?;
        Ok(format!("{}&{LIMITS}", url(&self.postgres, directory, database)))
    }

    /// Drops the databases of a schedule.
    pub(super) fn drop_databases(&self, prefix: &str) {
        if self.interrupted.load(Ordering::SeqCst) {
            return;
        }
        let dropped = self.runtime.block_on(async {
            let ask = "SELECT datname FROM pg_database WHERE starts_with(datname, $1)";
            for row in sqlx::query(ask).bind(prefix).fetch_all(&self.pool).await? {
                let name: String = row.try_get(0)?;
                let sql = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
                sqlx::raw_sql(sql).execute(&self.pool).await?;
            }
            Ok::<_, sqlx::Error>(())
        });
        if let Err(error) = dropped {
            eprintln!("\rthe databases of a schedule could not be dropped: {error}");
        }
    }
}

/// The URL of a database that is reached by the socket in a directory.
fn url(postgres: &Postgres, directory: &Path, database: &str) -> String {
    url_at(postgres.address().port(), directory, database)
}

fn url_at(port: u16, directory: &Path, database: &str) -> String {
    let mut host = String::new();
    for byte in directory.display().to_string().bytes() {
        // Writing to a text cannot fail.
        let _ = match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => write!(host, "{}", char::from(byte)),
            other => write!(host, "%{other:02X}"),
        };
    }
    format!("postgres://{USER}@{host}:{port}/{database}?sslmode=disable")
}

/// Ends schedules and server, and this process with them.
async fn end_when_interrupted(
    mut interrupt: Interrupt,
    noticed: Arc<AtomicBool>,
    mut playing: watch::Receiver<usize>,
    rooms: [PathBuf; 2],
) {
    let why = interrupt.interrupted().await;
    noticed.store(true, Ordering::SeqCst);
    eprintln!("\rtidegate-simulate: {why}");
    let began = Instant::now();
    // The threads that waited for schedules remove their directories; one may have been about to start its schedule. What
    // does not end is left behind.
    loop {
        sweep(&Scope::Every);
        let all_removed = timeout(SWEEPS_EVERY, playing.wait_for(|count| *count == 0)).await.is_ok();
        if all_removed || began.elapsed() > CLEANS_UP {
            break;
        }
    }
    for room in rooms {
        // It is a temporary directory.
        let _ = std::fs::remove_dir_all(room);
    }
    std::process::exit(INTERRUPTED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_a_socket_is_the_host_of_its_url() {
        let text = format!("{}&{LIMITS}", url_at(4711, Path::new("/dev/shm/.tmp a%7"), "s1_schema0"));
        let options = PgConnectOptions::from_str(&text).unwrap();
        assert_eq!(options.get_socket().map(PathBuf::as_path), Some(Path::new("/dev/shm/.tmp a%7")));
        assert_eq!((options.get_port(), options.get_database()), (4711, Some("s1_schema0")));
        assert!(options.get_options().is_some_and(|text| text.contains("lock_timeout=5ms")), "{text}");
    }
}
