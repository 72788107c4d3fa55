//! What the stories need: a database of their own, clients of it, and migrations.

mod client;
mod database;
mod postgres;

pub(crate) use client::Client;
pub(crate) use database::Database;
pub(crate) use postgres::Cluster;

use futures::FutureExt;
use futures::future::BoxFuture;
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_migrations::{ContractProof, MigrationSet, PhaseProgress, Term};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Makes a test of each story on each engine. A story is `async fn(Database)` in a module `story`.
macro_rules! on_both {
    ($($story:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $story() {
            story::$story(crate::support::Database::sqlite().await).await;
        })*
        mod real_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                super::story::$story(crate::support::Database::postgres().await).await;
            })*
        }
    };
}

/// The migrations of the sample service.
pub(crate) fn sample() -> MigrationSet {
    set_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../grenade-tests/sample/migrations"))
}

pub(crate) fn set_in(directory: &Path) -> MigrationSet {
    MigrationSet::load(directory).unwrap_or_else(|e| panic!("{e}"))
}

/// A directory with these files.
pub(crate) fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

pub(crate) fn term(revision: i64) -> Term {
    Term { revision, id: format!("term-{revision}") }
}

pub(crate) fn proof() -> ContractProof {
    ContractProof { certificate: "certificate-1".into(), digest: "sha256:00".into() }
}

pub(crate) fn watcher() -> watch::Sender<PhaseProgress> {
    watch::channel(PhaseProgress::default()).0
}

pub(crate) fn patient() -> CancellationToken {
    CancellationToken::new()
}

/// A recheck that always agrees.
pub(crate) fn agreed() -> BoxFuture<'static, Result<(), String>> {
    async { Ok(()) }.boxed()
}

/// Waits until `look` answers true; what it saw last is in the message when it never does.
pub(crate) async fn until<S: std::fmt::Debug>(limit: Duration, mut look: impl AsyncFnMut() -> (bool, S)) {
    let since = Instant::now();
    loop {
        let (seen, what) = look().await;
        if seen {
            return;
        }
        assert!(since.elapsed() < limit, "not seen in {limit:?}; last seen: {what:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
