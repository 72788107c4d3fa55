//! Files that are not what this program wrote: refused with the file's name, and left as they are.

use redb::{Database, TableDefinition};
use tidegate_embedded_etcd::{Embedded, OpenError};

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const REVISIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("revisions");

async fn refused(dir: &tempfile::TempDir) -> (OpenError, String) {
    let error = Embedded::open(dir.path(), "a test").await.expect_err("it cannot be opened");
    let text = error.to_string();
    assert!(text.contains("store.redb"), "{text}");
    (error, text)
}

async fn made() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    Embedded::open(dir.path(), "a test").await.unwrap().close().await;
    dir
}

#[tokio::test]
async fn file_that_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = "nothing that redb wrote ".repeat(1000);
    std::fs::write(dir.path().join("store.redb"), &garbage).unwrap();
    let (error, text) = refused(&dir).await;
    assert!(matches!(error, OpenError::Database { .. }), "{text}");
    assert_eq!(std::fs::read_to_string(dir.path().join("store.redb")).unwrap(), garbage);
}

#[tokio::test]
async fn file_of_another_layout_is_refused() {
    let dir = made().await;
    let database = Database::open(dir.path().join("store.redb")).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(META).unwrap().insert("layout", 2).unwrap();
    txn.commit().unwrap();
    drop(database);
    let (error, text) = refused(&dir).await;
    assert!(matches!(error, OpenError::Layout { found: 2, known: 1, .. }), "{text}");
}

#[tokio::test]
async fn file_with_a_damaged_row_is_refused() {
    let dir = made().await;
    let database = Database::open(dir.path().join("store.redb")).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(REVISIONS).unwrap().insert(2, b"\xff\xff\xff".as_slice()).unwrap();
    txn.commit().unwrap();
    drop(database);
    let (error, text) = refused(&dir).await;
    assert!(matches!(error, OpenError::Unreadable { .. }), "{text}");
    assert!(text.contains("revision 2"), "{text}");
}

#[tokio::test]
async fn a_directory_that_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    std::fs::write(&file, "").unwrap();
    let error = Embedded::open(&file.join("store"), "a test").await.expect_err("a file is no directory");
    assert!(matches!(error, OpenError::Directory { .. }), "{error}");
}
