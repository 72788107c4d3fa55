//! A database of a test's own, on either engine.

use super::{Client, Cluster};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, PgConnection, SqliteConnection};
use std::str::FromStr;
use std::time::Duration;
use tidegate_migrations::{DatabaseUrl, Dialect, Engine};

pub(crate) struct Database {
    /// As an operator would write it, password included.
    pub text: String,
    pub url: DatabaseUrl,
    /// Keeps SQLite's file as long as the test.
    _directory: Option<tempfile::TempDir>,
}

impl Database {
    pub(crate) async fn sqlite() -> Database {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pantry.db");
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let mut client = Client::Sqlite(SqliteConnection::connect_with(&options).await.unwrap());
        client.run("PRAGMA journal_mode = WAL").await;
        client.close().await;
        let text = format!("sqlite:{}", path.display());
        Database { url: text.parse().unwrap(), text, _directory: Some(directory) }
    }

    pub(crate) async fn postgres() -> Database {
        let text = Cluster::shared().new_database().await;
        Database { url: text.parse().unwrap(), text, _directory: None }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.url.dialect()
    }

    pub(crate) async fn engine(&self) -> Engine {
        Engine::connect(&self.url).await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        match self.dialect() {
            Dialect::Postgres => Client::Postgres(PgConnection::connect(&self.text).await.unwrap()),
            Dialect::Sqlite => {
                let options = SqliteConnectOptions::from_str(&self.text).unwrap();
                let options = options.busy_timeout(Duration::from_secs(10));
                Client::Sqlite(SqliteConnection::connect_with(&options).await.unwrap())
            }
        }
    }

    /// The sample's tables as version 1 made them: every tenth image public, every tenth private with
    /// a member.
    pub(crate) async fn seeded(self, rows: u32) -> Database {
        let mut client = self.client().await;
        client
            .run(&format!(
                "CREATE TABLE images (id TEXT PRIMARY KEY, name TEXT NOT NULL, is_public BOOLEAN NOT NULL DEFAULT false,
                     size BIGINT NOT NULL, checksum TEXT NOT NULL, written_by INTEGER NOT NULL,
                     updated_at BIGINT NOT NULL);
                 CREATE TABLE image_members (image_id TEXT NOT NULL, member TEXT NOT NULL,
                     PRIMARY KEY (image_id, member));
                 INSERT INTO images WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                     SELECT 'image-' || (i * 7919 % 1000003), 'name', i % 10 = 0, i, 'sum', 1, 0 FROM n WHERE {rows} > 0;
                 INSERT INTO image_members SELECT id, 'bob' FROM images WHERE size % 10 = 3;"
            ))
            .await;
        client.close().await;
        self
    }
}
