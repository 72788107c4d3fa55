//! The server, as the process of one schedule reaches it: to administer its databases, and to know which sessions have
//! ended.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection, Row};
use std::io;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tidegate_migrations::held::{OpenSession, SimulatedServer, hold, open_sessions};
use tokio::runtime::{Builder, Runtime};

/// The variable that has the URL of the server's database `postgres`.
pub(in crate::simulate) const SERVER: &str = "SIMULATED_SERVER";

/// The variable that has what the names of this schedule's databases begin with.
pub(in crate::simulate) const PREFIX: &str = "SIMULATED_DATABASES";

/// How long the server may take to end a session, by the real clock.
const ENDS: Duration = Duration::from_secs(10);

/// Between two looks whether it did.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// The server of this process.
struct Server {
    options: PgConnectOptions,
    prefix: String,
    /// Its clock is real, and a thread of its own waits for the sockets.
    sockets: Runtime,
    session: Mutex<Option<PgConnection>>,
}

static SERVED: OnceLock<Server> = OnceLock::new();

/// The server that the environment names; none where databases are files.
///
/// # Errors
/// Where the URL is none, or the system gives no thread.
pub(in crate::simulate) fn of_environment() -> anyhow::Result<Option<SimulatedServer>> {
    match (std::env::var(SERVER), std::env::var(PREFIX)) {
        (Ok(url), Ok(prefix)) => Ok(Some(reach(&url, prefix)?)),
        _ => Ok(None),
    }
}

/// Reaches a server from now on, for the databases whose names begin so.
///
/// # Errors
/// Where the URL is none, or the system gives no thread.
pub(super) fn reach(url: &str, prefix: String) -> anyhow::Result<SimulatedServer> {
    let options = PgConnectOptions::from_str(url)?;
    let sockets = Builder::new_multi_thread().worker_threads(1).enable_io().build()?;
    let handle = sockets.handle().clone();
    let served = SERVED.set(Server { options, prefix, sockets, session: Mutex::default() });
    served.map_err(|_| anyhow::anyhow!("this process has a server already"))?;
    Ok(SimulatedServer { sockets: handle, settles })
}

fn server() -> io::Result<&'static Server> {
    SERVED.get().ok_or_else(|| io::Error::other("there is no server"))
}

impl Server {
    fn session(&self) -> MutexGuard<'_, Option<PgConnection>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works with the administrator's session, which lasts as long as this process.
    fn with_session<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let _entered = self.sockets.enter();
        let mut session = self.session();
        futures::executor::block_on(tokio::task::unconstrained(async {
            let opened = match session.take() {
                Some(opened) => opened,
                None => PgConnection::connect_with(&self.options).await?,
            };
            work(session.insert(opened)).await
        }))
    }
}

/// Runs a statement as the administrator.
///
/// # Errors
/// What the server says.
pub(super) fn administer(sql: &str) -> io::Result<()> {
    let done = server()?
        .with_session(async |session| sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(session).await);
    done.map(drop).map_err(|error| io::Error::other(format!("{sql}: {error}")))
}

/// Asks for one text as the administrator.
///
/// # Errors
/// What the server says.
pub(super) fn ask(sql: &str) -> io::Result<String> {
    let asked = server()?.with_session(async |session| {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(session).await?.try_get(0)
    });
    asked.map_err(|error| io::Error::other(format!("{sql}: {error}")))
}

/// How a program of PostgreSQL connects to a database as the administrator.
///
/// # Errors
/// Where there is no server.
pub(super) fn connection(database: &str) -> io::Result<String> {
    let options = &server()?.options;
    let socket = options.get_socket().ok_or_else(|| io::Error::other("the server has no socket"))?;
    let (port, user) = (options.get_port(), options.get_username());
    Ok(format!("host={} port={port} user={user} dbname={database}", socket.display()))
}

/// Waits until the databases of this schedule have no more sessions than this process has open.
fn settles() {
    let Some(server) = SERVED.get() else { return };
    let ask = format!(
        "SELECT count(*) FROM pg_stat_get_activity(NULL) a JOIN pg_database d ON d.oid = a.datid \
         WHERE starts_with(d.datname, '{}')",
        server.prefix
    );
    let began = Instant::now();
    while began.elapsed() < ENDS {
        let found = server.with_session(async |session| {
            sqlx::query(AssertSqlSafe(ask.clone())).fetch_one(session).await?.try_get::<i64, _>(0)
        });
        match found.map(usize::try_from) {
            Ok(Ok(found)) if found > open_sessions() => std::thread::sleep(LOOK_EVERY),
            Ok(_) => return,
            Err(error) => {
                eprintln!("the sessions of the server cannot be counted: {error}");
                return;
            }
        }
    }
}

/// A session of a program or of the judge.
pub(super) struct Session {
    connection: PgConnection,
    _open: OpenSession,
}

impl Session {
    /// Opens one.
    pub(super) fn open(options: &PgConnectOptions) -> Result<Self, sqlx::Error> {
        let connection = hold(PgConnection::connect_with(options))?;
        Ok(Self { connection, _open: OpenSession::one() })
    }

    /// Runs statements.
    pub(super) fn run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        hold(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.connection)).map(drop)
    }

    /// Asks for one text.
    pub(super) fn text(&mut self, sql: &str) -> Result<String, sqlx::Error> {
        let asked = hold(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.connection));
        asked?.try_get(0)
    }
}
