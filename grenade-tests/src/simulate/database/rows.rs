//! The rows that programs of each version write and read.

use super::form::{added, column, form};
use super::{Asked, Database, Wrong};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many rows programs make, where a table has no more from the beginning.
const ROWS: u64 = 48;

impl Database {
    /// The rows that are there at the beginning, in one statement.
    pub(super) async fn first_rows(&mut self, version: u32) -> Asked<()> {
        let mut rows = Vec::new();
        for _ in 0..self.plan.rows {
            let (id, value) = self.next_row();
            rows.push(self.new_row(version, &id, &value));
            self.rows.insert(id, value);
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.run(&format!("INSERT INTO items ({}) VALUES {}", self.columns(version), rows.join(", "))).await
    }

    /// The key that is written next, and its value.
    fn next_row(&mut self) -> (String, String) {
        self.next += 1;
        let keys = ROWS.max(self.plan.rows);
        (format!("row-{}", self.next % keys), format!("value-{}", self.next))
    }

    /// The columns that a program of `version` writes into a new row.
    fn columns(&self, version: u32) -> String {
        let added = added(&self.plan, version).into_iter().map(|n| format!(", b{n}"));
        format!("id, {}{}", column(&self.plan, version), added.collect::<String>())
    }

    /// Its values in the same order.
    fn new_row(&self, version: u32, id: &str, value: &str) -> String {
        let added = ", 'b'".repeat(added(&self.plan, version).len());
        format!("('{id}', '{}'{added})", form(&self.plan, version, value))
    }

    /// A program of `version` writes: a new row, and once there are many, another value into one that there is.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn write(&mut self, version: u32) -> Asked<()> {
        let (id, value) = self.next_row();
        if self.rows.contains_key(&id) {
            let (column, form) = (column(&self.plan, version), form(&self.plan, version, &value));
            self.run(&format!("UPDATE items SET {column} = '{form}' WHERE id = '{id}'")).await?;
            self.rows.insert(id, value);
            return Ok(());
        }
        let (columns, values) = (self.columns(version), self.new_row(version, &id, &value));
        self.run(&format!("INSERT INTO items ({columns}) VALUES {values}")).await?;
        self.rows.insert(id, value);
        Ok(())
    }

    /// A program of `version` reads every row. Where rows are filled only after the roll, `unfilled` ones are read in their
    /// former form.
    ///
    /// # Errors
    /// What the database says, or which row it does not find as it was written.
    pub(crate) async fn read_all(&mut self, version: u32, unfilled: bool) -> Asked<()> {
        let column = column(&self.plan, version);
        // Every column that the program knows is asked for.
        let mut columns = column.clone();
        for n in added(&self.plan, version) {
            let _ = write!(columns, ", b{n}");
        }
        let items = format!("(SELECT id, {columns} FROM items)");
        let found: BTreeMap<_, _> = self.texts(&items, ("id", &column)).await?.into_iter().collect();
        for (id, value) in &self.rows {
            let wanted = form(&self.plan, version, value);
            match found.get(id) {
                Some(Some(found)) if *found == wanted => {}
                Some(None) if unfilled => {}
                Some(other) => {
                    return Err(Wrong(format!(
                        "version {version} reads {other:?} in {column} of {id}, which holds {wanted:?}"
                    )));
                }
                None => return Err(Wrong(format!("row {id} is lost"))),
            }
        }
        Ok(())
    }
}
