//! What is kept of a database where copies take its place.

use super::Database;
use crate::simulate::scenario::{Change, Generation, SchemaPlan};

#[tokio::test]
async fn copy_that_an_upgrade_was_started_on_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let url = "sqlite://one.sqlite";
    let plan = SchemaPlan::new(vec![Generation::new(Change::Rename)], 3);
    let mut database = Database::make(&plan, directory.path(), ("one", url), &[]).await.unwrap();
    database.keep_copy().unwrap();
    database.is_started_on();
    assert!(database.put_copy_back(1).unwrap());
    // The store was lost with the upgrade, which is started again on the copy.
    database.is_started_on();
    database.run("ALTER TABLE items ADD COLUMN a2 text").await.unwrap();
    assert!(database.put_copy_back(2).unwrap());
    assert!(!database.has_form(2).await.unwrap());
    assert!(database.put_right_one_back(3).await.unwrap());
    assert!(database.has_form(2).await.unwrap(), "the one that the upgrade was started on is lost");
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
    assert!(database.put_copy_back(1).unwrap());
    let fill = "UPDATE items SET a2 = a1 || '+'; INSERT INTO tidegate_history VALUES ('0002_change', 'migrate', 'done')";
    database.run(fill).await.unwrap();
    assert!(!database.lacks_fill(2).await);
    assert!(database.put_newest_back(2).await.unwrap());
    assert!(!database.older, "it has every column");
    assert!(database.lacks_fill(2).await && !database.lacks_fill(1).await);
    assert!(database.read_all(2, false).await.is_err() && database.read_all(2, true).await.is_ok());
    database.run(fill).await.unwrap();
    assert!(!database.lacks_fill(2).await, "it is filled again");
    assert_eq!(database.read_all(2, false).await, Ok(()));
}
