//! No more nulls in a column, without a long lock.
//!
//! PostgreSQL: a check that is not yet valid, validated while others write, then the column's own
//! NOT NULL, which finds its proof in the check and reads no rows. SQLite has no such change of a
//! column: triggers refuse nulls.

use crate::database::{Session, Value};
use crate::error::Error;
use crate::ladder::Ladder;
use crate::leader::Leader;
use crate::progress::ProgressSender;
use crate::unit::{Name, NotNull};

/// PostgreSQL, three transactions; what one of them did is seen and not done again.
pub(super) async fn by_constraint(leader: &mut Leader, forbids: &NotNull) -> Result<(), Error> {
    let NotNull { table, column } = forbids;
    let check = format!("\"{}\"", shortened("tidegate_nn", table, column));
    let state = "SELECT a.attnotnull, EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conrelid = a.attrelid \
                 AND c.conname = $3), EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conrelid = a.attrelid \
                 AND c.conname = $3 AND c.convalidated) FROM pg_attribute a \
                 WHERE a.attrelid = to_regclass($1) AND a.attname = $2";
    let name = check.trim_matches('"').to_owned();
    let values = [table.to_string().as_str().into(), column.as_str().into(), name.as_str().into()];
    let rows = leader.session.read(state, &values).await.map_err(|f| Error::of(f, state))?;
    let Some([Value::Int(done), Value::Int(checked), Value::Int(valid)]) = rows.first().map(Vec::as_slice)
    else {
        return Err(Error::Unsupported {
            step: format!("not null {}.{}", table.as_str(), column.as_str()),
            found: "no such column".into(),
            needs: "a column that expand added".into(),
        });
    };
    if *done == 1 && *checked == 0 {
        return Ok(());
    }
    if *done == 0 && *checked == 0 {
        let sql =
            format!("ALTER TABLE {table} ADD CONSTRAINT {check} CHECK ({column} IS NOT NULL) NOT VALID");
        short(leader, table, &sql).await?;
    }
    if *done == 0 && *valid == 0 {
        leader.long("SET lock_timeout = '100ms'").await?;
        let sql = format!("ALTER TABLE {table} VALIDATE CONSTRAINT {check}");
        laddered(leader, table, &sql).await?;
        leader.long("RESET lock_timeout").await?;
    }
    // Two statements: within one, the check would go before it could serve as the proof.
    let set = if *done == 0 {
        format!("ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL; ")
    } else {
        String::new()
    };
    let sql = format!("{set}ALTER TABLE {table} DROP CONSTRAINT {check}");
    short(leader, table, &sql).await
}

/// A short statement in a transaction of ours, tried until the lock is granted.
async fn short(leader: &mut Leader, table: &Name, sql: &str) -> Result<(), Error> {
    let progress = leader.progress.clone();
    let cancel = leader.cancel.clone();
    let mut ladder = Ladder::new(&cancel);
    loop {
        let tried = async {
            leader.begin().await?;
            leader.session.run(sql).await.map_err(|f| Error::of(f, sql))?;
            // From here on an instance that writes nulls fails: it may have reported since the step began.
            leader.is_wanted()?;
            leader.commit("a constraint").await
        };
        let Err(error) = tried.await else { return Ok(()) };
        leader.session.rollback().await;
        let held = leader.holders(&[table.as_str().to_owned()]).await;
        ladder.rest_for(error, sql, held, &ProgressSender(&progress)).await?;
    }
}

/// A long statement outside a transaction, tried until the lock is granted.
async fn laddered(leader: &mut Leader, table: &Name, sql: &str) -> Result<(), Error> {
    let progress = leader.progress.clone();
    let cancel = leader.cancel.clone();
    let mut ladder = Ladder::new(&cancel);
    while let Err(error) = leader.long_change("a validation", sql).await {
        let held = leader.holders(&[table.as_str().to_owned()]).await;
        ladder.rest_for(error, sql, held, &ProgressSender(&progress)).await?;
    }
    Ok(())
}

/// SQLite, in one transaction: no null is there, and none can come.
pub(super) async fn by_triggers(session: &mut Session, forbids: &NotNull) -> Result<(), Error> {
    let NotNull { table, column } = forbids;
    let count = format!("SELECT count(*) FROM {table} WHERE {column} IS NULL");
    let rows = session.read(&count, &[]).await.map_err(|f| Error::of(f, &count))?;
    let nulls = rows.first().and_then(|r| r.first()).and_then(Value::int).unwrap_or_default();
    if nulls > 0 {
        return Err(Error::Unsupported {
            step: format!("not null {}.{}", table.as_str(), column.as_str()),
            found: format!("{nulls} rows with null"),
            needs: "a backfill before it".into(),
        });
    }
    let text = format!("NOT NULL constraint failed: {}.{}", table.as_str(), column.as_str());
    for (trigger, event) in
        trigger_names(table, column).iter().zip(["INSERT", &format!("UPDATE OF {column}")])
    {
        // One that is there may have been made by an earlier run of the step.
        let sql = format!(
            "DROP TRIGGER IF EXISTS {trigger}; \
             CREATE TRIGGER {trigger} BEFORE {event} ON {table} WHEN NEW.{column} IS NULL \
             BEGIN SELECT RAISE(ABORT, '{text}'); END"
        );
        session.run(&sql).await.map_err(|f| Error::of(f, &sql))?;
    }
    Ok(())
}

/// The triggers that refuse nulls on SQLite, quoted. No name of a table or column has the mark between the two.
pub(super) fn trigger_names(table: &Name, column: &Name) -> [String; 2] {
    ["insert", "update"]
        .map(|event| format!("\"tidegate_nn_{}${}_{event}\"", table.as_str(), column.as_str()))
}

/// The same, not quoted, as an earlier program named them: alike for `order_item.price` and `order.item_price`.
pub(super) fn former_trigger_names(table: &Name, column: &Name) -> [String; 2] {
    ["insert", "update"].map(|event| format!("tidegate_nn_{}_{}_{event}", table.as_str(), column.as_str()))
}

/// A name of at most 63 bytes that differs where table or column differ.
fn shortened(prefix: &str, table: &Name, column: &Name) -> String {
    use sha2::{Digest as _, Sha256};
    let plain = format!("{prefix}_{}_{}", table.as_str(), column.as_str());
    if plain.len() <= 63 {
        return plain;
    }
    format!("{}_{}", &plain[..50], &hex::encode(Sha256::digest(plain.as_bytes()))[..8])
}
