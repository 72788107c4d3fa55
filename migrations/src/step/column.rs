//! Columns that come and go.

use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use crate::unit::{AddColumn, DropColumn};

/// Metadata only on both engines: nullable, or with a constant default (the linter saw to it).
pub(super) async fn add(session: &mut Session, column: &AddColumn) -> Result<(), Error> {
    let AddColumn { table, column, kind, default } = column;
    let default = default.as_ref().map(|d| format!(" DEFAULT {d}")).unwrap_or_default();
    run(session, &format!("ALTER TABLE {table} ADD COLUMN {column} {kind}{default}")).await
}

/// If it is there. On SQLite with our own not-null triggers on it, which would hold it.
pub(super) async fn drop(session: &mut Session, column: &DropColumn) -> Result<(), Error> {
    let DropColumn { table, column } = column;
    match session.dialect() {
        Dialect::Postgres => {
            run(session, &format!("ALTER TABLE IF EXISTS {table} DROP COLUMN IF EXISTS {column}")).await
        }
        Dialect::Sqlite => {
            let there = "SELECT count(*) FROM pragma_table_info($1) WHERE name = $2";
            let values = [Value::from(table.as_str()), Value::from(column.as_str())];
            let rows = session.read(there, &values).await.map_err(|f| Error::of(f, there))?;
            if rows.first().and_then(|r| r.first()) != Some(&Value::Int(1)) {
                return Ok(());
            }
            for trigger in super::not_null::trigger_names(table, column) {
                run(session, &format!("DROP TRIGGER IF EXISTS {trigger}")).await?;
            }
            run(session, &format!("ALTER TABLE {table} DROP COLUMN {column}")).await
        }
    }
}

async fn run(session: &mut Session, sql: &str) -> Result<(), Error> {
    session.run(sql).await.map_err(|f| Error::of(f, sql))
}
