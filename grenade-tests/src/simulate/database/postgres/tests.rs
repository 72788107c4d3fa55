//! One database of a real server, as the simulation changes it.

use super::server;
use crate::simulate::database::Database;
use crate::simulate::scenario::{Change, Generation, SchemaPlan};
use crate::simulate::server::Server;
use std::collections::BTreeSet;
use tidegate_migrations::held::{Simulated, hold_the_runtime, open_sessions};

/// A database on a server that both end with the returned values.
async fn database(server: &Server, directory: &std::path::Path) -> Database {
    let prefix = server.next_schedule();
    let reached = server::reach(&server.url_of_itself(), prefix.clone()).unwrap();
    let goes_on = |_: &str| -> futures::future::BoxFuture<'static, ()> { Box::pin(async {}) };
    hold_the_runtime(Simulated { takes: || std::time::Duration::ZERO, goes_on, server: Some(reached) });
    let url = server.link(&directory.join("link"), &format!("{prefix}one")).unwrap();
    let plan = SchemaPlan::new(vec![Generation::new(Change::Rename)], 3);
    Database::make(&plan, directory, ("one", &url), &[]).await.unwrap()
}

#[tokio::test]
async fn real_postgres_database_is_replaced_by_its_copy_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = tokio::task::spawn_blocking(|| Server::start(1).unwrap()).await.unwrap();
    let mut database = database(&server, directory.path()).await;
    let form = database.form().await.unwrap();
    assert!(form.contains(&"items.a1 TEXT".to_owned()), "{form:?}");
    assert!(database.has_form(1).await.unwrap() && !database.has_form(2).await.unwrap());
    database.keep_copy().unwrap();
    database.write(1).await.unwrap();
    database.run("ALTER TABLE items ADD COLUMN a2 text").await.unwrap();
    assert!(database.put_copy_back(1).await.unwrap());
    assert_eq!(database.form().await.unwrap(), form);
    database.read_all(1, false).await.unwrap();
    assert!(database.put_newest_back(2).await.unwrap());
    assert!(database.has_form(2).await.unwrap());
    database.read_all(1, false).await.unwrap();
    assert!(database.put_right_one_back("", 3).await.unwrap());
    assert_eq!(database.form().await.unwrap(), form);
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
}

#[tokio::test]
async fn real_postgres_database_that_is_away_refuses_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let server = tokio::task::spawn_blocking(|| Server::start(1).unwrap()).await.unwrap();
    let mut database = database(&server, directory.path()).await;
    let programs: BTreeSet<String> = ["pantry/1/n00".to_owned(), "pantry/2/n01".to_owned()].into();
    database.set_programs(&programs);
    assert_eq!(open_sessions(), 3, "two programs and the judge");
    database.set_away(true).unwrap();
    database.set_programs(&programs);
    assert_eq!((database.is_away(), open_sessions()), (true, 0));
    assert!(database.form().await.is_err());
    database.set_away(false).unwrap();
    database.set_programs(&programs);
    assert_eq!((database.is_away(), open_sessions()), (false, 2));
    database.read_all(1, false).await.unwrap();
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
}
