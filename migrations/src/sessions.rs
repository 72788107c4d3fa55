//! The sessions connected to the schema's database, each with its service and version.
//!
//! A service names its sessions `service/version/node` (`application_name`). What does not carry
//! such a name is untagged, and it is the caller's rule what that closes. Only looks.

use crate::database::{DatabaseUrl, Dialect, Session, Value};
use crate::error::Error;
use crate::term::Term;
use tokio_util::sync::CancellationToken;

/// What the database says of its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sessions {
    /// All that it has, ours of this question left out.
    Listed(Vec<SessionFact>),
    /// It has no such list.
    CannotTell {
        /// Why.
        reason: String,
    },
}

/// One session, or what counts as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFact {
    /// The name it gave itself; for a prepared transaction its global id.
    pub application_name: String,
    /// The server process; a prepared transaction has none.
    pub pid: Option<i64>,
    /// `active`, `idle`, `idle in transaction`…; none where we may not see it.
    pub state: Option<String>,
    /// What it is.
    pub kind: SessionKind,
    /// Who it is, where the name says.
    pub tag: Option<SessionTag>,
    /// The database user that it works as; of a prepared transaction its owner.
    pub user: Option<String>,
    /// The client's address; none for a local socket, and where we may not see it.
    pub client: Option<String>,
}

/// What a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionKind {
    /// A client's connection.
    Session,
    /// A transaction that was prepared and waits for its commit, without a connection.
    PreparedTransaction,
    /// A replication connection.
    WalSender,
    /// A process that applies what another database publishes.
    Apply,
    /// A session of this engine.
    Engine,
}

/// `service/version/node`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionTag {
    /// The service.
    pub service: String,
    /// Its version.
    pub version: u32,
    /// The node; cut off where the name exceeds PostgreSQL's 63 bytes.
    pub node: String,
}

impl SessionTag {
    /// Reads a tag; anything that is not one is none. A name that was cut off before its second `/`
    /// is none either: half a version is not a version.
    pub fn parse(name: &str) -> Option<SessionTag> {
        let mut parts = name.splitn(3, '/');
        let (service, version, node) = (parts.next()?, parts.next()?, parts.next()?);
        let plain = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit());
        let version: u32 = plain.then(|| version.parse().ok())??;
        let fits = !service.is_empty() && !node.is_empty() && (1..=2_147_483_647).contains(&version);
        fits.then(|| SessionTag { service: service.to_owned(), version, node: node.to_owned() })
    }
}

/// Asks on a session of its own.
pub(crate) async fn list(url: &DatabaseUrl) -> Result<Sessions, Error> {
    if let Some(unknown) = unknown(url.dialect()) {
        return Ok(unknown);
    }
    let mut session = Session::connect(url, "tidegate/sessions", &CancellationToken::new())
        .await
        .map_err(|f| Error::of(f, "connect"))?;
    let answer = ask(&mut session).await;
    session.close().await;
    answer
}

/// Why a kind of database lists no sessions; none where it does.
pub(crate) fn unknown(dialect: Dialect) -> Option<Sessions> {
    let reason = || "sqlite keeps no list of the programs that have its file open".to_owned();
    (dialect == Dialect::Sqlite).then(|| Sessions::CannotTell { reason: reason() })
}

/// All but the session that asks.
pub(crate) async fn ask(session: &mut Session) -> Result<Sessions, Error> {
    // Without rights on another role's session its backend_type reads as null: counted as a client. An apply process
    // has no name of its own: its subscription's is returned.
    let sql = "SELECT coalesce(nullif(a.application_name, ''), s.subname, ''), a.pid::bigint, a.state, \
               coalesce(a.backend_type, 'client backend'), a.usename::text, host(a.client_addr) \
               FROM pg_stat_activity a LEFT JOIN pg_stat_subscription s ON s.pid = a.pid \
               WHERE a.pid <> pg_backend_pid() AND (a.datname = current_database() \
               OR (a.datname IS NULL AND a.backend_type = 'walsender')) \
               AND (coalesce(a.backend_type, 'client backend') IN ('client backend', 'walsender') OR s.pid IS NOT NULL) \
               UNION ALL SELECT gid, NULL, 'prepared', 'prepared', owner::text, NULL FROM pg_prepared_xacts \
               WHERE database = current_database() ORDER BY 1, 2";
    let rows = session.read(sql, &[]).await.map_err(|f| Error::of(f, sql))?;
    Ok(Sessions::Listed(rows.iter().map(|row| fact(row)).collect()))
}

fn fact(row: &[Value]) -> SessionFact {
    let text = |at: usize| row.get(at).and_then(Value::text).unwrap_or_default().to_owned();
    let name = text(0);
    let ours = Term::revision_of_session(&name).is_some()
        || name == "tidegate/sessions"
        || name == "tidegate/cancel";
    let kind = match text(3).as_str() {
        "walsender" => SessionKind::WalSender,
        "prepared" => SessionKind::PreparedTransaction,
        kind if kind.starts_with("logical replication") => SessionKind::Apply,
        _ if ours => SessionKind::Engine,
        _ => SessionKind::Session,
    };
    SessionFact {
        tag: if kind == SessionKind::Engine { None } else { SessionTag::parse(&name) },
        pid: row.get(1).and_then(Value::int),
        state: row.get(2).and_then(Value::text).map(str::to_owned),
        user: row.get(4).and_then(Value::text).map(str::to_owned),
        client: row.get(5).and_then(Value::text).map(str::to_owned),
        application_name: name,
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_tag_is_a_tag() {
        let tag = SessionTag::parse("pantry-api/2/node-1").unwrap();
        assert_eq!((tag.service.as_str(), tag.version, tag.node.as_str()), ("pantry-api", 2, "node-1"));
        for name in [
            "",
            "psql",
            "a/b/c",
            "a/2",
            "a/2/",
            "/2/n",
            "a/0/n",
            "a/-1/n",
            "a/+1/n",
            "a/2147483648/n",
            "a/1.0/n",
        ] {
            assert_eq!(SessionTag::parse(name), None, "{name}");
        }
    }
}
