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

/// A person makes what version 1 has, with 50 rows.
async fn version_1_by_hand(place: &Path, url: &str) {
    for verb in ["expand", "migrate"] {
        let done = schema(place, url, &[verb, "--to", "1"]);
        assert_eq!(done.code, 0, "{done:?}");
    }
    sql(url, ROWS).await;
}

fn daemon(place: &Path, url: &str) -> Daemon {
    Daemon::embedded(|command, _| {
        command.arg("--migrations").arg(place.join("migrations")).env("THINGS_URL", url);
    })
}

/// Four instances at version 1; one breaks at 2; they work until the token is cancelled.
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
    version_1_by_hand(place.path(), &url).await;
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

/// Runs a command of `tidegate schema` as a text advises it.
pub(crate) fn advised(place: &Path, url: &str, command: &str) -> Said {
    let words: Vec<&str> =
        command.strip_prefix("tidegate schema ").expect("of this tool").split(' ').collect();
    // The engine itself knows no variable.
    let words = words.strip_suffix(&["--from-env", "THINGS_URL"]).unwrap_or(&words);
    let (verb, directory) = words.split_at(words.len() - 2);
    assert_eq!(directory, ["--migrations", "DIR"], "{command}");
    schema(place, url, verb)
}

/// Version 2 makes a table for good: nothing of it is left to contract.
const MORE: &str = r#"
id = "0003_more"
version = 2
old_reads_migrated = true
[expand]
steps = [{ sql = "CREATE TABLE more (id integer)" }]
[undo]
steps = [{ sql = "DROP TABLE IF EXISTS more" }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn undo_by_hand_takes_nothing_that_was_not_named() {
    let (place, url) = place().await;
    std::fs::write(place.path().join("migrations/things/0003_more.toml"), MORE).unwrap();
    let run = |args: &str| schema(place.path(), &url, &args.split(' ').collect::<Vec<_>>());
    version_1_by_hand(place.path(), &url).await;
    for args in ["expand", "migrate"] {
        assert_eq!(run(args).code, 0, "{args}");
    }
    let all = run("undo --to 2 --nothing-new-runs");
    assert_eq!((all.code, all.err.contains("--migration")), (2, true), "{all:?}");
    let unknown = run("undo --from 1 --migration 0001_things --nothing-new-runs");
    assert_eq!((unknown.code, unknown.err.contains("0001_things")), (2, true), "{unknown:?}");
    let finished = run("undo --from 1 --nothing-new-runs");
    assert_eq!((finished.code, finished.err.contains("0003_more")), (3, true), "{finished:?}");
    assert!(number(&url, COLOURS).await.is_some(), "nothing was undone");
    assert_eq!(run("undo --migration 0003_more --nothing-new-runs").code, 0);
    assert_eq!(number(&url, "SELECT count(*) FROM more").await, None);
    assert_eq!(run("undo --from 1 --nothing-new-runs").code, 0);
    assert_eq!((number(&url, COLOURS).await, number(&url, COUNT).await), (None, Some(50)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_again_for_an_upgrade_is_that_upgrades() {
    let (place, url) = place().await;
    let run = |args: &str| schema(place.path(), &url, &args.split(' ').collect::<Vec<_>>());
    version_1_by_hand(place.path(), &url).await;
    for args in ["expand --from 1 --made-by u1", "migrate --from 1 --made-by u1"] {
        assert_eq!(run(args).code, 0, "{args}");
    }
    assert_eq!(number(&url, COLOURS).await, Some(50));
    let undone = run("undo --migration 0002_colour --nothing-new-runs");
    assert!(undone.out.contains("upgrade u1"), "a person's undo leaves it: {undone:?}");
    assert_eq!(number(&url, COLOURS).await, Some(50));
    assert_eq!(run("undo --from 1 --made-by u1 --nothing-new-runs").code, 0);
    assert_eq!((number(&url, COLOURS).await, number(&url, COUNT).await), (None, Some(50)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_names_no_upgrade_is_refused_as_owner() {
    let (place, url) = place().await;
    let run = |args: &[&str]| schema(place.path(), &url, args);
    version_1_by_hand(place.path(), &url).await;
    for owner in ["u/1", "unrecorded", "by hand"] {
        let refused = run(&["expand", "--from", "1", "--made-by", owner]);
        assert_eq!((refused.code, refused.err.contains("--made-by")), (2, true), "{refused:?}");
    }
    assert_eq!(number(&url, COLOURS).await, None);
    for owner in ["u/1", "by hand", "adopted by hand"] {
        let refused = run(&[
            "undo",
            "--to",
            "1",
            "--migration",
            "0001_things",
            "--nothing-new-runs",
            "--made-by",
            owner,
        ]);
        assert_eq!((refused.code, refused.err.contains("--made-by")), (2, true), "{refused:?}");
    }
    assert_eq!(number(&url, COUNT).await, Some(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn begun_undo_holds_the_start_until_the_advised_command_ends_it() {
    let (place, url) = place().await;
    let run = |args: &str| schema(place.path(), &url, &args.split(' ').collect::<Vec<_>>());
    version_1_by_hand(place.path(), &url).await;
    assert_eq!(run("expand --to 2").code, 0);
    sql(&url, "CREATE VIEW colours AS SELECT colour FROM things").await;
    assert_eq!(run("undo --from 1 --nothing-new-runs").code, 1, "the view needs the column");
    let daemon = daemon(place.path(), &url);
    let end = herd(&daemon).await;
    let refused = upgrade(&daemon);
    assert_eq!((refused.code, refused.err.contains("its undo has begun")), (3, true), "{refused:?}");
    sql(&url, "DROP VIEW colours").await;
    let ended = advised(place.path(), &url, refused.err.split('`').nth(1).unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!((number(&url, COLOURS).await, number(&url, COUNT).await), (None, Some(50)));
    let waited = upgrade(&daemon);
    assert!(waited.out.contains("over: rolled-back"), "it starts: {waited:?}");
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
