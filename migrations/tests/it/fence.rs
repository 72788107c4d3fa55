//! The term: which leader may change a schema, and which one is refused.

use crate::support::*;
use tidegate_migrations::{DatabaseUrl, Engine};

on_both! { a_lower_term_changes_nothing, a_term_that_came_after_the_look_is_not_overwritten, another_schema_than_the_one_asked_for_is_not_changed, the_same_revision_with_another_id_is_a_restored_store, looking_changes_nothing, each_look_finds_the_history_as_it_is }

mod story {
    use crate::support::*;
    use tidegate_migrations::{Error, Phase, PhaseState, RowCount, SchemaId, Term};

    pub(super) async fn a_lower_term_changes_nothing(database: Database) {
        let database = database.seeded(10).await;
        let (engine, set, mut client) = (database.engine().await, sample(), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        let id = engine.claim(&term(7), &patient()).await.unwrap();
        for error in [
            engine.claim(&term(6), &patient()).await.map(|_| ()).unwrap_err(),
            engine.expand(&set, &term(6), &watch, &cancel).await.map(|_| ()).unwrap_err(),
            engine.undo(&set, &term(6), &watch, &cancel).await.map(|_| ()).unwrap_err(),
        ] {
            let is_named =
                matches!(&error, Error::LowerTerm { ours, stored } if *ours == term(6) && *stored == term(7));
            assert!(is_named && !error.retryable(), "{error}");
        }
        assert!(client.try_run("SELECT visibility FROM images").await.is_err());
        assert_eq!(engine.identity().await.unwrap().term, Some(term(7)));
        assert_eq!(
            engine.claim(&term(9), &patient()).await.unwrap(),
            id,
            "the schema's id does not change with its leaders"
        );
    }

    pub(super) async fn another_schema_than_the_one_asked_for_is_not_changed(database: Database) {
        let database = database.seeded(10).await;
        let (set, mut client) = (sample(), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        let engine = database.engine().await.of_schema(SchemaId("of-the-upgrade".into()));
        let error = engine.expand(&set, &term(7), &watch, &cancel).await.unwrap_err();
        assert!(matches!(&error, Error::OtherSchema { found: None, .. }) && !error.retryable(), "{error}");
        assert!(client.try_run("SELECT 1 FROM tidegate_schema").await.is_err(), "no table was made");

        let there = database.engine().await.claim(&term(7), &patient()).await.unwrap();
        for error in [
            engine.expand(&set, &term(9), &watch, &cancel).await.unwrap_err(),
            engine.undo(&set, &term(9), &watch, &cancel).await.unwrap_err(),
        ] {
            assert!(matches!(&error, Error::OtherSchema { found: Some(id), .. } if *id == there), "{error}");
        }
        let identity = engine.identity().await.unwrap();
        assert_eq!((identity.id, identity.term), (Some(there), Some(term(7))));
        assert!(client.try_run("SELECT visibility FROM images").await.is_err());
    }

    /// As a delayed leader of a former store: its number is lower, and the store that looked does not know it.
    pub(super) async fn a_term_that_came_after_the_look_is_not_overwritten(database: Database) {
        let database = database.seeded(10).await;
        let (set, mut client) = (sample(), database.client().await);
        let (watch, cancel) = (watcher(), patient());
        let looked = async || {
            let engine = database.engine().await;
            let seen = engine.identity().await.unwrap().term;
            engine.last_obeyed(seen)
        };
        let engine = looked().await;
        database.engine().await.claim(&term(3), &patient()).await.unwrap();
        let error = engine.claim(&term(7), &patient()).await.unwrap_err();
        assert!(
            matches!(&error, Error::OtherTerm { seen: None, found } if *found == Some(term(3))),
            "{error}"
        );

        let engine = looked().await;
        database.engine().await.claim(&term(5), &patient()).await.unwrap();
        for error in [
            engine.expand(&set, &term(7), &watch, &cancel).await.unwrap_err(),
            engine.undo(&set, &term(7), &watch, &cancel).await.unwrap_err(),
        ] {
            let is_named = matches!(&error, Error::OtherTerm { seen, found } if *seen == Some(term(3)) && *found == Some(term(5)));
            assert!(is_named && !error.retryable(), "{error}");
        }
        assert_eq!(engine.identity().await.unwrap().term, Some(term(5)));
        assert!(client.try_run("SELECT visibility FROM images").await.is_err());

        let engine = looked().await;
        engine.claim(&term(7), &patient()).await.unwrap();
        engine.expand(&set, &term(7), &watch, &cancel).await.unwrap();
    }

    pub(super) async fn the_same_revision_with_another_id_is_a_restored_store(database: Database) {
        let engine = database.engine().await;
        engine.claim(&term(7), &patient()).await.unwrap();
        let other = Term { revision: 7, id: "another".into() };
        let error = engine.claim(&other, &patient()).await.unwrap_err();
        assert!(matches!(&error, Error::RestoredStore { stored, .. } if *stored == term(7)), "{error}");
        assert_eq!(engine.identity().await.unwrap().term, Some(term(7)));
    }

    pub(super) async fn looking_changes_nothing(database: Database) {
        let database = database.seeded(10).await;
        let (engine, mut client) = (database.engine().await, database.client().await);
        let status = engine.status(&sample()).await.unwrap();
        assert_eq!(status.migrations[0].expand, PhaseState::NotStarted);
        assert_eq!(status.migrations[0].pending_rows, None);
        let identity = engine.identity().await.unwrap();
        assert_eq!((identity.id, identity.term), (None, None));
        assert!(matches!(engine.pending_rows(&sample()).await, Err(Error::Order { .. })));
        engine.sessions().await.unwrap();
        assert!(client.try_run("SELECT 1 FROM tidegate_schema").await.is_err(), "no table was made");
    }

    pub(super) async fn each_look_finds_the_history_as_it_is(database: Database) {
        let database = database.seeded(10).await;
        let (engine, mut client) = (database.engine().await, database.client().await);
        assert_eq!(engine.identity().await.unwrap().id, None);
        let id = database.engine().await.claim(&term(7), &patient()).await.unwrap();
        let (status, identity) = engine.state(&sample(), RowCount::Open).await.unwrap();
        assert_eq!((identity.id, identity.term), (Some(id), Some(term(7))));
        assert_eq!(status.next, Some(Phase::Expand));
        client.run("DROP TABLE tidegate_history").await;
        let error = engine.identity().await.unwrap_err();
        assert!(matches!(&error, Error::History { .. }), "{error}");
        assert!(error.to_string().contains("tidegate_history is missing"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_postgres_history_of_a_later_schema_is_not_its_own() {
    let database = Database::postgres().await;
    let (of_public, mut client) = (database.engine().await, database.client().await);
    let public = of_public.claim(&term(7), &patient()).await.unwrap();
    client.run("CREATE SCHEMA pantry").await;
    let url: DatabaseUrl = format!("{}?options[search_path]=pantry,public", database.text).parse().unwrap();
    let engine = Engine::connect(&url).await.unwrap();
    assert_eq!(engine.identity().await.unwrap().id, None);
    let own = engine.claim(&term(9), &patient()).await.unwrap();
    assert_ne!(own, public);
    let seen = engine.identity().await.unwrap();
    assert_eq!((seen.id, seen.term), (Some(own), Some(term(9))));
    let seen = of_public.identity().await.unwrap();
    assert_eq!((seen.id, seen.term), (Some(public), Some(term(7))), "its term is not raised");
}
