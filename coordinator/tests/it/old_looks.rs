//! No decision rests on an old look at the database, and none is made on one that another store leads: SQLite, over the
//! real binary.

use crate::process::{Daemon, Said};
use crate::schema::{MIGRATION, SCHEMA, daemon, place};
use crate::schema_owner::advised;
use crate::world::spec;
use sqlx::{Connection, SqliteConnection};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn rows(url: &str, sql: &'static str) -> i64 {
    let mut db = SqliteConnection::connect(url).await.unwrap();
    let count = sqlx::query_scalar(sql).fetch_one(&mut db).await.unwrap();
    db.close().await.unwrap();
    count
}

fn start(daemon: &Daemon, approvals: &str) -> Said {
    start_as(daemon, "u1", approvals)
}

fn start_as(daemon: &Daemon, id: &str, approvals: &str) -> Said {
    let asked = SCHEMA.replace("approvals: [contract]", approvals);
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{asked}")));
    daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", id])
}

fn until(daemon: &Daemon, explained: &str) {
    daemon.until(explained, &["upgrade", "explain", "u1"], |said| said.out.contains(explained));
}

fn approve(daemon: &Daemon, args: &[&str]) {
    let said = daemon.ask(&[&["upgrade", "approve", "u1"], args].concat());
    assert_eq!(said.code, 0, "{said:?}");
}

fn rollback_ends(daemon: &Daemon) {
    let back = daemon.ask(&["upgrade", "rollback", "u1", "--why", "the database was replaced"]);
    assert_eq!(back.code, 0, "{back:?}");
    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    let is_rolled_back = watched.out.contains("rolled-back");
    assert_eq!((watched.code, is_rolled_back), (1, true), "{watched:?}\n{}", daemon.log());
}

/// A coordinator, three agents that run until the token is cancelled, and an upgrade with these settings that has begun.
async fn begun(place: &Path, url: &str, settings: &str) -> (Daemon, CancellationToken) {
    let (daemon, end) = (daemon(place, Some(url)), CancellationToken::new());
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let started = start(&daemon, settings);
    assert_eq!(started.code, 0, "{started:?}");
    (daemon, end)
}

fn rollback_is_advised_and_ends(daemon: &Daemon) {
    let explained = daemon.ask(&["upgrade", "explain", "u1"]);
    assert!(explained.out.contains("tidegate upgrade rollback u1"), "{explained:?}");
    rollback_ends(daemon);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_an_old_program_is_filled_in_remove() {
    let (place, url) = place().await;
    let (daemon, end) = begun(place.path(), &url, "approvals: [remove, contract]").await;
    until(&daemon, "approve u1 remove");
    approve(&daemon, &["remove"]);
    until(&daemon, "--accept sessions");
    // The database was looked at in remove already, and the row comes after that.
    change(&url, "INSERT INTO things VALUES (900000, 'late', NULL)").await;
    approve(&daemon, &["contract", "--accept", "sessions"]);
    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    assert_eq!(watched.code, 0, "{watched:?}\n{}", daemon.log());
    assert_eq!(rows(&url, "SELECT count(*) FROM things WHERE colour = 'clate'").await, 1);
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_database_stops_the_roll() {
    let (place, url) = place().await;
    let (database, older) = (place.path().join("things.db"), place.path().join("older.db"));
    let (daemon, end) = begun(place.path(), &url, "approvals: [expand, roll]").await;
    until(&daemon, "approve u1 expand");
    std::fs::copy(&database, &older).unwrap();
    approve(&daemon, &["expand"]);
    until(&daemon, "approve u1 roll");
    std::fs::rename(&older, &database).unwrap();
    approve(&daemon, &["roll"]);
    until(&daemon, "the database no longer shows that expand is done");
    // It is looked at with growing pauses, and each look that ends takes a turn.
    let before = turns(&daemon);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let taken = turns(&daemon) - before;
    assert!(taken <= 25, "{taken} turns in 5 s");
    let spread = daemon.ask(&["fleet", "spread", "pantry-api"]);
    assert!(spread.out.contains("3 at 1"), "{spread:?}");
    rollback_is_advised_and_ends(&daemon);
    end.cancel();
}

/// An undo has begun and not ended, as where the store is replaced during it by a copy from before the rollback.
#[tokio::test(flavor = "multi_thread")]
async fn begun_undo_stops_the_roll_and_a_rollback_ends_it() {
    let (place, url) = place().await;
    let (daemon, end) = begun(place.path(), &url, "approvals: [roll]").await;
    until(&daemon, "approve u1 roll");
    change(&url, "CREATE VIEW colours AS SELECT colour FROM things").await;
    let undo =
        "tidegate schema undo --migration 0002_colour --made-by u1 --nothing-new-runs --migrations DIR";
    assert_eq!(advised(place.path(), &url, undo).code, 1, "the view needs the column");
    approve(&daemon, &["roll"]);
    until(&daemon, "the database no longer shows that expand is done");
    let spread = daemon.ask(&["fleet", "spread", "pantry-api"]);
    assert!(spread.out.contains("3 at 1"), "{spread:?}");
    change(&url, "DROP VIEW colours").await;
    rollback_is_advised_and_ends(&daemon);
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn older_copy_after_irreversible_rows_is_migrated_again_by_hand() {
    let (place, url) = place().await;
    let (database, older) = (place.path().join("things.db"), place.path().join("older.db"));
    let irreversible = MIGRATION.replace("old_reads_migrated = true", "old_reads_migrated = false");
    std::fs::write(place.path().join("migrations/things/0002_colour.toml"), irreversible).unwrap();
    let (daemon, end) = begun(place.path(), &url, "approvals: [expand, contract]").await;
    until(&daemon, "approve u1 expand");
    std::fs::copy(&database, &older).unwrap();
    approve(&daemon, &["expand"]);
    until(&daemon, "--accept sessions");
    std::fs::rename(&older, &database).unwrap();
    approve(&daemon, &["contract", "--accept", "sessions"]);
    until(&daemon, "the database no longer shows that expand is done");
    let explained = daemon.ask(&["upgrade", "explain", "u1"]).out;
    let helps = explained.lines().find_map(|line| line.trim().strip_prefix("next step: ")).unwrap();
    for command in helps.split(", then ") {
        let done = advised(place.path(), &url, command);
        assert_eq!(done.code, 0, "{done:?}");
    }
    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    assert_eq!(watched.code, 0, "{watched:?}\n{}", daemon.log());
    assert_eq!(rows(&url, "SELECT count(*) FROM things WHERE colour IS NOT NULL").await, 3000);
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_beside_a_migrate_that_fails_is_named() {
    let (place, url) = place().await;
    let (database, older) = (place.path().join("things.db"), place.path().join("older.db"));
    // The count of the rows that are left fails, so migrate is tried again and again.
    let fails = MIGRATION.replace("FROM things WHERE colour IS NULL\"", "FROM unfilled\"");
    std::fs::write(place.path().join("migrations/things/0002_colour.toml"), fails).unwrap();
    let (daemon, end) = begun(place.path(), &url, "approvals: [expand]").await;
    until(&daemon, "approve u1 expand");
    std::fs::copy(&database, &older).unwrap();
    approve(&daemon, &["expand"]);
    until(&daemon, "no such table: unfilled");
    std::fs::rename(&older, &database).unwrap();
    until(&daemon, "the database no longer shows that expand is done");
    rollback_ends(&daemon);
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_ends_on_a_copy_from_before_the_upgrade() {
    let (place, url) = place().await;
    let (database, older) = (place.path().join("things.db"), place.path().join("older.db"));
    std::fs::copy(&database, &older).unwrap();
    let (daemon, end) = begun(place.path(), &url, "approvals: [roll]").await;
    until(&daemon, "approve u1 roll");
    std::fs::rename(&older, &database).unwrap();
    approve(&daemon, &["roll"]);
    until(&daemon, "holds no schema id");
    rollback_ends(&daemon);
    let history = daemon.ask(&["upgrade", "history", "u1"]);
    assert!(history.out.contains("left in place: the database that THINGS_URL names"), "{history:?}");
    end.cancel();
}

fn turns(daemon: &Daemon) -> u64 {
    let metrics = daemon.http("/metrics");
    let line = metrics.lines().find(|line| line.starts_with("tidegate_turns_total"));
    line.and_then(|line| line.split_whitespace().last())
        .unwrap_or_else(|| panic!("{metrics}"))
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_for_the_roll_count_no_rows() {
    let (place, url) = place().await;
    let file = place.path().join("migrations/things/0002_colour.toml");
    // It migrates after the roll. A count of the rows fails until there is a view of them.
    let by_view = MIGRATION.replace("FROM things WHERE colour IS NULL\"", "FROM unfilled\"");
    let after_roll = by_view.replace("\"expanded\"", "{ floor = 2 }");
    std::fs::write(file, after_roll).unwrap();
    let (daemon, end) = begun(place.path(), &url, "approvals: [contract]").await;
    until(&daemon, "no such table: unfilled");
    until(&daemon, "u1: phase migrate");
    let spread = daemon.ask(&["fleet", "spread", "pantry-api"]);
    assert!(spread.out.contains("3 at 2"), "{spread:?}");
    change(&url, "CREATE VIEW unfilled AS SELECT id FROM things WHERE colour IS NULL").await;
    until(&daemon, "--accept sessions");
    end.cancel();
}

async fn change(url: &str, sql: &'static str) {
    let mut db = SqliteConnection::connect(url).await.unwrap();
    sqlx::query(sql).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
}

async fn term(url: &str) -> String {
    let mut db = SqliteConnection::connect(url).await.unwrap();
    let term = sqlx::query_scalar("SELECT term_id FROM tidegate_schema").fetch_one(&mut db).await.unwrap();
    db.close().await.unwrap();
    term
}

fn on_store(place: &Path, url: &str) -> Daemon {
    Daemon::embedded_in(&place.join("store"), |command, _| {
        command.arg("--migrations").arg(place.join("migrations")).env("THINGS_URL", url);
    })
}

/// The number of a term that counts on from a store before the one that its agents obeyed.
const COUNTED_ON: &str = "UPDATE tidegate_schema SET term_revision = term_revision + 1000";

fn reconcile(daemon: &Daemon) {
    let plan = daemon.ask(&["--json", "fleet", "reconcile"]);
    let plan: serde_json::Value = serde_json::from_str(&plan.out).unwrap_or_else(|_| panic!("{plan:?}"));
    let hash = plan["hash"].as_str().unwrap();
    let reconciled =
        daemon.ask(&["fleet", "reconcile", "--apply", hash, "--why", "the former store was lost"]);
    assert_eq!(reconciled.code, 0, "{reconciled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_on_a_higher_number_goes_on_after_reconciliation() {
    let (place, url) = place().await;
    let (daemon, end) = begun(place.path(), &url, "approvals: [expand, roll]").await;
    until(&daemon, "approve u1 expand");
    change(&url, COUNTED_ON).await;
    approve(&daemon, &["expand"]);
    until(&daemon, "gives no higher number");
    let explained = daemon.ask(&["upgrade", "explain", "u1"]);
    assert!(explained.out.contains("(`tidegate fleet reconcile`)"), "{explained:?}");
    reconcile(&daemon);
    until(&daemon, "approve u1 roll");
    end.cancel();
}

/// A number that no store can have given, and its correction.
const DAMAGED: &str = "UPDATE tidegate_schema SET term_revision = 9223372036854775807";
const CORRECTED: &str = "UPDATE tidegate_schema SET term_revision = 0";

#[tokio::test(flavor = "multi_thread")]
async fn impossible_number_of_a_database_is_named() {
    let (place, url) = place().await;
    let (daemon, end) = begun(place.path(), &url, "approvals: [expand, roll]").await;
    until(&daemon, "approve u1 expand");
    change(&url, DAMAGED).await;
    approve(&daemon, &["expand"]);
    until(&daemon, "which no store before this one");
    let explained = daemon.ask(&["upgrade", "explain", "u1"]);
    assert!(explained.out.contains("set term_revision"), "{explained:?}");
    change(&url, CORRECTED).await;
    until(&daemon, "approve u1 roll");
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn database_led_by_other_store_needs_reconciliation() {
    let (place, url) = place().await;
    let former = daemon(place.path(), Some(&url));
    let _herd = former.herd(3).await;
    assert_eq!(start(&former, "approvals: [stage, contract]").code, 0);
    drop(former);
    let known = term(&url).await;

    let mut blank = on_store(place.path(), &url);
    let _herd = blank.herd(3).await;
    let refused = |daemon: &Daemon| {
        let said = start(daemon, "approvals: [stage, contract]");
        assert_eq!((said.code, said.err.contains(&known)), (3, true), "{said:?}");
        assert!(said.err.contains("tidegate fleet reconcile"), "{said:?}");
    };
    refused(&blank);
    assert_eq!(term(&url).await, known, "nothing is overwritten");
    blank.kill();
    drop(blank);
    let blank = on_store(place.path(), &url);
    // The lease of the one that was killed lapses first.
    blank.until("it leads", &["upgrade", "list"], |_| blank.http("/readyz").contains("\"leads\":true"));
    refused(&blank);
    assert_eq!(term(&url).await, known, "nor by a later term");

    reconcile(&blank);
    // As where the term alone was reconciled.
    change(&url, COUNTED_ON).await;
    refused(&blank);
    reconcile(&blank);
    let started = start(&blank, "approvals: [stage, contract]");
    assert_eq!(started.code, 0, "the advice works: {started:?}\n{}", blank.log());
    assert_ne!(term(&url).await, known);
}

/// A blank store, and the start of this upgrade that it has refused: the database of another store was at the URL for a
/// moment.
async fn refused_over_a_foreign_database(place: &Path, url: &str, id: &str) -> (Daemon, CancellationToken) {
    let (database, own) = (place.join("things.db"), place.join("own.db"));
    std::fs::copy(&database, &own).unwrap();
    let former = daemon(place, Some(url));
    let _herd = former.herd(3).await;
    assert_eq!(start(&former, "approvals: [stage, contract]").code, 0);
    drop(former);
    let foreign = term(url).await;

    let (daemon, end) = (on_store(place, url), CancellationToken::new());
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let refused = start_as(&daemon, id, "approvals: [expand, contract]");
    assert_eq!((refused.code, refused.err.contains(&foreign)), (3, true), "{refused:?}");
    std::fs::rename(&own, &database).unwrap();
    (daemon, end)
}

#[tokio::test(flavor = "multi_thread")]
async fn database_of_a_refused_start_holds_no_later_upgrade() {
    let (place, url) = place().await;
    let (daemon, end) = refused_over_a_foreign_database(place.path(), &url, "u1").await;
    let started = start(&daemon, "approvals: [expand, contract]");
    assert_eq!(started.code, 0, "{started:?}\n{}", daemon.log());
    until(&daemon, "approve u1 expand");
    let again = start(&daemon, "approvals: [expand, contract]");
    assert_eq!((again.code, again.err.contains("u1 of pantry-api is active")), (3, true), "{again:?}");
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_start_ends_the_claim_of_a_refused_one() {
    let (place, url) = place().await;
    let (daemon, end) = refused_over_a_foreign_database(place.path(), &url, "u0").await;
    let heard = daemon.ask(&["fleet", "reconcile"]);
    assert!(heard.out.contains("the database of upgrade u0 obeyed term"), "{heard:?}");
    let started = start(&daemon, "approvals: [expand, contract]");
    assert_eq!(started.code, 0, "{started:?}\n{}", daemon.log());
    until(&daemon, "approve u1 expand");
    let refused = daemon.ask(&["fleet", "reconcile"]);
    assert_eq!((refused.code, refused.err.contains("nothing contradicts")), (3, true), "{refused:?}");
    end.cancel();
}

/// What the corrected URL names is heard in place of the foreign database, whatever that start is refused for.
#[tokio::test(flavor = "multi_thread")]
async fn later_refused_start_ends_the_claim_of_a_former_one() {
    let (place, url) = place().await;
    let (daemon, end) = refused_over_a_foreign_database(place.path(), &url, "u0").await;
    let path = daemon.file("none-out.yaml", &spec(&format!("min_in_service: 3\n{SCHEMA}")));
    let again = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!((again.code, again.err.contains("leaves none to take out")), (3, true), "{again:?}");
    let refused = daemon.ask(&["fleet", "reconcile"]);
    assert_eq!((refused.code, refused.err.contains("nothing contradicts")), (3, true), "{refused:?}");
    end.cancel();
}
