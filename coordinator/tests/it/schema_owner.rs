//! An upgrade owns its own migrations, over the real binary, on SQLite: what version 1 had before it survives its
//! rollback.

use crate::process::{Daemon, Said, run, tidegate};
use crate::world::spec;
use sqlx::{Connection, SqliteConnection};
use std::path::Path;
use tokio_util::sync::CancellationToken;

const THINGS: &str = r#"
id = "0001_things"
version = 1
old_reads_migrated = true
[expand]
steps = [{ sql = "CREATE TABLE things (id integer PRIMARY KEY, shade text)" }]
[undo]
steps = [{ sql = "DROP TABLE IF EXISTS things" }]
"#;

/// As in files that ran elsewhere: it has no lower bound, asks what is there, and is irreversible.
const FORMER: &str = r#"
id = "0001_things"
version = 1
old_reads_migrated = false
[expand]
steps = [{ sql = "CREATE TABLE IF NOT EXISTS things (id integer PRIMARY KEY, shade text)" }]
[undo]
steps = [{ sql = "DROP TABLE IF EXISTS things" }]
"#;

/// Version 2 keeps a table whatever happens.
const KEPT: &str = r#"
id = "0003_kept"
version = 2
old_reads_migrated = true
[expand]
steps = [{ sql = "CREATE TABLE kept (id integer)", irreversible = true }]
"#;

/// A directory with two migrations, of version 1 and of version 2, and the URL of a database without tables.
async fn place() -> (tempfile::TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let migrations = place.path().join("migrations/things");
    std::fs::create_dir_all(&migrations).unwrap();
    std::fs::write(migrations.join("0001_things.toml"), THINGS).unwrap();
    std::fs::write(migrations.join("0002_colour.toml"), crate::schema::MIGRATION).unwrap();
    let url = format!("sqlite:{}", place.path().join("things.db").display());
    SqliteConnection::connect(&format!("{url}?mode=rwc")).await.unwrap().close().await.unwrap();
    (place, url)
}

async fn sql(url: &str, text: &'static str) {
    let mut db = SqliteConnection::connect(url).await.unwrap();
    sqlx::raw_sql(text).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
}

async fn number(url: &str, query: &'static str) -> Option<i64> {
    let mut db = SqliteConnection::connect(url).await.unwrap();
    let found = sqlx::query_scalar(query).fetch_one(&mut db).await.ok();
    db.close().await.unwrap();
    found
}

const ROWS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) \
                    INSERT INTO things SELECT i, 'x' || i FROM n";
const COUNT: &str = "SELECT count(*) FROM things WHERE shade IS NOT NULL";
const COLOURS: &str = "SELECT count(colour) FROM things";

fn schema(place: &Path, url: &str, verb: &[&str]) -> Said {
    let migrations = place.join("migrations/things");
    run(tidegate()
        .args(["--json", "schema"])
        .args(verb)
        .arg("--migrations")
        .arg(migrations)
        .env("DATABASE_URL", url))
}

fn daemon(place: &Path, url: &str) -> Daemon {
    Daemon::embedded(|command, _| {
        command.arg("--migrations").arg(place.join("migrations")).env("THINGS_URL", url);
    })
}

/// Four instances at version 1, of which one breaks at 2; they work until the token is cancelled.
async fn herd(daemon: &Daemon) -> CancellationToken {
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(4).await.break_at_2(1).run(end.clone()));
    end
}

/// Upgrades them from 1 to 2 until it is over: one breaks, so it is rolled back.
fn upgrade(daemon: &Daemon) -> Said {
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 2\n{}", crate::schema::SCHEMA)));
    daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1", "--wait"])
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_keeps_what_version_1_made_by_hand() {
    let (place, url) = place().await;
    for verb in ["expand", "migrate"] {
        let done = schema(place.path(), &url, &[verb, "--to", "1"]);
        assert_eq!(done.code, 0, "{done:?}");
    }
    sql(&url, ROWS).await;
    let daemon = daemon(place.path(), &url);
    let end = herd(&daemon).await;
    let waited = upgrade(&daemon);
    assert_eq!(waited.code, 1, "{waited:?}\n{}", daemon.log());
    assert!(waited.out.contains("over: rolled-back"), "{waited:?}");
    assert_eq!(number(&url, COUNT).await, Some(50), "{}", daemon.log());
    assert_eq!(number(&url, COLOURS).await, None, "its own column is gone");
    let spread = daemon.ask(&["fleet", "spread", "pantry-api"]);
    assert!(spread.out.contains("4 at 1"), "{spread:?}");
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_table_of_50_rows_survives_a_rollback() {
    let (place, url) = place().await;
    std::fs::write(place.path().join("migrations/things/0001_things.toml"), FORMER).unwrap();
    std::fs::write(place.path().join("migrations/things/0003_kept.toml"), KEPT).unwrap();
    sql(&url, "CREATE TABLE things (id integer PRIMARY KEY, shade text)").await;
    sql(&url, ROWS).await;
    let daemon = daemon(place.path(), &url);
    let end = herd(&daemon).await;
    let refused = upgrade(&daemon);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("tidegate schema adopt --to 1"), "{refused:?}");
    assert_eq!(number(&url, "SELECT count(*) FROM tidegate_history").await, None, "nothing was claimed");

    let adopt = ["adopt", "--to", "1", "--why", "made by the installer"];
    let would = schema(place.path(), &url, &[&adopt[..], &["--dry-run"]].concat());
    assert!(would.code == 0 && would.out.contains("\"dry_run\":true"), "{would:?}");
    assert!(would.out.contains("0001_things"), "{would:?}");
    assert_eq!(number(&url, "SELECT count(*) FROM tidegate_history").await, None, "only shown");
    let done = schema(place.path(), &url, &adopt);
    assert_eq!(done.code, 0, "{done:?}");

    let waited = upgrade(&daemon);
    assert_eq!(waited.code, 1, "{waited:?}\n{}", daemon.log());
    assert!(waited.out.contains("over: rolled-back"), "an irreversible baseline forbids nothing: {waited:?}");
    assert_eq!(number(&url, COUNT).await, Some(50), "{}", daemon.log());
    assert_eq!(number(&url, COLOURS).await, None, "its own column is gone");
    assert_eq!(number(&url, "SELECT count(*) FROM kept").await, Some(0), "irreversible");
    for verb in [["upgrade", "status", "u1"], ["upgrade", "explain", "u1"], ["upgrade", "history", "u1"]] {
        let said = daemon.ask(&verb);
        assert!(said.out.contains("CREATE TABLE kept") && said.out.contains("irreversible"), "{said:?}");
    }
    let spread = daemon.ask(&["fleet", "spread", "pantry-api"]);
    assert!(spread.out.contains("4 at 1"), "{spread:?}");
    end.cancel();
}
