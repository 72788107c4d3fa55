//! The suite on the embedded store, over TCP so that the line can be cut, and the store in process as the
//! coordinator uses it.

use crate::world::{Watched, World, budget, budget_key, term};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::{Commit, Prefix};
use tidegate_store::{Scope, Seen, Store};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

async fn world() -> World {
    let embedded = Embedded::in_memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let end = CancellationToken::new();
    let (serving, ended) = (embedded.clone(), end.clone());
    tokio::spawn(async move { serving.serve(listener, ended).await });
    World::new(address, (embedded, end.drop_guard()))
}

crate::run_suite!(world);

/// Not on every etcd: before 3.4.25 and 3.5.8 that answer may overtake events, and is not believed.
#[tokio::test]
async fn silent_watch_reports_progress() {
    crate::suite::watching::silent_watch_reports_progress_where_that_is_sure(&world().await).await;
}

#[tokio::test]
async fn in_process_without_a_socket() {
    let embedded = Embedded::in_memory();
    let store = Store::over(embedded.client().await.unwrap(), Prefix::default());
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    assert!(matches!(watched.next().await, Seen::Listed(listed) if listed.entries.is_empty()));
    let cancel = CancellationToken::new();
    let leader = store.campaign(term("t"), "a:1".into(), Duration::from_secs(2), cancel).await.unwrap();
    let elected = watched.next().await;
    assert!(
        matches!(elected, Seen::Changed { revision, changes } if revision == leader.create_revision && changes.len() == 2)
    );
    let commit = Commit::new().put(budget_key("a"), budget(1));
    let made = leader.writes().commit(&commit).await.unwrap().revision;
    assert!(matches!(watched.next().await, Seen::Changed { revision, .. } if revision == made));
    leader.resign().await.unwrap();
    assert!(matches!(watched.next().await, Seen::Changed { .. }));
    assert_eq!(store.current_leader().await.unwrap(), None);
}
