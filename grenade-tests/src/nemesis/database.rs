//! PostgreSQL with a replica that has every commit before it is acknowledged, behind one address that leads to whichever
//! of the two takes writes; and what is read of it from outside.

use anyhow::{Context, bail};
use rustix::process::Signal;
use sqlx::{Connection, Executor, PgConnection};
use std::net::SocketAddr;
use std::time::Duration;

use super::clock::Clock;
use super::network::Network;
use crate::world::postgres::{self, Postgres, ServerPlan, url_at};
use crate::world::wait::wait_for;
use crate::world::{Host, World};

/// The hosts of the two servers.
pub(super) const HOSTS: [&str; 2] = ["database-a", "database-b"];
const PORT: u16 = 5432;
/// How long a replica may take to follow.
const FOLLOWS: Duration = Duration::from_secs(30);

/// As on a server whose clients come and go over a network: a silent client is disconnected within seconds, or its
/// session would look connected for hours.
const SETTINGS: [&str; 7] = [
    "tcp_keepalives_idle=2",
    "tcp_keepalives_interval=1",
    "tcp_keepalives_count=3",
    "tcp_user_timeout=5000",
    "wal_sender_timeout=5s",
    "wal_receiver_timeout=5s",
    "wal_retrieve_retry_interval=500ms",
];

/// What the schema is made of, without what the migrations' engine keeps for itself.
const FORM: &str = "
    SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
      FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'tidegate%'
    UNION ALL SELECT 'index ' || indexdef FROM pg_indexes
      WHERE schemaname = 'public' AND tablename NOT LIKE 'tidegate%'
    UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    ORDER BY 1";

/// The two servers.
#[derive(Debug)]
pub(super) struct Databases {
    servers: [Option<Postgres>; 2],
    plans: [ServerPlan; 2],
    /// Which of them takes writes.
    first: usize,
    address: SocketAddr,
}

impl Databases {
    /// Starts both.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub(super) async fn start(world: &World, network: &mut Network, clock: &Clock) -> anyhow::Result<Self> {
        let env = clock.env("database")?;
        let plan = |name: &str, host: Host| ServerPlan {
            name: name.to_owned(),
            host,
            socket: false,
            ends_with_starter: false,
            port: Some(PORT),
            settings: SETTINGS.map(str::to_owned).to_vec(),
            env: env.clone(),
        };
        let plans = [plan(HOSTS[0], network.add(HOSTS[0])?), plan(HOSTS[1], network.add(HOSTS[1])?)];
        let address = SocketAddr::new(network.float(&HOSTS)?, PORT);
        let first = postgres::start_on(world, &plans[0]).await?;
        let mut databases = Self { servers: [Some(first), None], plans, first: 0, address };
        databases.replicate(world).await?;
        Ok(databases)
    }

    /// What clients connect to.
    pub(super) fn url(&self) -> String {
        url_at(self.address, postgres::DATABASE)
    }

    fn primary(&mut self) -> anyhow::Result<&mut Postgres> {
        self.servers[self.first].as_mut().context("there is no server that takes writes")
    }

    /// Gives the server that takes writes a replica: from then on a commit is acknowledged when both have it.
    async fn replicate(&mut self, world: &World) -> anyhow::Result<()> {
        let second = 1 - self.first;
        let of = self.primary()?.address();
        self.servers[second] = Some(postgres::start_standby(world, &self.plans[second], of).await?);
        let url = self.primary()?.url_of("postgres");
        wait_for("the replica to follow", FOLLOWS, || async {
            let mut connection = PgConnection::connect(&url).await.map_err(|e| e.to_string())?;
            let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
            let count: i64 =
                sqlx::query_scalar(streams).fetch_one(&mut connection).await.map_err(|e| e.to_string())?;
            if count > 0 { Ok(()) } else { Err("no replica".to_owned()) }
        })
        .await?;
        self.waits_for_replica(true).await
    }

    async fn waits_for_replica(&mut self, waits: bool) -> anyhow::Result<()> {
        let names = if waits { "*" } else { "" };
        let url = self.primary()?.url_of("postgres");
        let mut connection = PgConnection::connect(&url).await?;
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(set))).await?;
        connection.execute("SELECT pg_reload_conf()").await?;
        connection.close().await?;
        Ok(())
    }

    /// kill -9 of the server that takes writes.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn crash(&mut self) -> anyhow::Result<()> {
        self.primary()?.crash();
        Ok(())
    }

    /// Starts it again on its own data.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub(super) async fn restart(&mut self, world: &World) -> anyhow::Result<()> {
        Ok(self.primary()?.restart(world).await?)
    }

    /// Stops the server that takes writes where it is, or lets it go on.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.primary()?.signal_all(signal);
        Ok(())
    }

    /// kill -9 of one process that serves a client.
    ///
    /// # Errors
    /// When the server does not answer or serves no client.
    pub(super) async fn crash_backend(&mut self, which: usize) -> anyhow::Result<()> {
        let url = self.primary()?.url_of("postgres");
        let mut connection = PgConnection::connect(&url).await?;
        let clients = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' \
                       AND pid <> pg_backend_pid() ORDER BY application_name, pid";
        let pids: Vec<i32> = sqlx::query_scalar(clients).fetch_all(&mut connection).await?;
        if pids.is_empty() {
            bail!("no client is connected to the database");
        }
        let pid = rustix::process::Pid::from_raw(pids[which % pids.len()]).context("a pid that is none")?;
        rustix::process::kill_process(pid, Signal::KILL).context("could not kill a backend")
    }

    /// kill -9 of the server that takes writes; the other one takes its place.
    ///
    /// # Errors
    /// When the replica cannot take its place.
    pub(super) async fn fail_over(&mut self, network: &mut Network) -> anyhow::Result<()> {
        self.primary()?.crash();
        self.servers[self.first] = None;
        self.first = 1 - self.first;
        let promoted = self.primary()?;
        promoted.promote().await?;
        self.waits_for_replica(false).await?;
        network.lead_to(HOSTS[self.first])
    }

    /// Gives the promoted server a replica of its own.
    ///
    /// # Errors
    /// When it cannot be had.
    pub(super) async fn rebuild(&mut self, world: &World) -> anyhow::Result<()> {
        self.replicate(world).await
    }

    /// A connection, as a client has it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn connect(&self) -> anyhow::Result<PgConnection> {
        let connection = tokio::time::timeout(FOLLOWS, PgConnection::connect(&self.url())).await;
        connection.context("the database does not answer")?.context("could not connect to the database")
    }

    /// What the schema is made of.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn form(&self) -> anyhow::Result<Vec<String>> {
        let mut connection = self.connect().await?;
        sqlx::query_scalar(FORM).fetch_all(&mut connection).await.context("could not read the schema")
    }
}
