//! What the stories need: a seeded database, a client of its own, the sample's migrations.

use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tidegate_migrations::{ContractProof, DatabaseUrl, Engine, MigrationSet, PhaseProgress, Term};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub fn sample() -> MigrationSet {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../grenade-tests/sample/migrations");
    MigrationSet::load(&directory).unwrap_or_else(|e| panic!("{e}"))
}

pub fn term(revision: i64) -> Term {
    Term { revision, id: format!("term-{revision}") }
}

pub fn proof() -> ContractProof {
    ContractProof { certificate: "certificate-1".into(), digest: "sha256:00".into() }
}

pub fn watcher() -> watch::Sender<PhaseProgress> {
    watch::channel(PhaseProgress::default()).0
}

pub fn patient() -> CancellationToken {
    CancellationToken::new()
}

/// The sample's tables as version 1 made them, with rows.
pub fn seed(rows: u32) -> String {
    let numbers = format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})");
    format!(
        "CREATE TABLE images (id TEXT PRIMARY KEY, name TEXT NOT NULL, is_public BOOLEAN NOT NULL DEFAULT false,
             size BIGINT NOT NULL, checksum TEXT NOT NULL, written_by INTEGER NOT NULL, updated_at BIGINT NOT NULL);
         CREATE TABLE image_members (image_id TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (image_id, member));
         {numbers} INSERT INTO images SELECT 'image-' || (i * 7919 % 1000003), 'name', i % 10 = 0, i, 'sum', 1, 0 FROM n;
         INSERT INTO image_members SELECT id, 'bob' FROM images WHERE size % 10 = 3;"
    )
}

/// A SQLite file of a test's own.
pub struct Sqlite {
    pub directory: tempfile::TempDir,
    pub url: DatabaseUrl,
}

impl Sqlite {
    pub async fn seeded(rows: u32) -> Sqlite {
        let database = Sqlite::empty().await;
        if rows > 0 {
            let mut client = database.client().await;
            run(&mut client, "PRAGMA journal_mode = WAL").await;
            run(&mut client, &seed(rows)).await;
        }
        database
    }

    pub async fn empty() -> Sqlite {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pantry.db");
        let url = format!("sqlite:{}", path.display()).parse().unwrap();
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let mut client = SqliteConnection::connect_with(&options).await.unwrap();
        run(&mut client, "PRAGMA journal_mode = WAL").await;
        client.close().await.unwrap();
        Sqlite { directory, url }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("pantry.db")
    }

    pub async fn client(&self) -> SqliteConnection {
        let url = format!("sqlite:{}", self.path().display());
        let options = sqlx::sqlite::SqliteConnectOptions::from_str(&url)
            .unwrap()
            .busy_timeout(std::time::Duration::from_secs(10));
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    pub async fn engine(&self) -> Engine {
        Engine::connect(&self.url).await.unwrap()
    }
}

pub async fn run(client: &mut SqliteConnection, sql: &str) {
    try_run(client, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

pub async fn try_run(client: &mut SqliteConnection, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(client).await.map(|_| ())
}

pub async fn number(client: &mut SqliteConnection, sql: &str) -> i64 {
    let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(client).await;
    row.unwrap_or_else(|e| panic!("{sql}: {e}")).get(0)
}

pub async fn text(client: &mut SqliteConnection, sql: &str) -> Option<String> {
    let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(client).await;
    row.unwrap_or_else(|e| panic!("{sql}: {e}")).get(0)
}
