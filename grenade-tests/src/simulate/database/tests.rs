//! What is kept of a database where copies take its place.

use super::Database;
use crate::simulate::scenario::{Change, Generation, SchemaPlan};
use std::path::Path;

#[tokio::test]
async fn copy_that_an_upgrade_was_started_on_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let url = "sqlite://one.sqlite";
    let plan = SchemaPlan::new(vec![Generation::new(Change::Rename)], 3);
    let mut database = Database::make(&plan, directory.path(), ("one", url), &[]).await.unwrap();
    database.keep_copy().unwrap();
    database.is_started_on();
    assert!(database.put_copy_back(1).await.unwrap());
    // The store was lost with the upgrade, which is started again on the copy.
    database.is_started_on();
    database.run("ALTER TABLE items ADD COLUMN a2 text").await.unwrap();
    assert!(database.put_copy_back(2).await.unwrap());
    assert!(!database.has_form(2).await.unwrap());
    assert!(database.put_right_one_back("", 3).await.unwrap());
    assert!(database.has_form(2).await.unwrap(), "the one that the upgrade was started on is lost");
}

#[tokio::test]
async fn of_two_replaced_copies_the_named_one_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    assert!(database.put_copy_back(1).await.unwrap());
    // The store was lost, and the upgrade is started again on the copy.
    database.is_started_on();
    database.run("CREATE TABLE tidegate_schema (schema_id TEXT)").await.unwrap();
    database.run("INSERT INTO tidegate_schema VALUES ('of-the-copy')").await.unwrap();
    go_on(&mut database, EXPAND).await;
    assert!(database.put_newest_back(2).await.unwrap());
    go_on(&mut database, "INSERT INTO items (id, a1) VALUES ('seen', 'seen')").await;
    assert!(database.put_copy_back(3).await.unwrap());
    assert!(database.put_newest_back(4).await.unwrap());
    let says = "holds schema other, and the upgrade was started on of-the-copy";
    assert!(database.put_right_one_back(says, 5).await.unwrap());
    assert!(database.has_form(2).await.unwrap(), "another copy took its place");
    assert!(database.is_named_in(says).await);
}

#[tokio::test]
async fn database_without_the_fill_of_the_former_lacks_it() {
    let directory = tempfile::tempdir().unwrap();
    let plan = SchemaPlan::new(vec![Generation::new(Change::Rename)], 3);
    let mut database =
        Database::make(&plan, directory.path(), ("one", "sqlite://one.sqlite"), &[]).await.unwrap();
    database.run("ALTER TABLE items ADD COLUMN a2 text").await.unwrap();
    database.run("CREATE TABLE tidegate_history (migration TEXT, phase TEXT, state TEXT)").await.unwrap();
    database.keep_copy().unwrap();
    assert!(database.put_copy_back(1).await.unwrap());
    let fill = "UPDATE items SET a2 = a1 || '+'; INSERT INTO tidegate_history VALUES ('0002_change', 'migrate', 'done')";
    database.run(fill).await.unwrap();
    assert!(!database.lacks_fill(2).await);
    assert!(database.put_newest_back(2).await.unwrap());
    assert!(!database.older, "it has every column");
    assert!(database.lacks_fill(2).await && !database.lacks_fill(1).await);
    assert!(database.read_all(2, false).await.is_err() && database.read_all(2, true).await.is_ok());
    assert!(database.put_copy_back(3).await.unwrap());
    assert!(database.put_newest_back(4).await.unwrap());
    assert!(database.lacks_fill(2).await, "a copy that stood there meanwhile fills nothing");
    database.run(fill).await.unwrap();
    assert!(!database.lacks_fill(2).await, "it is filled again");
    assert_eq!(database.read_all(2, false).await, Ok(()));
}

/// A database with one migration, the engine's history, and a copy of it that was kept.
async fn with_a_copy(directory: &Path) -> Database {
    let plan = SchemaPlan::new(vec![Generation::new(Change::Rename)], 3);
    let mut database = Database::make(&plan, directory, ("one", "sqlite://one.sqlite"), &[]).await.unwrap();
    let history = "CREATE TABLE tidegate_history (seq INTEGER, migration TEXT, phase TEXT, state TEXT)";
    database.run(history).await.unwrap();
    database.keep_copy().unwrap();
    database
}

/// The engine does a step.
async fn go_on(database: &mut Database, sql: &str) {
    let done = "INSERT INTO tidegate_history VALUES (1, '0002_change', 'expand', 'done')";
    database.run(&format!("{done}; {sql}")).await.unwrap();
}

const EXPAND: &str = "ALTER TABLE items ADD COLUMN a2 text";

#[tokio::test]
async fn copy_that_an_upgrade_went_on_with_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    assert!(database.put_copy_back(1).await.unwrap());
    go_on(&mut database, EXPAND).await;
    assert!(database.put_copy_back(2).await.unwrap());
    assert!(!database.has_form(2).await.unwrap());
    assert!(database.put_newest_back(3).await.unwrap());
    assert!(database.has_form(2).await.unwrap(), "the one that the upgrade expanded is lost");
    assert!(!database.older, "it has what the first one had");
}

#[tokio::test]
async fn copy_that_nothing_went_on_with_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    go_on(&mut database, EXPAND).await;
    assert!(database.put_copy_back(1).await.unwrap());
    assert!(database.put_copy_back(2).await.unwrap());
    assert!(database.put_newest_back(3).await.unwrap());
    assert!(database.has_form(2).await.unwrap(), "the one that the upgrade expanded is lost");
}

/// The store is restored to before the contract, and the upgrade is rolled back on the copy.
#[tokio::test]
async fn newest_one_is_known_to_be_contracted() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    go_on(&mut database, EXPAND).await;
    assert!(database.put_copy_back(1).await.unwrap());
    assert!(!database.is_newest_contracted().await, "it is expanded only");
    assert!(database.put_newest_back(2).await.unwrap());
    database.run("ALTER TABLE tidegate_history ADD COLUMN step INTEGER").await.unwrap();
    let contracted = "INSERT INTO tidegate_history VALUES (2, '0002_change', 'contract', 'done', 0)";
    database.run(contracted).await.unwrap();
    assert!(database.put_copy_back(3).await.unwrap());
    assert!(database.is_newest_contracted().await);
    database.stays_older().unwrap();
    assert!(!database.is_newest_contracted().await, "nothing looks for it");
}

/// People went on with the copy, as after a rollback. The store is restored to an upgrade that was started on the first one.
#[tokio::test]
async fn database_that_people_left_is_found_by_its_name() {
    for ended in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut database = with_a_copy(directory.path()).await;
        database.run("CREATE TABLE tidegate_schema (schema_id TEXT)").await.unwrap();
        database.run("INSERT INTO tidegate_schema VALUES ('of-the-first')").await.unwrap();
        go_on(&mut database, EXPAND).await;
        assert!(database.put_copy_back(1).await.unwrap());
        if ended {
            database.upgrade_ended(2, Some(1)).await;
        } else {
            database.stays_older().unwrap();
        }
        assert!(!database.put_newest_back(3).await.unwrap(), "it is left");
        assert!(!database.put_right_one_back("", 4).await.unwrap(), "nothing names it");
        let says = "holds schema other, and the upgrade was started on of-the-first: it was restored";
        assert!(database.put_right_one_back(says, 5).await.unwrap(), "it is lost");
        assert!(database.has_form(2).await.unwrap() && database.is_named_in(says).await);
    }
}

/// The store is restored to an upgrade that was started on the first one, and then to one that was started on the copy.
#[tokio::test]
async fn database_that_the_named_one_replaced_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    database.run("CREATE TABLE tidegate_schema (schema_id TEXT)").await.unwrap();
    database.keep_copy().unwrap();
    database.run("INSERT INTO tidegate_schema VALUES ('of-the-first')").await.unwrap();
    go_on(&mut database, EXPAND).await;
    assert!(database.put_copy_back(1).await.unwrap());
    database.run("INSERT INTO tidegate_schema VALUES ('of-the-copy')").await.unwrap();
    database.stays_older().unwrap();
    for (now, id, is_expanded) in
        [(2, "of-the-first", true), (3, "of-the-copy", false), (4, "of-the-first", true)]
    {
        let says = format!("holds schema other, and the upgrade was started on {id}: it was restored");
        assert!(database.put_right_one_back(&says, now).await.unwrap(), "{id} is lost");
        assert_eq!(database.has_form(2).await, Ok(is_expanded), "{id}");
        assert!(database.is_named_in(&says).await, "{id}");
        assert!(!database.put_right_one_back("", now).await.unwrap(), "nothing names the other one");
    }
}

#[tokio::test]
async fn copy_that_lacks_what_the_first_had_is_older_still() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    go_on(&mut database, EXPAND).await;
    assert!(database.put_copy_back(1).await.unwrap());
    go_on(&mut database, "").await;
    assert!(database.put_copy_back(2).await.unwrap());
    assert!(database.put_newest_back(3).await.unwrap());
    assert!(database.older, "it was expanded by nothing, as before the second copy");
    database.upgrade_ended(2, Some(1)).await;
    assert!(database.older, "it took its place after the end");
    database.upgrade_ended(4, Some(1)).await;
    assert!(!database.older, "the next upgrade begins on it");
}

#[tokio::test]
async fn copy_without_the_columns_of_what_runs_stays_older() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    go_on(&mut database, EXPAND).await;
    assert!(database.put_copy_back(1).await.unwrap());
    database.upgrade_ended(2, Some(2)).await;
    assert!(database.older, "an upgrade that ended in preflight has given it nothing");
    go_on(&mut database, EXPAND).await;
    database.upgrade_ended(3, Some(2)).await;
    assert!(!database.older, "it has them since");
}

#[tokio::test]
async fn copy_without_the_rows_of_what_runs_stays_older() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = with_a_copy(directory.path()).await;
    go_on(&mut database, EXPAND).await;
    database.keep_copy().unwrap();
    let fill = "UPDATE items SET a2 = a1 || '+'; INSERT INTO tidegate_history VALUES (2, '0002_change', 'migrate', 'done')";
    database.run(fill).await.unwrap();
    assert!(database.put_copy_back(1).await.unwrap());
    database.upgrade_ended(2, Some(2)).await;
    assert!(database.older, "nothing filled them");
    database.run(fill).await.unwrap();
    database.upgrade_ended(3, Some(2)).await;
    assert!(!database.older, "they are filled again");
}

#[tokio::test]
async fn copy_is_judged_once_an_upgrade_to_its_form_has_ended() {
    for (lost, leaves) in [(false, Some(1)), (true, Some(2)), (true, None)] {
        let directory = tempfile::tempdir().unwrap();
        let mut database = with_a_copy(directory.path()).await;
        go_on(&mut database, EXPAND).await;
        if lost {
            database.keep_copy().unwrap();
        }
        assert!(database.put_copy_back(1).await.unwrap());
        if lost {
            database.run("ALTER TABLE items DROP COLUMN a2").await.unwrap();
        }
        database.upgrade_ended(2, leaves).await;
        assert!(!database.older, "{leaves:?}: what it had when it came must not be lost");
    }
}
