//! Whether an object is in the database. Only looks.

use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use crate::object::{Object, Relation};
use crate::sync;
use crate::unit::quoted;

/// Whether the invalid index `i` is being built. Which index a session builds is hidden from roles without rights on it: then
/// each build on the table counts.
pub(crate) const IS_BEING_BUILT: &str = "EXISTS (SELECT 1 FROM pg_stat_progress_create_index p JOIN pg_locks l ON l.pid = p.pid \
     WHERE p.datname = current_database() AND l.database = p.datid AND l.locktype = 'relation' AND l.granted \
     AND l.relation = i.indrelid AND (p.index_relid IS NULL OR p.index_relid IN (0, i.indexrelid)))";

/// The relations of a name and a schema, which may be null.
const RELATIONS: &str = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relname = $1 AND n.nspname = coalesce($2, current_schema())";

/// Whether it is there. An invalid index is what a build that failed left behind, and counts as none. Not asked of functions,
/// types, schemas and constraints: the database itself refuses to make one that is there, and no step of ours takes one that
/// is there for its own.
pub(crate) async fn is_there(session: &mut Session, object: &Object) -> Result<bool, Error> {
    match (object, session.dialect()) {
        (Object::Sync { table, new }, _) => sync::is_there(session, table, new).await,
        (Object::Constraint { .. } | Object::Other { .. }, _) => Ok(false),
        (Object::Relation { name, .. }, Dialect::Postgres) => {
            let (schema, name) = qualified(name);
            let sql = format!(
                "{RELATIONS} AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indexrelid = c.oid AND NOT i.indisvalid)"
            );
            count(session, &sql, &[name.into(), schema.map_or(Value::Null, Value::from)]).await
        }
        (Object::Relation { name, .. }, Dialect::Sqlite) => {
            let sql = "SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view', 'index') \
                       AND lower(name) = lower($1)";
            count(session, sql, &[qualified(name).1.into()]).await
        }
        (Object::Column { table, name }, Dialect::Postgres) => {
            let sql = "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2 \
                       AND attnum > 0 AND NOT attisdropped";
            count(session, sql, &[quoted(table).as_str().into(), name.as_str().into()]).await
        }
        (Object::Column { table, name }, Dialect::Sqlite) => {
            let sql = "SELECT count(*) FROM pragma_table_xinfo($1) WHERE lower(name) = lower($2)";
            count(session, sql, &[qualified(table).1.into(), name.as_str().into()]).await
        }
        (Object::Trigger { table, name }, Dialect::Postgres) => {
            let sql = "SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = $2";
            count(session, sql, &[quoted(table).as_str().into(), name.as_str().into()]).await
        }
        (Object::Trigger { name, .. }, Dialect::Sqlite) => {
            let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND lower(name) = lower($1)";
            count(session, sql, &[name.as_str().into()]).await
        }
    }
}

/// Whether a step that makes it would meet something: it is there, or an invalid index of its name is on another table or is
/// being built. What a failed build left on its own table is none: the step removes it.
pub(crate) async fn is_taken(session: &mut Session, object: &Object) -> Result<bool, Error> {
    let (Object::Relation { kind, name }, Dialect::Postgres) = (object, session.dialect()) else {
        return is_there(session, object).await;
    };
    let table = match kind {
        Relation::Index { table: Some(table) } => Value::from(quoted(table).as_str()),
        _ => Value::Null,
    };
    let (schema, name) = qualified(name);
    let sql = format!(
        "{RELATIONS} AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indexrelid = c.oid AND NOT i.indisvalid \
         AND i.indrelid = to_regclass($3) AND NOT {IS_BEING_BUILT})"
    );
    count(session, &sql, &[name.into(), schema.map_or(Value::Null, Value::from), table]).await
}

/// Whether [`is_there`] can see such an object.
pub(crate) fn can_be_seen(object: &Object) -> bool {
    !matches!(object, Object::Constraint { .. } | Object::Other { .. })
}

async fn count(session: &mut Session, sql: &str, values: &[Value]) -> Result<bool, Error> {
    let rows = session.read(sql, values).await.map_err(|f| Error::of(f, sql))?;
    Ok(rows.first().and_then(|r| r.first()).and_then(Value::int).unwrap_or_default() > 0)
}

/// The schema that is written before a name, and the name.
fn qualified(name: &str) -> (Option<&str>, &str) {
    name.rsplit_once('.').map_or((None, name), |(schema, name)| (Some(schema), name))
}
