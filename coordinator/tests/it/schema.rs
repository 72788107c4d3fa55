//! An upgrade with a schema, on SQLite, over the real binary.

use crate::process::{Daemon, Said, run, tidegate};
use crate::world::{LIMIT, spec};
use sqlx::{Connection, SqliteConnection};
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_proto::{Commit, Key};
use tokio_util::sync::CancellationToken;

pub(crate) const MIGRATION: &str = r#"
id = "0002_colour"
version = 2
old_reads_migrated = true
[expand]
steps = [{ add_column = { table = "things", column = "colour", type = "text" } }]
[migrate]
requires = "expanded"
steps = [{ backfill = { table = "things", key = "id", where = "colour IS NULL", batch_ms = 5, set = { colour = "'c' || shade" } } }]
verify = "SELECT count(*) FROM things WHERE colour IS NULL"
[contract]
steps = [{ drop_column = { table = "things", column = "shade" } }]
[undo]
steps = [{ drop_column = { table = "things", column = "colour" } }]
"#;

pub(crate) const SCHEMA: &str =
    "schema: {database: {from_env: THINGS_URL}, migrations: things}\napprovals: [contract]";

async fn database(dir: &Path) -> String {
    let url = format!("sqlite:{}", dir.join("things.db").display());
    let mut db = SqliteConnection::connect(&format!("{url}?mode=rwc")).await.unwrap();
    sqlx::query("CREATE TABLE things (id integer PRIMARY KEY, shade text)").execute(&mut db).await.unwrap();
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
                INSERT INTO things SELECT i, 'x' || i FROM n";
    sqlx::query(rows).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
    url
}

/// A directory with migrations and a database, which outlives the daemon that uses it.
pub(crate) async fn place() -> (tempfile::TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let migrations = place.path().join("migrations/things");
    std::fs::create_dir_all(&migrations).unwrap();
    std::fs::write(migrations.join("0002_colour.toml"), MIGRATION).unwrap();
    let url = database(place.path()).await;
    (place, url)
}

pub(crate) fn daemon(place: &Path, url: Option<&str>) -> Daemon {
    Daemon::embedded(|command, _| {
        command.arg("--migrations").arg(place.join("migrations"));
        if let Some(url) = url {
            command.env("THINGS_URL", url);
        }
    })
}

fn check(place: &Path, url: &str) -> Said {
    let migrations = place.join("migrations/things");
    run(tidegate()
        .args(["schema", "check", "--from-env", "THINGS_URL", "--migrations"])
        .arg(migrations)
        .env("THINGS_URL", url))
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_is_expanded_migrated_and_contracted_by_certificate() {
    let (place, url) = place().await;
    let daemon = daemon(place.path(), Some(&url));
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    assert_eq!(check(place.path(), &url).code, 3, "expand is next");
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{SCHEMA}")));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    daemon.until("contract waits for a person", &["upgrade", "explain", "u1"], |said| {
        said.out.contains("u1: phase remove") && said.out.contains("sessions")
    });
    assert_eq!(check(place.path(), &url).code, 5, "contract is next");
    let plain = daemon.ask(&["upgrade", "approve", "u1", "contract"]);
    assert_eq!((plain.code, plain.err.contains("--accept sessions")), (2, true), "{plain:?}");
    let approved =
        daemon.ask(&["upgrade", "approve", "u1", "contract", "--accept", "sessions", "--note", "seen"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    assert_eq!(watched.code, 0, "{watched:?}\n{}", daemon.log());
    assert_eq!(check(place.path(), &url).code, 0, "nothing is left to do");

    let certificate = daemon.ask(&["upgrade", "certificate", "u1"]);
    assert_eq!(certificate.code, 0, "{certificate:?}");
    let file = daemon.file("c.json", &certificate.out);
    let verified = run(tidegate().args(["certificate", "verify", file.to_str().unwrap()]));
    assert_eq!(verified.code, 0, "{verified:?}");
    let piped = tidegate()
        .args(["certificate", "verify", "-"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(piped.status.success(), "{piped:?}");
    let status = daemon.ask(&["--json", "upgrade", "status", "u1"]);
    let sealed: serde_json::Value = serde_json::from_str(&certificate.out).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status["certificate"], sealed["digest"]);
    let altered = daemon.file("altered.json", &certificate.out.replacen("\"pending\":0", "\"pending\":1", 1));
    let verified = run(tidegate().args(["certificate", "verify", altered.to_str().unwrap()]));
    assert_eq!((verified.code, verified.err.contains("digest")), (1, true), "{verified:?}");
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_needs_of_a_schema_are_refused_before_any_change() {
    let (place, url) = place().await;
    let start = |daemon: &Daemon, spec: &str| {
        let path = daemon.file("spec.yaml", spec);
        daemon.ask(&["upgrade", "start", path.to_str().unwrap()])
    };
    let without = daemon(place.path(), None);
    let _herd = without.herd(3).await;
    let good = spec(&format!("min_in_service: 1\n{SCHEMA}"));
    let said = start(&without, &good);
    assert_eq!((said.code, said.err.contains("THINGS_URL")), (3, true), "{said:?}");
    let said = start(&without, &good.replace("migrations: things", "migrations: ../things"));
    assert_eq!((said.code, said.err.contains("below --migrations")), (3, true), "{said:?}");
    drop(without);

    let away = daemon(place.path(), Some("postgres://op:secret-word@127.0.0.1:1/things"));
    let _herd = away.herd(3).await;
    let said = start(&away, &good);
    assert_eq!((said.code, said.err.contains("could not reach the database")), (0, true), "{said:?}");
    assert!(!said.err.contains("secret-word") && !away.log().contains("secret-word"), "{said:?}");
    let id = said.out.trim();
    away.until("it waits in preflight", &["upgrade", "explain", id], |said| {
        said.out.contains(": phase preflight") && said.out.contains("could not reach the database")
    });
    assert_eq!(away.ask(&["upgrade", "rollback", id, "--why", "the URL is wrong"]).code, 0);
    assert_eq!(away.ask(&["upgrade", "watch", id]).code, 1, "it has ended and changed nothing");
    assert_eq!(check(place.path(), &url).code, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_or_missing_migrations_prevent_leading() {
    let (place, url) = place().await;
    let first = daemon(place.path(), Some(&url));
    let end = CancellationToken::new();
    tokio::spawn(first.herd(3).await.run(end.clone()));
    let asked = SCHEMA.replace("approvals: [contract]", "approvals: [expand]");
    let path = first.file("spec.yaml", &spec(&format!("min_in_service: 1\n{asked}")));
    let started = first.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    first.until("expand waits for a person", &["upgrade", "explain", "u1"], |said| {
        said.out.contains("approve u1 expand")
    });

    let file = place.path().join("migrations/things/0002_colour.toml");
    std::fs::write(&file, MIGRATION.replace("'c' || shade", "'d' || shade")).unwrap();
    assert_eq!(first.ask(&["upgrade", "approve", "u1", "expand"]).code, 0);
    first.until("it waits for the migrations", &["upgrade", "explain", "u1"], |said| {
        said.out.contains("bring back the files as they were")
    });
    assert_eq!(check(place.path(), &url).code, 3, "nothing was expanded");
    std::fs::write(&file, MIGRATION).unwrap();
    first.until("it goes on", &["upgrade", "explain", "u1"], |said| said.out.contains("--accept sessions"));
    assert_eq!(check(place.path(), &url).code, 5);

    // Another coordinator over the same store has no migrations: it may not lead when the first one ends.
    let second = Daemon::beside(&first);
    let ready = second.http("/readyz");
    assert!(ready.contains("\"leads\":false"), "{ready}");
    second.until("it says why it does not stand", &["upgrade", "list"], |_| {
        second.log().contains("does not campaign for leadership") && second.log().contains("--migrations")
    });
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_expand_back() {
    let (place, url) = place().await;
    let daemon = daemon(place.path(), Some(&url));
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(4).await.break_at_2(1).run(end.clone()));
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 2\n{SCHEMA}")));
    let waited = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1", "--wait"]);
    assert_eq!(waited.code, 1, "{waited:?}\n{}", daemon.log());
    assert!(waited.out.contains("over: rolled-back") && waited.out.contains("n00001"), "{waited:?}");
    let checked = check(place.path(), &url);
    assert_eq!((checked.code, checked.out.contains("next: expand")), (3, true), "{checked:?}");
    let spread = daemon.ask(&["fleet", "spread", "pantry-api"]);
    assert!(spread.out.contains("4 at 1"), "{spread:?}");
    let history = daemon.ask(&["--json", "upgrade", "history", "u1"]);
    let last: serde_json::Value = serde_json::from_str(history.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["to"], "rolled-back", "{history:?}");
    end.cancel();
}

/// How many rows the fill of the test of pauses has to fill.
const ROWS: i64 = 100_000;

/// Makes each filled row cost some 0.1 ms, so that the fill runs for as long as the test needs, on any machine.
const SLOW: &str = "CREATE TRIGGER slow AFTER UPDATE ON things BEGIN \
    SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n); \
    END";

/// How many rows the fill has filled.
async fn filled(url: &str) -> i64 {
    let mut db = SqliteConnection::connect(url).await.unwrap();
    let rows = "SELECT rows_done FROM tidegate_history WHERE phase = 'migrate' AND rows_total > 0";
    let found: Option<i64> = sqlx::query_scalar(rows).fetch_optional(&mut db).await.unwrap();
    db.close().await.unwrap();
    found.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_a_running_fill_and_resume_goes_on_from_there() {
    let (place, url) = place().await;
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    let more = "WITH RECURSIVE n(i) AS (SELECT 3001 UNION ALL SELECT i + 1 FROM n WHERE i < ?) \
                INSERT INTO things SELECT i, 'x' || i FROM n";
    sqlx::query(more).bind(ROWS).execute(&mut db).await.unwrap();
    sqlx::query(SLOW).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
    let daemon = daemon(place.path(), Some(&url));
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{SCHEMA}")));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    let explain = ["upgrade", "explain", "u1"];
    daemon.until("the fill runs", &explain, |said| {
        said.out.contains(": phase migrate") && said.out.contains("schema migrate")
    });
    let paused = daemon.ask(&["upgrade", "pause", "u1", "--why", "the database is slow"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    daemon.until("the job ends", &explain, |_| daemon.log().contains("no longer asked for, and ends"));
    daemon.until("it was stopped", &explain, |_| daemon.log().contains("not done"));
    let done = filled(&url).await;
    assert!(done < ROWS, "it was over before");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(filled(&url).await, done, "a paused upgrade fills nothing");
    assert_eq!(daemon.ask(&["upgrade", "resume", "u1"]).code, 0);
    let until = Instant::now() + LIMIT;
    while filled(&url).await <= done {
        assert!(Instant::now() < until, "it does not go on from {done}\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    end.cancel();
}

fn has_open(daemon: &Daemon, file: &Path) -> bool {
    let mut open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().flatten();
    open.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|found| found == file))
}

#[tokio::test(flavor = "multi_thread")]
async fn start_of_a_deposed_leader_claims_no_locked_database() {
    let (place, url) = place().await;
    let daemon = daemon(place.path(), Some(&url));
    let _herd = daemon.herd(3).await;
    let mut writer = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut writer).await.unwrap();
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{SCHEMA}")));
    let mut start = daemon.command(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    let started = tokio::task::spawn_blocking(move || run(&mut start));
    // Once the daemon has the database open, its leadership of now is the one that starts the upgrade.
    let (database, until) = (place.path().canonicalize().unwrap().join("things.db"), Instant::now() + LIMIT);
    while !has_open(&daemon, &database) {
        assert!(Instant::now() < until, "it does not look at the database\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    daemon.store().await.commit(&Commit::new().delete(Key::Leader)).await.unwrap();
    let said = started.await.unwrap();
    assert_eq!(
        (said.code, said.err.contains("lost the leadership")),
        (4, true),
        "{said:?}\n{}",
        daemon.log()
    );
    sqlx::query("ROLLBACK").execute(&mut writer).await.unwrap();
    let claims = "SELECT count(*) FROM sqlite_master WHERE name = 'tidegate_schema'";
    let claims: i64 = sqlx::query_scalar(claims).fetch_one(&mut writer).await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(claims, 0, "{}", daemon.log());
}
