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
