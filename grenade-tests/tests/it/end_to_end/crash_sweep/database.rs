//! What was done to the database: by its own history, and on PostgreSQL by a trigger of ours that notes every change of
//! the schema in the transaction that makes it.

use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use super::run::Ends;

/// Notes what is changed of the schema.
const LEDGER: &str = "
    CREATE TABLE harness_ledger (tag text NOT NULL, object text NOT NULL);
    CREATE FUNCTION harness_note() RETURNS event_trigger LANGUAGE plpgsql AS $$
        DECLARE change record;
        BEGIN
            FOR change IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
                INSERT INTO public.harness_ledger VALUES (change.command_tag, change.object_identity);
            END LOOP;
        END $$;
    CREATE EVENT TRIGGER harness_note ON ddl_command_end EXECUTE FUNCTION harness_note();";
const CHANGES: &str =
    "SELECT tag, object, count(*) FROM harness_ledger GROUP BY tag, object ORDER BY tag, object";
const STEPS: &str = "SELECT phase, step, state, count(*) FROM tidegate_history \
                     GROUP BY phase, step, state ORDER BY phase, step, state";

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// Phase, step (-1 = the phase itself), state, how many rows.
    steps: Vec<(String, i64, String, i64)>,
    /// Kind of change, object, how often; nothing on SQLite.
    changes: Vec<(String, String, i64)>,
}

/// Begins to note, where the database can.
pub(super) async fn watch(url: &str) {
    if url.starts_with("postgres:") {
        let mut connection = PgConnection::connect(url).await.unwrap();
        connection.execute(sqlx::raw_sql(LEDGER)).await.unwrap();
        connection.close().await.unwrap();
    }
}

pub(super) async fn done(url: &str) -> Done {
    if url.starts_with("postgres:") {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let steps = sqlx::query_as(STEPS).fetch_all(&mut connection).await.unwrap();
        Done { steps, changes: sqlx::query_as(CHANGES).fetch_all(&mut connection).await.unwrap() }
    } else {
        let mut connection = SqliteConnection::connect(url).await.unwrap();
        Done { steps: sqlx::query_as(STEPS).fetch_all(&mut connection).await.unwrap(), changes: Vec::new() }
    }
}

impl Done {
    /// Each step of each phase ran once, and was undone where the upgrade was.
    pub(super) fn are_once(&self, ends: Ends) {
        let (state, phases) = match ends {
            Ends::Completed => ("done", ["contract", "expand", "migrate"]),
            Ends::RolledBack => ("undone", ["expand", "migrate", "undo"]),
        };
        for (phase, step, found, rows) in &self.steps {
            assert_eq!((found.as_str(), *rows), (state, 1), "{phase} {step}: {:#?}", self.steps);
        }
        let mut found: Vec<&str> = self.steps.iter().map(|(phase, ..)| phase.as_str()).collect();
        found.dedup();
        assert_eq!(found, phases);
    }
}
