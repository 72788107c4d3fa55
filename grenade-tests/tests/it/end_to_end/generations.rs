//! Several migrations over one database that was there before: each upgrade undoes what is its own, and nothing else.

use std::process::Command;

use grenade_tests::fixture::node::{NEW, PROGRAM};
use grenade_tests::world::program;
use sqlx::{Connection, PgConnection, SqliteConnection};

use super::fleet::{Fleet, Ground, Said, run};
use super::hooks::by_hooks;

/// What made the tables long before; its undo has no bound of its own.
const BASELINE: &str = r#"
id = "0001_baseline"
version = 1
old_reads_migrated = true
[expand]
steps = [{ sql = "CREATE TABLE images (id TEXT PRIMARY KEY)" }, { sql = "CREATE TABLE image_members (image_id TEXT)" }]
[undo]
steps = [{ sql = "DROP TABLE IF EXISTS images" }, { sql = "DROP TABLE IF EXISTS image_members" }]
"#;

const NOTE: &str = r#"
id = "0003_note"
version = 3
old_reads_migrated = true
[expand]
steps = [{ add_column = { table = "images", column = "note", type = "text" } }]
[undo]
steps = [{ drop_column = { table = "images", column = "note" } }]
"#;

const ALL: &str = "SELECT count(*) FROM images";
const MEMBERS: &str = "SELECT count(*) FROM image_members";

/// The answer, or none where the database refuses the question.
async fn number(fleet: &Fleet, query: &'static str) -> Option<i64> {
    if fleet.database.starts_with("sqlite:") {
        let mut database = SqliteConnection::connect(&fleet.database).await.unwrap();
        sqlx::query_scalar(query).fetch_one(&mut database).await.ok()
    } else {
        let mut database = PgConnection::connect(&fleet.database).await.unwrap();
        sqlx::query_scalar(query).fetch_one(&mut database).await.ok()
    }
}

async fn adopt(fleet: &Fleet) -> Said {
    let mut command = Command::new(program::own("tidegate").unwrap());
    command.args(["schema", "adopt", "--to", "1", "--why", "made by the installer", "--migrations"]);
    command.arg(fleet.rig.world.path("migrations").join("pantry")).env("DATABASE_URL", &fleet.database);
    run(command).await
}

/// Starts an upgrade; it must be accepted.
async fn start(fleet: &Fleet, id: &str, spec: &str) {
    let path = fleet.spec_file(spec);
    fleet.must(&["upgrade", "start", &path, "--id", id]).await;
}

/// Waits until all instances serve the new version, and goes back.
async fn fails_in_remove(fleet: &Fleet, id: &str, from: u32, to: u32) {
    fleet.explains(id, &["phase remove requires a manual approval"]).await;
    fleet.all_serve(to).await;
    fleet.must(&["upgrade", "rollback", id, "--why", "the new version is wrong"]).await;
    let over = |said: &Said| said.out.contains("\"phase\":\"rolled-back\"");
    fleet.until("it is rolled back", &["--json", "upgrade", "status", id], over).await;
    fleet.all_serve(from).await;
}

async fn each_undoes_its_own(ground: Ground) {
    let mut fleet = Fleet::on(ground).await;
    let third = third_release(&fleet);
    by_hooks(&mut fleet, &third).await;
    let migrations = fleet.rig.world.path("migrations").join("pantry");
    std::fs::write(migrations.join("0001_baseline.toml"), BASELINE).unwrap();
    let (rows, members) = (number(&fleet, ALL).await, number(&fleet, MEMBERS).await);
    assert_eq!(rows, Some(i64::from(ground.rows)));
    let spec = fleet.spec("min_in_service: 1\nmax_unavailable: 1\napprovals: [remove]");

    let path = fleet.spec_file(&spec);
    let refused = fleet.ask(&["upgrade", "start", &path, "--id", "u1"]).await;
    assert!(refused.code == Some(3) && refused.err.contains("tidegate schema adopt"), "{refused:#?}");
    let adopted = adopt(&fleet).await;
    assert_eq!(adopted.code, Some(0), "{adopted:#?}");

    start(&fleet, "u1", &spec).await;
    fails_in_remove(&fleet, "u1", 1, 2).await;
    assert_eq!((number(&fleet, ALL).await, number(&fleet, MEMBERS).await), (rows, members));
    assert_eq!(number(&fleet, "SELECT count(visibility) FROM images").await, None, "its own column is gone");

    start(&fleet, "u2", &spec.replace("approvals: [remove]", "")).await;
    if !ground.postgres {
        fleet.explains("u2", &["accepts what cannot be proved"]).await;
        fleet.must(&["upgrade", "approve", "u2", "contract", "--accept", "sessions"]).await;
    }
    let over = |said: &Said| said.out.contains("\"phase\":\"completed\"");
    fleet.until("the second goes through", &["--json", "upgrade", "status", "u2"], over).await;
    assert_eq!(number(&fleet, "SELECT count(is_public) FROM images").await, None, "contracted");

    std::fs::write(migrations.join("0003_note.toml"), NOTE).unwrap();
    let third = spec.replace("from: 1\nto: 2", "from: 2\nto: 3").replace(NEW, "pantry-3.0.0");
    start(&fleet, "u3", &third).await;
    fails_in_remove(&fleet, "u3", 2, 3).await;
    assert_eq!((number(&fleet, ALL).await, number(&fleet, MEMBERS).await), (rows, members));
    assert_eq!(number(&fleet, "SELECT count(visibility) FROM images").await, rows, "of the upgrade before");
    assert_eq!(number(&fleet, "SELECT count(note) FROM images").await, None, "its own column is gone");
}

/// The program of version 2 once more, as version 3.
fn third_release(fleet: &Fleet) -> String {
    let source = fleet.rig.world.path("artifacts").join(NEW).join(PROGRAM);
    format!("[service.pantry-api.artifact.\"pantry-3.0.0\"]\nsource = {source:?}\nversion = 3\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_upgrade_undoes_what_is_its_own() {
    each_undoes_its_own(Ground::SMALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_each_upgrade_undoes_what_is_its_own() {
    each_undoes_its_own(Ground { postgres: true, ..Ground::SMALL }).await;
}
