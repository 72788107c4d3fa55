//! The way of a schema through its phases, on SQLite.

use crate::support::*;
use futures::FutureExt;
use tidegate_migrations::{Error, Phase, PhaseState, Sessions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expand_migrate_contract_to_the_end() {
    let database = Sqlite::seeded(20_000).await;
    let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
    let status = engine.status(&set).await.unwrap();
    assert_eq!(status.next, Some(Phase::Expand));
    assert_eq!(engine.identity().await.unwrap().id, None);
    let id = engine.claim(&term(1)).await.unwrap();
    let identity = engine.identity().await.unwrap();
    assert_eq!((identity.id, identity.term), (Some(id), Some(term(1))));

    let (watch, cancel) = (watcher(), patient());
    engine.expand(&set, &term(1), &watch, &cancel).await.unwrap();
    let status = engine.status(&set).await.unwrap();
    assert_eq!((status.next, status.migrations[0].pending_rows), (Some(Phase::Migrate), Some(20_000)));

    let outcome = engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
    assert_eq!(outcome.rows, 20_000);
    assert_eq!(engine.pending_rows(&set).await.unwrap(), 0);
    let wrong = "SELECT count(*) FROM images i WHERE visibility <> CASE WHEN is_public THEN 'public' WHEN EXISTS \
                 (SELECT 1 FROM image_members m WHERE m.image_id = i.id) THEN 'shared' ELSE 'private' END";
    assert_eq!(number(&mut client, wrong).await, 0);
    assert_eq!(number(&mut client, "SELECT count(*) FROM images WHERE visibility = 'shared'").await, 2_000);

    let again = engine.migrate(&set, &term(1), &watch, &cancel).await.unwrap();
    assert_eq!((again.steps, again.rows), (0, 0));
    let yes = || async { Ok(()) }.boxed();
    engine.contract(&set, &term(1), &proof(), &yes, &watch, &cancel).await.unwrap();
    assert_eq!(engine.status(&set).await.unwrap().next, None);
    assert_eq!(
        number(
            &mut client,
            "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND sql NOT LIKE '%RAISE%'"
        )
        .await,
        0
    );
    assert_eq!(
        number(&mut client, "SELECT count(*) FROM pragma_table_info('images') WHERE name = 'is_public'")
            .await,
        0
    );
    let refused = try_run(&mut client, "UPDATE images SET visibility = NULL").await.unwrap_err().to_string();
    assert!(refused.contains("NOT NULL"), "{refused}");
    let undo = engine.undo(&set, &term(1), &watch, &cancel).await.unwrap();
    assert_eq!(undo.steps, 0, "nothing is undone after contract");
    assert_eq!(engine.status(&set).await.unwrap().migrations[0].contract, PhaseState::Done);
    assert!(matches!(engine.sessions().await.unwrap(), Sessions::CannotTell { .. }));
    let note =
        text(&mut client, "SELECT note FROM tidegate_history WHERE phase = 'contract' AND step = 0").await;
    assert!(note.unwrap().contains("certificate-1"));
    let lower = engine.expand(&set, &term(0), &watch, &cancel).await.unwrap_err();
    assert!(matches!(lower, Error::LowerTerm { .. }), "{lower}");
}
