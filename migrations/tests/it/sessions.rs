//! Who is connected.

use crate::support::*;
use std::time::Duration;
use tidegate_migrations::Sessions;

#[tokio::test]
async fn sqlite_cannot_list_sessions() {
    let engine = Database::sqlite().await.engine().await;
    let Sessions::CannotTell { reason } = engine.sessions().await.unwrap() else { panic!("it cannot know") };
    assert!(reason.contains("sqlite"), "{reason}");
}

mod real_postgres {
    use super::*;
    use tidegate_migrations::{SessionKind, SessionTag};

    #[tokio::test(flavor = "multi_thread")]
    async fn every_session_and_every_prepared_transaction_is_listed() {
        let database = Database::postgres().await.seeded(1).await;
        let (mut tagged, mut untagged, mut prepares) =
            (database.client().await, database.client().await, database.client().await);
        tagged.run("SET application_name = 'pantry-api/2/node-1'; BEGIN; SELECT count(*) FROM images").await;
        untagged.run("SET application_name = 'psql'").await;
        prepares.run("BEGIN; INSERT INTO image_members VALUES ('a', 'b'); PREPARE TRANSACTION 'pantry-api/1/node-9'").await;
        prepares.close().await;
        let engine = database.engine().await;
        // The server ends a closed session a moment later.
        until(Duration::from_secs(30), async || {
            let sessions = engine.sessions().await.unwrap();
            (matches!(&sessions, Sessions::Listed(facts) if facts.len() == 3), sessions)
        })
        .await;
        let Sessions::Listed(facts) = engine.sessions().await.unwrap() else { panic!("postgres lists them") };
        let of = |name: &str| {
            facts.iter().find(|f| f.application_name == name).unwrap_or_else(|| panic!("{facts:?}"))
        };
        let tag = |version, node: &str| {
            Some(SessionTag { service: "pantry-api".into(), version, node: node.into() })
        };
        let session = of("pantry-api/2/node-1");
        assert_eq!((session.kind, &session.tag), (SessionKind::Session, &tag(2, "node-1")));
        assert_eq!(session.state.as_deref(), Some("idle in transaction"));
        assert_eq!((session.user.as_deref(), session.client.as_deref()), (Some("postgres"), None));
        assert_eq!(of("psql").tag, None);
        let prepared = of("pantry-api/1/node-9");
        assert_eq!((prepared.kind, prepared.pid), (SessionKind::PreparedTransaction, None));
        assert_eq!(prepared.tag, tag(1, "node-9"));
        assert_eq!(facts.len(), 3, "the session that asks is not among them: {facts:?}");
        untagged.run("ROLLBACK PREPARED 'pantry-api/1/node-9'").await;
    }

    /// Both ends of a logical replication: the apply process writes into one database, its sender reads the other.
    #[tokio::test(flavor = "multi_thread")]
    async fn apply_worker_and_sender_have_subscription_name() {
        let (source, target) =
            (Database::postgres().await.seeded(1).await, Database::postgres().await.seeded(0).await);
        let (mut from, mut to) = (source.client().await, target.client().await);
        from.run("CREATE PUBLICATION pantry FOR ALL TABLES").await;
        from.run("SELECT pg_create_logical_replication_slot('pantry_copy', 'pgoutput')").await;
        to.run(&format!(
            "CREATE SUBSCRIPTION pantry_copy CONNECTION '{}' PUBLICATION pantry WITH (create_slot = false, copy_data = false)",
            source.text
        ))
        .await;
        for (database, kind) in [(&target, SessionKind::Apply), (&source, SessionKind::WalSender)] {
            let engine = database.engine().await;
            until(Duration::from_secs(30), async || {
                let Sessions::Listed(facts) = engine.sessions().await.unwrap() else {
                    panic!("it lists them")
                };
                let named = facts.iter().find(|fact| fact.application_name == "pantry_copy");
                (named.is_some_and(|fact| fact.kind == kind && fact.pid.is_some()), facts)
            })
            .await;
        }
        to.run("ALTER SUBSCRIPTION pantry_copy DISABLE").await;
        to.run("ALTER SUBSCRIPTION pantry_copy SET (slot_name = NONE)").await;
        to.run("DROP SUBSCRIPTION pantry_copy").await;
    }
}
