//! SQLite's form: its triggers cannot change the row that is being written, so AFTER triggers
//! update it once more, guarded so that an update that changes nothing does not happen.

use crate::database::{Session, Value};
use crate::error::Error;
use crate::mutant;
use crate::unit::{Name, Refresh, Sync};

/// How the names of the triggers on the synced table end.
const ROLES: [&str; 5] = ["1_down_insert", "2_down", "3_carry", "4_fill_insert", "4_fill_update"];

pub(super) fn create(base: &str, sync: &Sync) -> String {
    let Sync { table, old, new, up, down, refresh } = sync;
    let (up, down) = (up.text(), down.text());
    let set_old =
        format!("UPDATE {table} SET {old} = ({down}) WHERE rowid = NEW.rowid AND {old} IS NOT ({down})");
    let set_new = format!("UPDATE {table} SET {new} = ({up}) WHERE rowid = NEW.rowid AND {new} IS NULL");
    let carry =
        format!("UPDATE {table} SET {new} = ({up}) WHERE rowid = NEW.rowid AND {old} IS NOT ({down})");
    let mut sql = [
        trigger(
            base,
            "1_down_insert",
            &format!("INSERT ON {table}"),
            &format!("NEW.{new} IS NOT NULL"),
            &set_old,
        ),
        trigger(
            base,
            "2_down",
            &format!("UPDATE OF {new} ON {table}"),
            &match mutant::is("updates-are-not-carried-down") {
                true => "0".to_owned(),
                false => format!("NEW.{new} IS NOT NULL AND NEW.{new} IS NOT OLD.{new}"),
            },
            // What only says again what the old column says (a fill, a carry) is not carried down.
            &format!("{set_old} AND {new} IS NOT ({up})"),
        ),
        trigger(
            base,
            "3_carry",
            &format!("UPDATE OF {old} ON {table}"),
            &format!("NEW.{old} IS NOT OLD.{old} AND NEW.{new} IS OLD.{new} AND NEW.{new} IS NOT NULL"),
            &carry,
        ),
        trigger(
            base,
            "4_fill_insert",
            &format!("INSERT ON {table}"),
            &format!("NEW.{new} IS NULL"),
            &set_new,
        ),
        trigger(
            base,
            "4_fill_update",
            &format!("UPDATE ON {table}"),
            &format!("NEW.{new} IS NULL"),
            &set_new,
        ),
    ]
    .concat();
    for (index, Refresh { table: other, key, of }) in refresh.iter().enumerate() {
        let body =
            format!("UPDATE {table} SET {new} = ({up}) WHERE {of} = NEW.{key} AND {new} IS NOT ({up})");
        sql += &trigger(base, &format!("refresh_{index}"), &format!("INSERT ON {other}"), "1", &body);
    }
    sql
}

/// What SQLite cannot do for this table is said before a trigger is made.
pub(super) async fn fits(session: &mut Session, sync: &Sync) -> Result<(), Error> {
    let unsupported = |found: String, needs: &str| Error::Unsupported {
        step: format!("sync {}.{}", sync.table.as_str(), sync.new.as_str()),
        found,
        needs: needs.to_owned(),
    };
    let sql = "SELECT \"notnull\", dflt_value IS NOT NULL FROM pragma_table_info($1) WHERE name = $2";
    let values = [Value::from(sync.table.as_str()), Value::from(sync.old.as_str())];
    let rows = session.read(sql, &values).await.map_err(|f| Error::of(f, sql))?;
    if rows.first().map(Vec::as_slice) == Some(&[Value::Int(1), Value::Int(0)]) {
        let found = format!("column {} is not null and has no default", sync.old.as_str());
        return Err(unsupported(
            found,
            "a default, because SQLite checks an insert before a trigger can fill it",
        ));
    }
    let probe = format!("SELECT rowid FROM {} LIMIT 0", sync.table);
    if session.read(&probe, &[]).await.is_err() {
        return Err(unsupported("the table has no rowid".into(), "a table with rowid"));
    }
    Ok(())
}

/// Triggers with the names of an earlier program are another sync's where the synced table is another one.
pub(super) async fn drop(
    session: &mut Session,
    table: &Name,
    base: &str,
    former: &str,
) -> Result<Vec<String>, Error> {
    let [own, former_all] = [base, former].map(|base| super::names(base, &ROLES).join("', '"));
    let former_here = ROLES.map(|role| format!("{former}_{role}")).join("', '");
    let sql = format!(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND (name IN ('{own}') OR name IN ('{former_all}') \
         AND NOT EXISTS (SELECT 1 FROM sqlite_master other WHERE other.type = 'trigger' \
         AND other.name IN ('{former_here}') AND lower(other.tbl_name) <> $1))"
    );
    let values = [Value::from(table.as_str())];
    let rows = session.read(&sql, &values).await.map_err(|f| Error::of(f, &sql))?;
    let trigger = |row: &Vec<Value>| Some(format!("DROP TRIGGER \"{}\"", row.first()?.text()?));
    Ok(rows.iter().filter_map(trigger).collect())
}

fn trigger(base: &str, role: &str, event: &str, when: &str, body: &str) -> String {
    format!("CREATE TRIGGER \"{base}_{role}\" AFTER {event} WHEN {when} BEGIN {body}; END;\n")
}
