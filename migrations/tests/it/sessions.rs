//! Who is connected.

use crate::support::*;
use tidegate_migrations::Sessions;

#[tokio::test]
async fn sqlite_says_that_it_cannot_tell() {
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
}
