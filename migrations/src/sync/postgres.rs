//! PostgreSQL's form: BEFORE triggers guarded by WHEN, so that rows that do not concern the sync,
//! and the fill's own updates, call no function. Fired in the order of their names.
//!
//! Other BEFORE triggers may read `old` and change `old` or `new`. Therefore `new` is carried down twice: early, for
//! triggers whose names sort later, and after all others; `old` is carried up after all others. The late triggers are not
//! `UPDATE OF`, which looks at the columns that the statement sets, and not at those that a trigger changed.

use super::FILL_SETTING;
use crate::database::{Session, Value};
use crate::error::Error;
use crate::unit::{Name, Refresh, Sync};

/// How the names of the functions end that triggers on the synced table call.
const ROLES: [&str; 3] = ["up", "down", "carry"];

/// The names of the late triggers begin with the ASCII character that sorts last.
const LAST: char = '~';

pub(super) fn create(base: &str, sync: &Sync) -> String {
    let Sync { table, old, new, up, down, refresh } = sync;
    let (up, down) = (up.text(), down.text());
    // The expressions see the new row under the table's own name.
    let over_row = |expression: &str| format!("(SELECT ({expression}) FROM (SELECT NEW.*) AS {table})");
    let (up_row, down_row) = (over_row(up), over_row(down));
    let given = format!("NEW.{new} IS NOT NULL");
    let changed = format!(
        "{given} AND NEW.{new} IS DISTINCT FROM OLD.{new} \
         AND current_setting('{FILL_SETTING}', true) IS DISTINCT FROM 'on'"
    );
    // A fill may meet a trigger that changes `old`; it has then computed `new` from the former value.
    let carried = format!(
        "NEW.{old} IS DISTINCT FROM OLD.{old} AND {given} AND (NEW.{new} IS NOT DISTINCT FROM OLD.{new} \
         OR current_setting('{FILL_SETTING}', true) = 'on')"
    );
    let last = format!("{LAST}{base}");
    let on_table = |name: String, event: &str, when: &str, role: &str| {
        trigger(&name, event, sync, when, &format!("{base}_{role}"))
    };
    let mut sql = [
        function(base, "up", &format!("NEW.{new} := {up_row}; RETURN NEW;")),
        function(base, "down", &format!("NEW.{old} := {down_row}; RETURN NEW;")),
        function(
            base,
            "carry",
            &format!(
                "IF NEW.{old} IS DISTINCT FROM {down_row} THEN NEW.{new} := {up_row}; END IF; RETURN NEW;"
            ),
        ),
        on_table(format!("{base}_1_down_insert"), "BEFORE INSERT", &given, "down"),
        on_table(format!("{base}_2_down"), &format!("BEFORE UPDATE OF {new}"), &changed, "down"),
        on_table(format!("{last}_1_down_insert"), "BEFORE INSERT", &given, "down"),
        on_table(format!("{last}_2_down"), "BEFORE UPDATE", &changed, "down"),
        on_table(format!("{last}_3_carry"), "BEFORE UPDATE", &carried, "carry"),
        on_table(format!("{last}_4_fill"), "BEFORE INSERT OR UPDATE", &format!("NEW.{new} IS NULL"), "up"),
    ]
    .concat();
    for (index, Refresh { table: other, key, of }) in refresh.iter().enumerate() {
        let role = format!("refresh_{index}");
        let body = format!(
            "UPDATE {table} SET {new} = ({up}) WHERE {table}.{of} = NEW.{key} AND {table}.{new} IS DISTINCT FROM ({up}); \
             RETURN NULL;"
        );
        sql += &function(base, &role, &body);
        sql += &format!(
            "DROP TRIGGER IF EXISTS \"{base}_{role}\" ON {other};\n\
             CREATE TRIGGER \"{base}_{role}\" AFTER INSERT ON {other} FOR EACH ROW EXECUTE FUNCTION \"{base}_{role}\"();\n"
        );
    }
    sql
}

/// Functions go with the triggers that call them; both are this sync's own. Functions with the names of an earlier program
/// are another sync's where triggers of another table call them.
pub(super) async fn drop(
    session: &mut Session,
    table: &Name,
    base: &str,
    former: &str,
) -> Result<Vec<String>, Error> {
    let sql = "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
               WHERE n.nspname = current_schema() AND p.pronargs = 0 \
               AND (p.proname = ANY (string_to_array($1, ',')) OR p.proname = ANY (string_to_array($2, ',')) \
               AND NOT EXISTS (SELECT 1 FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid \
               WHERE f.pronamespace = p.pronamespace AND f.proname = ANY (string_to_array($3, ',')) \
               AND t.tgrelid IS DISTINCT FROM to_regclass($4)))";
    let [own, former_all] = [base, former].map(|base| super::names(base, &ROLES).join(","));
    let former_here = ROLES.map(|role| format!("{former}_{role}")).join(",");
    let values = [own, former_all, former_here, table.to_string()].map(Value::Text);
    let rows = session.read(sql, &values).await.map_err(|f| Error::of(f, sql))?;
    let function = |row: &Vec<Value>| Some(format!("DROP FUNCTION {} CASCADE", row.first()?.text()?));
    Ok(rows.iter().filter_map(function).collect())
}

fn function(base: &str, role: &str, body: &str) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION \"{base}_{role}\"() RETURNS trigger LANGUAGE plpgsql \
         SET search_path FROM CURRENT AS $tidegate$\n#variable_conflict use_column\nBEGIN {body} END $tidegate$;\n"
    )
}

fn trigger(name: &str, event: &str, sync: &Sync, when: &str, function: &str) -> String {
    let table = &sync.table;
    format!(
        "DROP TRIGGER IF EXISTS \"{name}\" ON {table};\n\
         CREATE TRIGGER \"{name}\" {event} ON {table} FOR EACH ROW WHEN ({when}) \
         EXECUTE FUNCTION \"{function}\"();\n"
    )
}
