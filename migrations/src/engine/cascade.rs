//! What SQLite would do to other tables where a table is dropped: it deletes the rows first, and a foreign key carries
//! that on. PostgreSQL refuses such a statement.

use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use crate::object::{self, Object, Relation};
use crate::unit::{MigrationSet, Phase, Step};
use std::collections::BTreeSet;

/// Whether rows of other tables may change with a step.
pub(super) fn may(step: &Step, dialect: Dialect) -> bool {
    dialect == Dialect::Sqlite && !tables(&object::removed(step)).is_empty()
}

/// Sees that no rows change of a table that stays. `gone` is what goes in the whole phase: rows of a table that a later
/// step drops may be deleted, and what is deleted with them is found as well.
pub(super) async fn none(session: &mut Session, step: &Step, gone: &[Object]) -> Result<(), Error> {
    refusal(session, step, gone, &[]).await?.map_or(Ok(()), Err)
}

/// The first refusal of a contract of the set's own migrations that is to be expected, in words. Only looks.
pub(super) async fn ahead(session: &mut Session, set: &MigrationSet) -> Result<Option<String>, Error> {
    let dialect = session.dialect();
    let (mut gone, mut before) = (Vec::new(), Vec::new());
    for migration in set.own() {
        let steps = migration.steps(Phase::Contract, dialect);
        gone.extend(steps.iter().flat_map(object::removed));
        for step in steps {
            if may(step, dialect)
                && let Some(refusal) = refusal(session, step, &gone, &before).await?
            {
                return Ok(Some(format!("the contract of migration {} would fail: {refusal}", migration.id)));
            }
            before.extend(object::removed(step));
        }
    }
    Ok(None)
}

/// The refusal of a step. A foreign key goes with its column, where a step before it drops that.
async fn refusal(
    session: &mut Session,
    step: &Step,
    gone: &[Object],
    before: &[Object],
) -> Result<Option<Error>, Error> {
    let sql = "SELECT m.name, f.\"from\", p.name, f.on_delete FROM sqlite_master m \
               JOIN pragma_foreign_key_list(m.name) f \
               JOIN sqlite_master p ON p.type = 'table' AND lower(p.name) = lower(f.\"table\") \
               WHERE m.type = 'table' AND f.on_delete IN ('CASCADE', 'SET NULL', 'SET DEFAULT') \
               ORDER BY m.name, f.id, f.seq";
    let rows = session.read(sql, &[]).await.map_err(|f| Error::of(f, sql))?;
    let gone = tables(gone);
    for row in &rows {
        let [Value::Text(table), Value::Text(column), Value::Text(parent), Value::Text(action)] = &row[..]
        else {
            continue;
        };
        let [child, name] = [table, column].map(|name| name.to_lowercase());
        let stays = !gone.contains(&child) && !before.contains(&Object::Column { table: child, name });
        if stays && gone.contains(&parent.to_lowercase()) {
            return Ok(Some(Error::Unsupported {
                step: step.summary(),
                found: format!(
                    "SQLite deletes the rows of {parent} before it drops the table, and {table}.{column} refers to them \
                     with ON DELETE {action}, so that rows of {table} would be deleted or changed"
                ),
                needs: format!("drop that column, or rebuild {table} without the foreign key, before it"),
            }));
        }
    }
    Ok(None)
}

/// The names of the tables among these objects, as SQLite compares them.
fn tables(objects: &[Object]) -> BTreeSet<String> {
    let is_table = |object: &&Object| matches!(object, Object::Relation { kind: Relation::Table, .. });
    objects.iter().filter(is_table).map(|object| object.name().to_lowercase()).collect()
}
