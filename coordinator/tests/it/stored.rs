//! Upgrades in mid-flight, in stores and databases that the first version of the records wrote: each goes on to its end.
//!
//! Each copy in `stored/` has every transaction of one store, in order, and the database as SQL. It is replayed, so every
//! record keeps its revision. The agents of that time are the herd, which takes its own last reports over.

use crate::herd::Herd;
use crate::process::{Daemon, run, tidegate};
use etcd_client::{Client, Txn, TxnOp};
use serde::Deserialize;
use sqlx::{Connection, SqliteConnection};
use std::path::Path;
use tidegate_embedded_etcd::Embedded;
use tokio_util::sync::CancellationToken;

const MIGRATION: &str = include_str!("stored/0002_colour.toml");

/// Waits in migrate for the approval of the roll: the schema is expanded, and every row is filled.
const MIGRATED: &str = include_str!("stored/migrated.json");

/// Waits in remove for an approval that accepts `sessions`: every instance runs version 2.
const REMOVED: &str = include_str!("stored/removed.json");

/// Paused in the roll: the second instance failed, and its failure is in the upgrade's own record.
const FAILED: &str = include_str!("stored/failed.json");

#[derive(Deserialize)]
struct Stored {
    store: Vec<Vec<Op>>,
    database: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Op {
    Put { put: String, value: String },
    Delete { delete: String },
}

impl Op {
    fn is_of_the_leader(&self) -> bool {
        let (Self::Put { put: key, .. } | Self::Delete { delete: key }) = self;
        key.ends_with("/leader")
    }
}

impl From<&Op> for TxnOp {
    fn from(op: &Op) -> Self {
        match op {
            Op::Put { put, value } => TxnOp::put(put.as_str(), value.as_str(), None),
            Op::Delete { delete } => TxnOp::delete(delete.as_str(), None),
        }
    }
}

/// The store as it was, and its leader gone.
async fn replay(stored: &Stored, dir: &Path) {
    let embedded = Embedded::open(dir, "replay").await.unwrap();
    let mut client: Client = embedded.client().await.unwrap();
    let mut leader = None;
    for ops in &stored.store {
        client.txn(Txn::new().and_then(ops.iter().map(TxnOp::from).collect::<Vec<_>>())).await.unwrap();
        leader = ops.iter().find(|op| op.is_of_the_leader()).or(leader);
    }
    if let Some(Op::Put { put, .. }) = leader {
        client.delete(put.as_str(), None).await.unwrap();
    }
    drop(client);
    embedded.close().await;
}

/// A database, the migrations, and a coordinator of this version over the store.
struct World {
    daemon: Daemon,
    url: String,
    migrations: std::path::PathBuf,
    end: CancellationToken,
    _place: tempfile::TempDir,
}

impl World {
    async fn of(copy: &str, broken: Option<usize>) -> Self {
        let stored: Stored = serde_json::from_str(copy).unwrap();
        let place = tempfile::tempdir().unwrap();
        let migrations = place.path().join("migrations/things");
        std::fs::create_dir_all(&migrations).unwrap();
        std::fs::write(migrations.join("0002_colour.toml"), MIGRATION).unwrap();
        let url = format!("sqlite:{}", place.path().join("things.db").display());
        let mut db = SqliteConnection::connect(&format!("{url}?mode=rwc")).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(stored.database.join("\n"))).execute(&mut db).await.unwrap();
        db.close().await.unwrap();
        let store = place.path().join("store");
        replay(&stored, &store).await;
        let daemon = Daemon::embedded(|command, dir| {
            std::fs::rename(&store, dir.join("store")).unwrap();
            command.arg("--migrations").arg(place.path().join("migrations")).env("THINGS_URL", &url);
        });
        let mut herd = Herd::taken_over(daemon.store().await).await;
        if let Some(n) = broken {
            herd = herd.break_at_2(n);
        }
        let end = CancellationToken::new();
        tokio::spawn(herd.run(end.clone()));
        Self { daemon, url, migrations, end, _place: place }
    }

    fn schema_check(&self) -> i32 {
        let args = ["schema", "check", "--from-env", "THINGS_URL", "--migrations"];
        run(tidegate().args(args).arg(&self.migrations).env("THINGS_URL", &self.url)).code
    }

    /// The columns of the table, and its rows.
    async fn table(&self) -> (Vec<String>, i64) {
        let mut db = SqliteConnection::connect(&self.url).await.unwrap();
        let columns = "SELECT name FROM pragma_table_info('things') ORDER BY cid";
        let columns = sqlx::query_scalar(columns).fetch_all(&mut db).await.unwrap();
        let rows = sqlx::query_scalar("SELECT count(*) FROM things").fetch_one(&mut db).await.unwrap();
        db.close().await.unwrap();
        (columns, rows)
    }

    fn asks(&self, args: &[&str]) {
        let said = self.daemon.ask(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}\n{}", self.daemon.log());
    }

    fn explains(&self, words: &[&str]) {
        self.daemon.until("it says where it is", &["upgrade", "explain", "u1"], |said| {
            words.iter().all(|word| said.out.contains(word))
        });
    }

    fn ends(&self, over: &str) {
        let watched = self.daemon.ask(&["upgrade", "watch", "u1"]);
        assert!(watched.out.contains(over), "{watched:?}\n{}", self.daemon.log());
    }

    async fn contracts(&self) {
        self.asks(&["upgrade", "approve", "u1", "contract", "--accept", "sessions"]);
        self.ends("over: completed");
        assert_eq!(self.schema_check(), 0, "nothing is left to do");
        assert_eq!(self.table().await, (vec!["id".to_owned(), "colour".to_owned()], 20));
        let certificate = self.daemon.ask(&["upgrade", "certificate", "u1"]);
        let file = self.daemon.file("c.json", &certificate.out);
        let verified = run(tidegate().args(["certificate", "verify", file.to_str().unwrap()]));
        assert_eq!(verified.code, 0, "{verified:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_in_migrate_goes_on_to_completed() {
    let world = World::of(MIGRATED, None).await;
    world.explains(&["approve u1 roll"]);
    world.asks(&["upgrade", "approve", "u1", "roll"]);
    world.explains(&["--accept sessions"]);
    world.contracts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_in_migrate_is_rolled_back() {
    let world = World::of(MIGRATED, None).await;
    world.explains(&["approve u1 roll"]);
    world.asks(&["upgrade", "rollback", "u1", "--why", "not today"]);
    world.ends("over: rolled-back");
    assert_eq!(world.table().await, (vec!["id".to_owned(), "shade".to_owned()], 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_in_remove_goes_on_to_completed() {
    let world = World::of(REMOVED, None).await;
    world.explains(&["--accept sessions"]);
    world.contracts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_with_a_failure_is_resumed_and_then_rolled_back() {
    let world = World::of(FAILED, Some(1)).await;
    world.explains(&["paused", "n00001"]);
    world.asks(&["upgrade", "retry", "u1", "n00001"]);
    world.explains(&["n00001"]);
    world.asks(&["upgrade", "rollback", "u1", "--why", "version 2 does not start there"]);
    world.ends("over: rolled-back");
    assert_eq!(world.table().await, (vec!["id".to_owned(), "shade".to_owned()], 20));
    assert_eq!(world.schema_check(), 3, "expand is next");
}
