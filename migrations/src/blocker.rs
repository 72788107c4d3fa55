//! Who holds what a step waits for: named, so that a person knows whom to ask or what to end.

use crate::database::{DatabaseUrl, Session, Value};
use crate::error::Error;
use tokio_util::sync::CancellationToken;

/// The most sessions that are named at once.
const NAMED: usize = 3;

/// What is told of a session, oldest transaction first.
const TOLD: &str = "a.pid::bigint, coalesce(a.application_name, ''), coalesce(a.usename::text, 'unknown'), \
     coalesce(host(a.client_addr), 'local'), coalesce(a.state, 'unknown'), \
     coalesce(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.backend_start)), 0)::bigint \
     FROM pg_stat_activity a";

/// Sessions in whose transactions a lock on one of these tables is held, after ours was refused.
pub(crate) async fn holders(session: &mut Session, tables: &[String]) -> Result<Option<String>, Error> {
    if tables.is_empty() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT {TOLD} WHERE a.pid IN (SELECT l.pid FROM pg_locks l WHERE l.granted AND l.pid <> pg_backend_pid() \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND l.relation IN (SELECT to_regclass(t) FROM unnest(string_to_array($1, ',')) t)) \
         ORDER BY a.xact_start NULLS LAST LIMIT {NAMED}"
    );
    let quoted: Vec<String> = tables.iter().map(|table| format!("\"{table}\"")).collect();
    let values = [Value::from(quoted.join(",").as_str())];
    let rows = session.read(&sql, &values).await.map_err(|f| Error::of(f, &sql))?;
    Ok(named(&rows))
}

/// A look at the sessions that another one waits for, from a connection of its own.
pub(crate) struct Lookout {
    session: Session,
    waiting: i64,
}

impl Lookout {
    /// None where it cannot connect: the wait goes on, and is told without names.
    pub async fn of(url: &DatabaseUrl, waiting: i64) -> Option<Lookout> {
        let session = Session::connect(url, "tidegate/sessions", &CancellationToken::new()).await;
        session.ok().map(|session| Lookout { session, waiting })
    }

    /// The sessions whose locks, rows or snapshots it waits for now.
    pub async fn blockers(&mut self) -> Option<String> {
        let sql = format!(
            "SELECT {TOLD} WHERE a.pid = ANY (pg_blocking_pids($1::int)) ORDER BY a.xact_start NULLS LAST LIMIT {NAMED}"
        );
        named(&self.session.read(&sql, &[self.waiting.into()]).await.ok()?)
    }
}

/// `session 7 (psql, user app, client 10.0.0.7, idle in transaction, 35 s old)`, several joined.
fn named(rows: &[Vec<Value>]) -> Option<String> {
    let session = |row: &Vec<Value>| {
        let text = |at: usize| row.get(at).and_then(Value::text).unwrap_or_default();
        let int = |at: usize| row.get(at).and_then(Value::int).unwrap_or_default();
        let name = if text(1).is_empty() { "without a name" } else { text(1) };
        format!(
            "session {} ({name}, user {}, client {}, {}, {} s old)",
            int(0),
            text(2),
            text(3),
            text(4),
            int(5)
        )
    };
    (!rows.is_empty()).then(|| rows.iter().map(session).collect::<Vec<_>>().join(", "))
}
