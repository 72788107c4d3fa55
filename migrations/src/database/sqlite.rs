//! SQLite through its driver: connect, run, read. No decisions.

use super::{Dialect, Failure, Kind, Value};
use crate::held::is_held;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection, TypeInfo, ValueRef};
use std::time::Duration;

/// How long we wait for other writers of the file before a try counts as refused. SQLite grants its
/// one write lock without a queue; a refused try is repeated by the ladder.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

fn failure(error: sqlx::Error) -> Failure {
    Failure::of(Dialect::Sqlite, error)
}

pub(super) async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, Failure> {
    let busy = if is_held() { Duration::ZERO } else { BUSY_TIMEOUT };
    let options = options.clone().busy_timeout(busy).statement_cache_capacity(0);
    SqliteConnection::connect_with(&options).await.map_err(failure)
}

pub(super) async fn run(connection: &mut SqliteConnection, sql: &str) -> Result<(), Failure> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.map_err(failure)?;
    Ok(())
}

pub(super) async fn change(
    connection: &mut SqliteConnection,
    sql: &str,
    values: &[Value],
) -> Result<u64, Failure> {
    let done = query(sql, values).execute(connection).await.map_err(failure)?;
    Ok(done.rows_affected())
}

pub(super) async fn read(
    connection: &mut SqliteConnection,
    sql: &str,
    values: &[Value],
) -> Result<Vec<Vec<Value>>, Failure> {
    let rows = query(sql, values).fetch_all(connection).await.map_err(failure)?;
    rows.iter().map(row).collect()
}

pub(super) async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "the database file was not closed cleanly");
    }
}

fn query<'q>(sql: &str, values: &[Value]) -> sqlx::query::Query<'q, sqlx::Sqlite, SqliteArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.to_owned())).persistent(false);
    for value in values {
        query = match value {
            Value::Null => query.bind(None::<String>),
            Value::Int(n) => query.bind(*n),
            Value::Text(t) => query.bind(t.clone()),
        };
    }
    query
}

fn row(row: &SqliteRow) -> Result<Vec<Value>, Failure> {
    (0..row.len()).map(|at| value(row, at)).collect()
}

fn value(row: &SqliteRow, at: usize) -> Result<Value, Failure> {
    let raw = row.try_get_raw(at).map_err(failure)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    match raw.type_info().name() {
        "INTEGER" | "BOOLEAN" => row.try_get_unchecked::<i64, _>(at).map(Value::Int).map_err(failure),
        "TEXT" => row.try_get_unchecked::<String, _>(at).map(Value::Text).map_err(failure),
        other => {
            let found = format!("column {} is of type {other}; allowed are integers and text", at + 1);
            Err(Failure::new(Kind::Statement, found))
        }
    }
}
