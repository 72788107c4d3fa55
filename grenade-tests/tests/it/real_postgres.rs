//! Pantry over a real PostgreSQL: sessions that say who they are, and a schema that changes under live statements.

use grenade_tests::fixture::pantry::{Pantry, seed};
use grenade_tests::world::{balancer, postgres};
use sqlx::{Connection, Executor, PgConnection};

use crate::rig::{LIMIT, Rig, all_up, servers};
use crate::versions::{FILL, lists_agree, write_here_read_there};

const EXPAND: &str = "
    ALTER TABLE images ADD COLUMN visibility TEXT;
    CREATE FUNCTION sync_image() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'INSERT' AND NEW.visibility IS NULL
            OR TG_OP = 'UPDATE' AND NEW.is_public IS DISTINCT FROM OLD.is_public THEN
            NEW.visibility := CASE WHEN NEW.is_public THEN 'public'
                WHEN EXISTS (SELECT 1 FROM image_members m WHERE m.image_id = NEW.id) THEN 'shared' ELSE 'private' END;
        ELSIF NEW.visibility IS NOT NULL THEN
            NEW.is_public := NEW.visibility = 'public';
        END IF;
        RETURN NEW; END $$;
    CREATE TRIGGER sync_image BEFORE INSERT OR UPDATE ON images FOR EACH ROW EXECUTE FUNCTION sync_image();
    CREATE FUNCTION sync_member() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE images SET visibility = 'shared' WHERE id = NEW.image_id AND visibility = 'private';
        RETURN NULL; END $$;
    CREATE TRIGGER sync_member AFTER INSERT ON image_members FOR EACH ROW EXECUTE FUNCTION sync_member();";

const CONTRACT: &str = "DROP TRIGGER sync_image ON images; DROP TRIGGER sync_member ON image_members;
    ALTER TABLE images DROP COLUMN is_public;";

async fn run(url: &str, sql: &'static str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    connection.execute(sqlx::raw_sql(sql)).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn two_versions_share_one_postgres_under_load() {
    let rig = Rig::new();
    let postgres = postgres::start(&rig.world).await.unwrap();
    let url = postgres.url();
    seed(&rig.world, &url, 500).await.unwrap();
    let old = rig.pantry(1, "old", &url).await;
    let plan = rig.plan(2, "new", &url);
    let both = [(old.plan.node.clone(), old.plan.address), (plan.node.clone(), plan.address)];
    let balancer = balancer::start(&rig.world, &both).await.unwrap();
    all_up(&balancer, &[&old]).await;
    let load = rig.load(balancer.address, 100, 500).start().unwrap();
    let until = |ok: u64| {
        let load = &load;
        grenade_tests::world::wait::wait_for("good answers", LIMIT, move || async move {
            let progress = load.progress();
            if progress.ok >= ok { Ok(()) } else { Err(format!("{progress:?}")) }
        })
    };
    until(100).await.unwrap();
    run(&url, EXPAND).await;
    run(&url, FILL).await;
    let new = Pantry::start(&rig.world, plan).await.unwrap();
    all_up(&balancer, &[&old, &new]).await;
    let so_far = load.progress().ok;
    until(so_far + 400).await.unwrap();
    let report = load.stop().await.unwrap();
    assert_eq!(report.failed, 0, "{report:#?}");
    assert!(report.read_across > 20, "few reads crossed the versions: {report:#?}");
    lists_agree(&old, &new).await;
    write_here_read_there(&old, &new, "by-old").await;
    write_here_read_there(&new, &old, "by-new").await;
    run(&url, CONTRACT).await;
    let second = rig.pantry(2, "second", &url).await;
    write_here_read_there(&new, &second, "contracted").await;
}

#[tokio::test]
async fn every_session_says_who_it_is() {
    let rig = Rig::new();
    let mut postgres = postgres::start(&rig.world).await.unwrap();
    seed(&rig.world, &postgres.url(), 10).await.unwrap();
    let pantry = rig.pantry(1, "node-7", &postgres.url()).await;
    assert_eq!(servers(&[&pantry]).len(), 1);
    let sessions = "SELECT DISTINCT application_name FROM pg_stat_activity \
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let mut connection = PgConnection::connect(&postgres.url()).await.unwrap();
    let names: Vec<String> = sqlx::query_scalar(sessions).fetch_all(&mut connection).await.unwrap();
    assert_eq!(names, ["pantry-api/1/node-7"]);
    drop(connection);
    // A restart of the database is survived without a restart of the service.
    postgres.restart(&rig.world).await.unwrap();
    grenade_tests::world::wait::wait_for_200(
        "an image again",
        LIMIT,
        pantry.plan.address,
        "/images/seed-00000001",
    )
    .await
    .unwrap();
}
