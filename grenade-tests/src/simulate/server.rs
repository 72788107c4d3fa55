//! The private PostgreSQL server of a run: started before the first schedule, ended with the run, by what interrupts it, and
//! by the system where the run is killed with SIGKILL.

use super::interrupt;
use crate::world::World;
use crate::world::postgres::{self, Postgres, ServerPlan, USER};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Row};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use tidegate_proto::printable::to_stderr;
use tokio::runtime::{Builder, Runtime};

/// Sessions of a schedule: of programs, coordinators, the judge. One schedule of a few hundred has as many.
const SESSIONS: usize = 130;

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
    runtime: Runtime,
    _world: World,
    _directory: tempfile::TempDir,
    /// Dropped last: then the thread ends that started the server.
    _starter: mpsc::Sender<Infallible>,
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
        let (postgres, pool) = runtime.block_on(async {
            let postgres = tokio::select! {
                started = postgres::start_on(&world, &plan) => started?,
                () = interrupt::interrupted() => anyhow::bail!("interrupted while PostgreSQL was started"),
            };
            let options = PgConnectOptions::from_str(&url(&postgres, postgres.directory(), "postgres"))?;
            anyhow::Ok((postgres, pool.connect_lazy_with(options)))
        })?;
        let schedules = AtomicU64::new(0);
        let (_world, _directory, _starter) = (world, directory, starter);
        Ok(Self { pool, postgres, schedules, runtime, _world, _directory, _starter })
    }

    /// What the names of the databases of the next schedule begin with.
    pub(super) fn next_schedule(&self) -> String {
        format!("s{}_", self.schedules.fetch_add(1, Ordering::SeqCst))
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
        let dropping = async {
            let ask = "SELECT datname FROM pg_database WHERE starts_with(datname, $1)";
            for row in sqlx::query(ask).bind(prefix).fetch_all(&self.pool).await? {
                let name: String = row.try_get(0)?;
                let sql = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
                sqlx::raw_sql(sql).execute(&self.pool).await?;
            }
            Ok::<_, sqlx::Error>(())
        };
        let dropped = self.runtime.block_on(async {
            tokio::select! {
                biased;
                // The server ends, and its directory is removed.
                () = interrupt::interrupted() => Ok(()),
                dropped = dropping => dropped,
            }
        });
        if let Err(error) = dropped
            && !interrupt::came_just_now()
        {
            to_stderr(format_args!("\rthe databases of a schedule could not be dropped: {error}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn directory_of_a_socket_is_the_host_of_its_url() {
        let text = format!("{}&{LIMITS}", url_at(4711, Path::new("/dev/shm/.tmp a%7"), "s1_schema0"));
        let options = PgConnectOptions::from_str(&text).unwrap();
        assert_eq!(options.get_socket().map(PathBuf::as_path), Some(Path::new("/dev/shm/.tmp a%7")));
        assert_eq!((options.get_port(), options.get_database()), (4711, Some("s1_schema0")));
        assert!(options.get_options().is_some_and(|text| text.contains("lock_timeout=5ms")), "{text}");
    }
}
