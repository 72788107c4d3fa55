//! Columns that come and go.

use super::not_null;
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
            let [insert, update] = not_null::former_trigger_names(table, column);
            let sql = "SELECT (SELECT count(*) FROM pragma_table_info($1) WHERE name = $2), \
                       (SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = $1 \
                       AND name IN ($3, $4))";
            let values = [table.as_str(), column.as_str(), insert.as_str(), update.as_str()].map(Value::from);
            let rows = session.read(sql, &values).await.map_err(|f| Error::of(f, sql))?;
            let Some([Value::Int(1), Value::Int(former)]) = rows.first().map(Vec::as_slice) else {
                return Ok(());
            };
            let mut triggers = not_null::trigger_names(table, column).to_vec();
            if *former > 0 {
                triggers.extend([insert, update].map(|name| format!("\"{name}\"")));
            }
            for trigger in triggers {
                run(session, &format!("DROP TRIGGER IF EXISTS {trigger}")).await?;
            }
            run(session, &format!("ALTER TABLE {table} DROP COLUMN {column}")).await
        }
    }
}

async fn run(session: &mut Session, sql: &str) -> Result<(), Error> {
    session.run(sql).await.map_err(|f| Error::of(f, sql))
}
