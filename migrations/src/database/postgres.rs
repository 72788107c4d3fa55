//! PostgreSQL through its driver: connect, run, read. No decisions.

use super::statements::statements;
use super::{Dialect, Failure, Kind, Value};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, Column, Connection, PgConnection, Row, TypeInfo};

fn failure(error: sqlx::Error) -> Failure {
    Failure::of(Dialect::Postgres, error)
}

pub(super) async fn connect(options: &PgConnectOptions, name: &str) -> Result<PgConnection, Failure> {
    // Prepared statements that outlive a change of the schema answer "cached plan must not change
    // result type"; this session changes schemas, so it keeps none.
    let options = options.clone().application_name(name).statement_cache_capacity(0);
    PgConnection::connect_with(&options).await.map_err(failure)
}

statements!(sqlx::Postgres, PgConnection, PgRow);

pub(super) async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "the connection was already gone");
    }
}

fn value(row: &PgRow, at: usize) -> Result<Value, Failure> {
    let kind = row.column(at).type_info().name().to_owned();
    let int = |n: Option<i64>| n.map_or(Value::Null, Value::Int);
    match kind.as_str() {
        "INT8" => row.try_get::<Option<i64>, _>(at).map(int),
        "INT4" => row.try_get::<Option<i32>, _>(at).map(|n| int(n.map(i64::from))),
        "BOOL" => row.try_get::<Option<bool>, _>(at).map(|b| int(b.map(i64::from))),
        "TEXT" | "VARCHAR" | "NAME" => {
            row.try_get::<Option<String>, _>(at).map(|t| t.map_or(Value::Null, Value::Text))
        }
        other => {
            let found = format!("column {} is of type {other}; allowed are integers and text", at + 1);
            return Err(Failure::new(Kind::Statement, found));
        }
    }
    .map_err(failure)
}
