//! Two-way sync of an old and a new column by triggers: what one version writes, the other reads.
//!
//! Neither version has to co-operate: who wrote is seen from *which column changed*. The rules, on
//! both engines:
//!
//! | a row is | with | then |
//! |---|---|---|
//! | inserted | `new` given | `old` := down |
//! | inserted or updated | `new` null | `new` := up |
//! | updated | `new` changed | `old` := down |
//! | updated | only `old` changed, and `new` does not say the same | `new` := up |
//!
//! so that a write of `new` wins, and a value that `old` cannot express is not lost by a write that does not concern
//! it. The names of one sync follow from its table and column, so that its end finds them.

mod postgres;
mod sqlite;

use crate::database::{Dialect, Session};
use crate::error::Error;
use crate::unit::{DropSync, Name, Sync};
use sha2::{Digest as _, Sha256};

/// The setting that marks a row as only being filled, for PostgreSQL's triggers.
pub(crate) const FILL_SETTING: &str = "tidegate.fill";

/// Makes the triggers, inside a transaction, after a check that both expressions fit the table.
pub(crate) async fn create(session: &mut Session, sync: &Sync) -> Result<(), Error> {
    let base = base(&sync.table, &sync.new);
    run(session, &check(sync)).await?;
    match session.dialect() {
        Dialect::Postgres => run(session, &postgres::create(&base, sync)).await,
        Dialect::Sqlite => {
            sqlite::fits(session, sync).await?;
            run(session, &sqlite::create(&base, sync)).await
        }
    }
}

/// Removes them, if they are there, inside a transaction.
pub(crate) async fn drop(session: &mut Session, sync: &DropSync) -> Result<(), Error> {
    let drops = drops(session, &sync.table, &sync.new).await?;
    if drops.is_empty() { Ok(()) } else { run(session, &drops.join(";\n")).await }
}

/// Whether a sync of this column is there.
pub(crate) async fn is_there(session: &mut Session, table: &str, new: &str) -> Result<bool, Error> {
    let (Ok(table), Ok(new)) = (Name::try_from(table.to_owned()), Name::try_from(new.to_owned())) else {
        return Ok(false);
    };
    Ok(!drops(session, &table, &new).await?.is_empty())
}

/// The statements that remove what is there of a sync, also under the names of an earlier program.
async fn drops(session: &mut Session, table: &Name, new: &Name) -> Result<Vec<String>, Error> {
    let (base, former) = (base(table, new), former_base(table, new));
    match session.dialect() {
        Dialect::Postgres => postgres::drop(session, table, &base, &former).await,
        Dialect::Sqlite => sqlite::drop(session, table, &base, &former).await,
    }
}

/// A statement that changes nothing, and fails where the expressions do not fit.
fn check(sync: &Sync) -> String {
    format!(
        "UPDATE {table} SET {new} = ({up}), {old} = ({down}) WHERE 1 = 0",
        table = sync.table,
        new = sync.new,
        old = sync.old,
        up = sync.up.text(),
        down = sync.down.text()
    )
}

/// How every trigger and function of this sync begins. No name of a table or column has the mark between the two.
fn base(table: &Name, new: &Name) -> String {
    shortened(format!("tidegate_{}${}", table.as_str(), new.as_str()))
}

/// The same as an earlier program had it: alike for `order_item.price` and `order.item_price`.
fn former_base(table: &Name, new: &Name) -> String {
    shortened(format!("tidegate_{}_{}", table.as_str(), new.as_str()))
}

/// At most 45 bytes, so that the longest name stays below PostgreSQL's 63.
fn shortened(plain: String) -> String {
    if plain.len() <= 45 {
        return plain;
    }
    let digest = hex::encode(Sha256::digest(plain.as_bytes()));
    format!("{}_{}", &plain[..36], &digest[..8])
}

/// The names that end with these roles, and those of as many refreshes as a sync may have.
fn names(base: &str, roles: &[&str]) -> Vec<String> {
    let refreshes = (0..Sync::MAX_REFRESH).map(|index| format!("{base}_refresh_{index}"));
    roles.iter().map(|role| format!("{base}_{role}")).chain(refreshes).collect()
}

async fn run(session: &mut Session, sql: &str) -> Result<(), Error> {
    session.run(sql).await.map_err(|f| Error::of(f, sql))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_too_long_stay_apart_and_short_enough() {
        let name = |t: &str| Name::try_from(t.to_owned()).unwrap();
        let long = name(&"t".repeat(63));
        let (a, b) = (base(&long, &name("visibility_a")), base(&long, &name("visibility_b")));
        assert!(a.len() <= 45 && a != b, "{a} {b}");
        assert_eq!(base(&name("images"), &name("visibility")), "tidegate_images$visibility");
        assert_eq!(former_base(&name("images"), &name("visibility")), "tidegate_images_visibility");
        let split_elsewhere = [("order_item", "price"), ("order", "item_price")];
        let [a, b] = split_elsewhere.map(|(table, new)| base(&name(table), &name(new)));
        assert_ne!(a, b);
    }
}
