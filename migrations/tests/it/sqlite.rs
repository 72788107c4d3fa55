//! What SQLite needs a form of its own for: it has no change of a column to NOT NULL, and deletes rows where it drops a
//! table.

use crate::support::*;
use std::time::Duration;
use tidegate_migrations::{Engine, Error, MigrationSet};

/// A migration of each version from 2 on, with these steps of migrate and contract.
fn steps(each: &[(&str, &str)]) -> MigrationSet {
    let texts = (2..).zip(each).map(|(version, (migrate, contract))| {
        let id = format!("000{version}_it");
        let text = format!(
            "id = '{id}'\nversion = {version}\nold_reads_migrated = true\n\
             [migrate]\nrequires = 'expanded'\nsteps = [{migrate}]\n[contract]\nsteps = [{contract}]\n"
        );
        (format!("{id}.toml"), text)
    });
    let texts: Vec<(String, String)> = texts.collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    set_in(written(&files).path())
}

async fn migrated(engine: &Engine, set: &MigrationSet) {
    engine.expand(set, &term(1), &watcher(), &patient()).await.unwrap();
    engine.migrate(set, &term(1), &watcher(), &patient()).await.unwrap();
}

const TABLES: &str = "CREATE TABLE shop (id INTEGER PRIMARY KEY, item_price INTEGER); \
     CREATE TABLE shop_item (id INTEGER PRIMARY KEY, price INTEGER)";
const SHOP_NULL: &str = "INSERT INTO shop (id) VALUES (1)";
const ITEM_NULL: &str = "INSERT INTO shop_item (id) VALUES (1)";

#[tokio::test(flavor = "multi_thread")]
async fn nulls_are_refused_where_names_run_together() {
    let database = Database::sqlite().await;
    let (engine, mut client) = (database.engine().await, database.client().await);
    client.run(TABLES).await;
    let both = "{ not_null = { table = 'shop', column = 'item_price' } }, \
                { not_null = { table = 'shop_item', column = 'price' } }";
    migrated(&engine, &steps(&[(both, "")])).await;
    for insert in [SHOP_NULL, ITEM_NULL] {
        let refused = client.try_run(insert).await.unwrap_err().to_string();
        assert!(refused.contains("NOT NULL"), "{insert}: {refused}");
    }
    client.run("INSERT INTO shop VALUES (1, 1); INSERT INTO shop_item VALUES (1, 1)").await;
    client.try_run("UPDATE shop SET item_price = NULL").await.unwrap_err();
}

/// As an earlier program made it, and named alike for both columns.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_column_takes_its_own_null_triggers_with_it() {
    let database = Database::sqlite().await;
    let (engine, mut client) = (database.engine().await, database.client().await);
    client.run(TABLES).await;
    client
        .run(
            "CREATE TRIGGER tidegate_nn_shop_item_price_insert BEFORE INSERT ON shop_item WHEN NEW.price IS NULL \
             BEGIN SELECT RAISE(ABORT, 'NOT NULL'); END",
        )
        .await;
    let all = steps(&[
        (
            "{ not_null = { table = 'shop', column = 'item_price' } }",
            "{ drop_column = { table = 'shop', column = 'item_price' } }",
        ),
        ("", "{ drop_column = { table = 'shop_item', column = 'price' } }"),
    ]);
    migrated(&engine, &all.up_to(2)).await;
    client.try_run(SHOP_NULL).await.unwrap_err();
    engine.contract(&all.up_to(2), &term(1), &proof(), &agreed, &watcher(), &patient()).await.unwrap();
    client.run(SHOP_NULL).await;
    client.try_run(ITEM_NULL).await.unwrap_err();
    migrated(&engine, &all).await;
    engine.contract(&all, &term(1), &proof(), &agreed, &watcher(), &patient()).await.unwrap();
    client.run(ITEM_NULL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn table_is_not_dropped_where_that_deletes_other_rows() {
    let database = Database::sqlite().await;
    let (engine, mut client) = (database.engine().await, database.client().await);
    client
        .run(
            "CREATE TABLE former (id INTEGER PRIMARY KEY); INSERT INTO former VALUES (1); \
             CREATE TABLE notes (id INTEGER PRIMARY KEY, f INTEGER REFERENCES former (id) ON DELETE CASCADE); \
             INSERT INTO notes VALUES (1, 1)",
        )
        .await;
    let drop = "{ sql = 'DROP TABLE former' }";
    let set = steps(&[("", drop)]);
    let found = engine.obstacles(&set).await.unwrap().join("; ");
    assert!(
        found.contains("0002_it") && found.contains("notes.f") && found.contains("ON DELETE CASCADE"),
        "{found}"
    );
    let column = format!("{{ drop_column = {{ table = 'notes', column = 'f' }} }}, {drop}");
    let both = format!("{drop}, {{ sql = 'DROP TABLE notes' }}");
    for fine in [column.as_str(), both.as_str()] {
        assert_eq!(engine.obstacles(&steps(&[("", fine)])).await.unwrap(), Vec::<String>::new(), "{fine}");
    }
    migrated(&engine, &set).await;
    let (watch, cancel) = (watcher(), patient());
    let refused = engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap_err();
    assert!(matches!(&refused, Error::Unsupported { .. }), "{refused}");
    assert!(refused.to_string().contains("notes.f"), "{refused}");
    client.run("ALTER TABLE notes DROP COLUMN f").await;
    engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
    assert_eq!(client.number("SELECT count(*) FROM notes").await, 1);
    client.try_run("SELECT id FROM former").await.unwrap_err();
}

/// The first table is dropped before the second one, whose rows go with it and take those of the third.
#[tokio::test(flavor = "multi_thread")]
async fn deletion_through_a_table_that_goes_is_refused() {
    let database = Database::sqlite().await;
    let (engine, mut client) = (database.engine().await, database.client().await);
    client
        .run(
            "CREATE TABLE a (id INTEGER PRIMARY KEY); INSERT INTO a VALUES (1); \
             CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a (id) ON DELETE CASCADE); \
             INSERT INTO b VALUES (1, 1); \
             CREATE TABLE c (id INTEGER PRIMARY KEY, b INTEGER REFERENCES b (id) ON DELETE CASCADE); \
             INSERT INTO c VALUES (1, 1)",
        )
        .await;
    let set = steps(&[("", "{ sql = 'DROP TABLE a' }, { sql = 'DROP TABLE b' }")]);
    migrated(&engine, &set).await;
    let (watch, cancel) = (watcher(), patient());
    let refused = engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap_err();
    assert!(refused.to_string().contains("c.b"), "{refused}");
    client.run("DROP TABLE c").await;
    engine.contract(&set, &term(1), &proof(), &agreed, &watch, &cancel).await.unwrap();
}

/// It is cancelled while it waits for the lock of the file.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_job_does_not_claim_the_database() {
    for claims_alone in [false, true] {
        let database = Database::sqlite().await.seeded(10).await;
        let (engine, mut writer, cancel) = (database.engine().await, database.client().await, patient());
        writer.run("BEGIN IMMEDIATE").await;
        let token = cancel.clone();
        let verb = tokio::spawn(async move {
            match claims_alone {
                true => engine.claim(&term(1), &token).await.map(drop),
                false => engine.expand(&sample(), &term(1), &watcher(), &token).await.map(drop),
            }
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        cancel.cancel();
        writer.run("COMMIT").await;
        let error = verb.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{error}");
        assert!(writer.try_run("SELECT 1 FROM tidegate_schema").await.is_err(), "no table was made");
    }
}
