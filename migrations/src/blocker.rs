//! Who holds what a step waits for: named, so that a person knows whom to ask or what to end.

use crate::database::{Failure, Kind, Session, Value};
use crate::error::Error;
use crate::unit::quoted;

/// The most sessions that are named at once.
const NAMED: usize = 3;

/// The reported fields of a session, oldest transaction first.
const SESSION_COLUMNS: &str = "a.pid::bigint, coalesce(a.application_name, ''), coalesce(a.usename::text, 'unknown'), \
     coalesce(host(a.client_addr), 'local'), coalesce(a.state, 'unknown'), \
     coalesce(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.backend_start)), 0)::bigint \
     FROM pg_stat_activity a";

/// The reported fields of a prepared transaction, which has no session and ends by an operator's command only. Its
/// locks are listed without a process, one of them on its own transaction ID; they share a virtual transaction.
const PREPARED: &str = "SELECT x.gid, x.owner::text, extract(epoch FROM clock_timestamp() - x.prepared)::bigint \
     FROM pg_prepared_xacts x JOIN pg_locks t ON t.locktype = 'transactionid' AND t.transactionid = x.transaction \
     AND t.granted AND t.pid IS NULL WHERE t.virtualtransaction IN";

/// Sessions and prepared transactions in which a lock on one of these tables is held, after ours was refused.
pub(crate) async fn holders(session: &mut Session, tables: &[String]) -> Result<Option<String>, Error> {
    if tables.is_empty() {
        return Ok(None);
    }
    let locks = "FROM pg_locks l WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND l.relation IN (SELECT to_regclass(t) FROM unnest(string_to_array($1, ',')) t)";
    let sessions = format!(
        "SELECT {SESSION_COLUMNS} WHERE a.pid IN (SELECT l.pid {locks}) ORDER BY a.xact_start NULLS LAST LIMIT {NAMED}"
    );
    let prepared = format!(
        "{PREPARED} (SELECT l.virtualtransaction {locks} AND l.pid IS NULL) ORDER BY x.prepared LIMIT {NAMED}"
    );
    let quoted: Vec<String> = tables.iter().map(|table| quoted(table)).collect();
    let values = [Value::from(quoted.join(",").as_str())];
    let prepared = session.read(&prepared, &values).await.map_err(|f| Error::of(f, &prepared))?;
    let sessions = session.read(&sessions, &values).await.map_err(|f| Error::of(f, &sessions))?;
    Ok(named(&prepared, &sessions))
}

/// The sessions and prepared transactions whose locks, rows or snapshots the session with this number waits for now, asked in
/// another one; none also where they cannot be listed.
///
/// # Errors
/// The connection has ended.
pub(crate) async fn blockers(session: &mut Session, waiting: i64) -> Result<Option<String>, Failure> {
    match listed(session, waiting).await {
        Err(failure) if failure.kind == Kind::Statement => Ok(None),
        answer => answer,
    }
}

async fn listed(session: &mut Session, waiting: i64) -> Result<Option<String>, Failure> {
    let sessions = format!(
        "SELECT {SESSION_COLUMNS} WHERE a.pid = ANY (pg_blocking_pids($1::int)) ORDER BY a.xact_start NULLS LAST LIMIT {NAMED}"
    );
    let prepared = format!(
        "{PREPARED} (SELECT h.virtualtransaction FROM pg_locks w JOIN pg_locks h ON h.locktype = w.locktype \
         AND h.database IS NOT DISTINCT FROM w.database AND h.relation IS NOT DISTINCT FROM w.relation \
         AND h.transactionid IS NOT DISTINCT FROM w.transactionid \
         WHERE w.pid = $1::int AND NOT w.granted AND h.granted AND h.pid IS NULL) \
         ORDER BY x.prepared LIMIT {NAMED}"
    );
    let prepared = session.read(&prepared, &[waiting.into()]).await?;
    let sessions = session.read(&sessions, &[waiting.into()]).await?;
    Ok(named(&prepared, &sessions))
}

/// `prepared transaction 'x' (user app, 35 s old; ROLLBACK PREPARED 'x' ends it)` and
/// `session 7 (psql, user app, client 10.0.0.7, idle in transaction, 35 s old)`, joined.
fn named(prepared: &[Vec<Value>], sessions: &[Vec<Value>]) -> Option<String> {
    let text = |row: &[Value], at: usize| row.get(at).and_then(Value::text).unwrap_or_default().to_owned();
    let int = |row: &[Value], at: usize| row.get(at).and_then(Value::int).unwrap_or_default();
    let prepared = prepared.iter().map(|row| {
        let gid = text(row, 0).replace('\'', "''");
        format!(
            "prepared transaction '{gid}' (user {}, {} s old; ROLLBACK PREPARED '{gid}' ends it)",
            text(row, 1),
            int(row, 2)
        )
    });
    let sessions = sessions.iter().map(|row| {
        let name = Some(text(row, 1)).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| "without a name".to_owned());
        let (user, client, state) = (text(row, 2), text(row, 3), text(row, 4));
        format!(
            "session {} ({name}, user {user}, client {client}, {state}, {} s old)",
            int(row, 0),
            int(row, 5)
        )
    });
    let all: Vec<String> = prepared.chain(sessions).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
