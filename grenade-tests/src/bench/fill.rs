//! What a fill costs, and what the service feels of it: the engine's fill with its sync triggers live, in turn with a
//! plain loop of batches, with these triggers and without, and with one UPDATE, alone and beside an open load (real
//! PostgreSQL).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tidegate_migrations::{Engine, MigrationSet, PhaseProgress, Term};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bench::figure::Figure;
use crate::bench::median::{median, quantile};
use crate::world::World;
use crate::world::postgres::{self, Postgres};

/// Rows of a batch of the plain loop.
const BATCH: i64 = 10_000;
/// Transactions a second of the load: three reads to one write.
const RATE: u32 = 200;
/// Its connections.
const CLIENTS: usize = 8;
/// How long the load runs before anything is counted.
const WARM: Duration = Duration::from_secs(2);
/// How long is counted where nothing is filled.
const WINDOW: Duration = Duration::from_secs(12);
/// The longest that a request may wait beside the fill, in milliseconds.
const STALL: f64 = 50.0;

const UP: &str = "CASE WHEN is_public THEN 'public' ELSE 'private' END";
const MIGRATION: &str = "id = '0002_visibility'\nversion = 2\nold_reads_migrated = true\n[expand]\nsteps = [\n\
    { add_column = { table = 'images', column = 'visibility', type = 'text' } },\n\
    { sync = { table = 'images', old = 'is_public', new = 'visibility', up = \"UP\", \
    down = \"visibility = 'public'\" } },\n]\n[migrate]\nrequires = 'expanded'\nsteps = [{ backfill = { \
    table = 'images', key = 'id', where = 'visibility IS NULL', set = { visibility = \"UP\" } } }]\n\
    verify = 'SELECT count(*) FROM images WHERE visibility IS NULL'\n[contract]\nsteps = [\n\
    { drop_sync = { table = 'images', new = 'visibility' } },\n\
    { drop_column = { table = 'images', column = 'is_public' } },\n]\n[undo]\nsteps = [\n\
    { drop_sync = { table = 'images', new = 'visibility' } },\n\
    { drop_column = { table = 'images', column = 'visibility' } },\n]\n";

/// What is done to the table.
#[derive(Debug, Clone, Copy)]
enum Work {
    Nothing,
    Triggers,
    OneUpdate,
    Loop,
    /// The loop with the engine's sync triggers live.
    SyncedLoop,
    Fill,
}

/// What the load felt, in milliseconds.
struct Felt {
    p99: f64,
    longest: f64,
}

/// Measures with this many rows; each kind of run as often as asked, in turn.
///
/// # Errors
/// When PostgreSQL cannot be started, or a statement fails.
pub async fn measure(dir: &Path, repeat: u32, rows: u32) -> anyhow::Result<Vec<Figure>> {
    let room = tempfile::Builder::new().prefix("fill").tempdir_in(dir)?;
    let world = World::alone(room.path())?;
    let mut ground = Ground::make(&world, room.path(), rows).await?;
    let mut took: [Vec<f64>; 4] = Default::default();
    for _ in 0..repeat {
        let kinds = [Work::OneUpdate, Work::Loop, Work::SyncedLoop, Work::Fill];
        for (took, work) in took.iter_mut().zip(kinds) {
            took.push(ground.alone(work).await?);
        }
    }
    let mut figures = alone(&took, rows);
    let mut felt: [Vec<Felt>; 5] = Default::default();
    for _ in 0..repeat {
        let kinds = [Work::Nothing, Work::Triggers, Work::Loop, Work::SyncedLoop, Work::Fill];
        for (felt, work) in felt.iter_mut().zip(kinds) {
            felt.push(ground.beside_load(work).await?);
        }
    }
    figures.extend(beside(&felt, repeat));
    Ok(figures)
}

fn alone(took: &[Vec<f64>; 4], rows: u32) -> Vec<Figure> {
    let runs = took[0].len();
    let [update, plain, synced, fill] = [0, 1, 2, 3].map(|kind| median(&took[kind]));
    let over = |peer: f64| format!("{fill:.1} s over {peer:.1} s, {rows} rows, medians of {runs} in turn");
    let name = "a fill alone over a plain loop with sync triggers";
    vec![
        Figure::limited(name, fill / synced, "x", 1.1, over(synced)),
        Figure::unlimited("a fill alone over a plain loop without triggers", fill / plain, "x", over(plain)),
        Figure::unlimited("a fill alone over one UPDATE", fill / update, "x", over(update)),
    ]
}

fn beside(felt: &[Vec<Felt>; 5], repeat: u32) -> Vec<Figure> {
    let p99 = |felt: &Vec<Felt>| median(&felt.iter().map(|felt| felt.p99).collect::<Vec<_>>());
    let [none, triggers, plain, synced, fill] = [0, 1, 2, 3, 4].map(|kind| p99(&felt[kind]));
    let over = |value: f64, peer: f64| {
        format!("{value:.1} ms over {peer:.1} ms, {RATE} transactions a second, medians of {repeat} in turn")
    };
    let figure = |name, value: f64, peer: f64, limit| {
        Figure::limited(name, value / peer, "x", limit, over(value, peer))
    };
    let [.., of_plain, _, of_fill] = felt;
    vec![
        figure("p99 with sync triggers over p99 without", triggers, none, 1.2),
        figure("p99 beside a fill over p99 beside a plain loop", fill, plain, 1.5),
        Figure::unlimited(
            "p99 beside a fill over p99 beside a plain loop with sync triggers",
            fill / synced,
            "x",
            over(fill, synced),
        ),
        Figure::limited(
            "share of fills with a stall above 50 ms",
            stalled(of_fill),
            "",
            0.2,
            longest(of_fill),
        ),
        Figure::unlimited(
            "share of plain loops with a stall above 50 ms",
            stalled(of_plain),
            "",
            longest(of_plain),
        ),
    ]
}

/// The share of runs, of 1, in which a transaction waited longer than a stall may last.
fn stalled(felt: &[Felt]) -> f64 {
    felt.iter().filter(|felt| felt.longest > STALL).count() as f64 / felt.len() as f64
}

fn longest(felt: &[Felt]) -> String {
    let each: Vec<String> = felt.iter().map(|felt| format!("{:.0}", felt.longest)).collect();
    format!("longest of each: {} ms", each.join(", "))
}

/// A server with a table that each run has a copy of.
struct Ground {
    postgres: Postgres,
    admin: PgConnection,
    migrations: MigrationSet,
    rows: u32,
    copies: u32,
}

impl Ground {
    async fn make(world: &World, dir: &Path, rows: u32) -> anyhow::Result<Self> {
        let postgres = postgres::start(world).await?;
        let mut seeding = connect(&postgres.create_database("seed").await?).await?;
        let seed = format!(
            "CREATE TABLE images (id bigint PRIMARY KEY, is_public boolean NOT NULL, payload text NOT NULL); \
             INSERT INTO images SELECT i, i % 10 = 0, repeat('x', 100) FROM generate_series(1, {rows}) i; \
             CHECKPOINT"
        );
        run(&mut seeding, &seed).await?;
        run(&mut seeding, "VACUUM (ANALYZE) images").await?;
        seeding.close().await?;
        let files = dir.join("migrations");
        std::fs::create_dir_all(&files)?;
        std::fs::write(files.join("0002_visibility.toml"), MIGRATION.replace("UP", UP))?;
        let migrations = MigrationSet::load(&files).context("the migration of the bench")?;
        let admin = connect(&postgres.url_of("postgres")).await?;
        Ok(Self { postgres, admin, migrations, rows, copies: 0 })
    }

    /// A fresh copy with the new column, ready for the work; its address.
    async fn copy(&mut self, work: Work) -> anyhow::Result<String> {
        run(&mut self.admin, &format!("DROP DATABASE IF EXISTS copy_{}", self.copies)).await?;
        self.copies += 1;
        let name = format!("copy_{}", self.copies);
        run(&mut self.admin, &format!("CREATE DATABASE {name} TEMPLATE seed")).await?;
        let url = self.postgres.url_of(&name);
        match work {
            Work::Triggers | Work::SyncedLoop | Work::Fill => {
                let (progress, _) = watch::channel(PhaseProgress::default());
                let engine = Engine::connect(&url.parse()?).await?;
                engine.expand(&self.migrations, &term(), &progress, &CancellationToken::new()).await?;
            }
            Work::Nothing | Work::OneUpdate | Work::Loop => {
                let mut session = connect(&url).await?;
                run(&mut session, "ALTER TABLE images ADD COLUMN visibility text").await?;
                session.close().await?;
            }
        }
        run(&mut self.admin, "CHECKPOINT").await?;
        Ok(url)
    }

    /// How many seconds the work takes.
    async fn alone(&mut self, work: Work) -> anyhow::Result<f64> {
        let url = self.copy(work).await?;
        let began = Instant::now();
        self.work(work, &url).await?;
        let took = began.elapsed().as_secs_f64();
        self.filled(&url).await?;
        Ok(took)
    }

    /// What the load feels while the work is done.
    async fn beside_load(&mut self, work: Work) -> anyhow::Result<Felt> {
        let url = self.copy(work).await?;
        let load = Load::start(&url, self.rows).await?;
        tokio::time::sleep(WARM).await;
        let began = Instant::now();
        self.work(work, &url).await?;
        let samples = load.stop(began).await?;
        if matches!(work, Work::Loop | Work::SyncedLoop | Work::Fill) {
            self.filled(&url).await?;
        }
        Ok(Felt { p99: quantile(&samples, 0.99), longest: quantile(&samples, 1.0) })
    }

    async fn work(&self, work: Work, url: &str) -> anyhow::Result<()> {
        match work {
            Work::Nothing | Work::Triggers => tokio::time::sleep(WINDOW).await,
            Work::OneUpdate => {
                let mut session = connect(url).await?;
                run(&mut session, &format!("UPDATE images SET visibility = {UP}")).await?;
                session.close().await?;
            }
            Work::Loop | Work::SyncedLoop => plain_loop(url).await?,
            Work::Fill => {
                let (progress, _) = watch::channel(PhaseProgress::default());
                let engine = Engine::connect(&url.parse()?).await?;
                engine.migrate(&self.migrations, &term(), &progress, &CancellationToken::new()).await?;
            }
        }
        Ok(())
    }

    async fn filled(&self, url: &str) -> anyhow::Result<()> {
        let mut session = connect(url).await?;
        let left = "SELECT count(*) FROM images WHERE visibility IS NULL";
        let left: i64 = sqlx::query_scalar(left).fetch_one(&mut session).await?;
        session.close().await?;
        ensure!(left == 0, "{left} of {} rows are not filled", self.rows);
        Ok(())
    }
}

/// As an administrator would write it: by key, 10,000 rows a transaction, without rest.
async fn plain_loop(url: &str) -> anyhow::Result<()> {
    let mut session = connect(url).await?;
    let mut after = 0_i64;
    let next = "SELECT max(id) FROM (SELECT id FROM images WHERE id > $1 ORDER BY id LIMIT $2) batch";
    let update =
        format!("UPDATE images SET visibility = {UP} WHERE id > $1 AND id <= $2 AND visibility IS NULL");
    loop {
        let last: Option<i64> =
            sqlx::query_scalar(next).bind(after).bind(BATCH).fetch_one(&mut session).await?;
        let Some(last) = last else { break };
        let batch = sqlx::query(AssertSqlSafe(update.clone())).bind(after).bind(last);
        batch.execute(&mut session).await?;
        after = last;
    }
    session.close().await?;
    Ok(())
}

/// An open load: each transaction has its time, and waits for a free connection after it.
struct Load {
    end: CancellationToken,
    tasks: JoinSet<anyhow::Result<Vec<(Instant, f64)>>>,
}

impl Load {
    async fn start(url: &str, rows: u32) -> anyhow::Result<Self> {
        let (end, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let (sender, due) = mpsc::unbounded_channel();
        let due = Arc::new(Mutex::new(due));
        for _ in 0..CLIENTS {
            tasks.spawn(client(connect(url).await?, Arc::clone(&due), rows));
        }
        let ended = end.clone();
        tasks.spawn(async move {
            let mut timer = tokio::time::interval(Duration::from_secs(1) / RATE);
            loop {
                tokio::select! {
                    at = timer.tick() => sender.send(at).context("the clients are gone")?,
                    () = ended.cancelled() => return Ok(Vec::new()),
                }
            }
        });
        Ok(Self { end, tasks })
    }

    /// Ends it when all that is due is done; the latencies since `began`, in milliseconds.
    async fn stop(mut self, began: Instant) -> anyhow::Result<Vec<f64>> {
        self.end.cancel();
        let mut samples = Vec::new();
        while let Some(ended) = self.tasks.join_next().await {
            let of_one = ended.context("a client broke")??;
            samples.extend(of_one.into_iter().filter(|(at, _)| *at >= began).map(|(_, took)| took));
        }
        Ok(samples)
    }
}

async fn client(
    mut session: PgConnection,
    due: Arc<Mutex<mpsc::UnboundedReceiver<Instant>>>,
    rows: u32,
) -> anyhow::Result<Vec<(Instant, f64)>> {
    let mut samples = Vec::new();
    loop {
        let next = due.lock().await.recv().await;
        let Some(at) = next else { break };
        let id = i64::from(rand::random_range(1..=rows));
        let statement = if rand::random_range(0..4) == 0 {
            "UPDATE images SET is_public = NOT is_public WHERE id = $1"
        } else {
            "SELECT id, is_public, payload FROM images WHERE id = $1"
        };
        sqlx::query(statement).bind(id).execute(&mut session).await?;
        samples.push((at, at.elapsed().as_secs_f64() * 1000.0));
    }
    session.close().await?;
    Ok(samples)
}

fn term() -> Term {
    Term { revision: 1, id: "bench".to_owned() }
}

async fn connect(url: &str) -> anyhow::Result<PgConnection> {
    PgConnection::connect(url).await.context("could not connect to the bench's PostgreSQL")
}

async fn run(session: &mut PgConnection, statements: &str) -> anyhow::Result<()> {
    session.execute(sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))).await?;
    Ok(())
}
