//! What is done to a database beside every program, so that the judge is judged.

use super::form::column;
use super::{Asked, Database, TermOrigin};

impl Database {
    /// The engine's history gets a row of a term that is lower than the one that is obeyed.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn deposed_writes(&mut self) -> Asked<()> {
        // The judge has seen what was there.
        let _ = self.written_wrongly(|_| TermOrigin::Given).await;
        self.run("UPDATE tidegate_history SET term_revision = 1, state = 'done', cursor = '1' WHERE seq = (SELECT max(seq) FROM tidegate_history)").await
    }

    /// The judge has seen that it obeyed a term of another store.
    pub(crate) fn obeyed_another_store(&mut self) {
        self.history.claimed("of-another-store", |_| TermOrigin::Given);
    }

    /// A row is gone.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn lose_row(&mut self) -> Asked<()> {
        self.run("DELETE FROM items WHERE id = (SELECT min(id) FROM items)").await
    }

    /// A row holds another value than was written.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn fill_wrongly(&mut self) -> Asked<()> {
        let column = column(&self.plan, 2);
        self.run(&format!("UPDATE items SET {column} = 'wrong+' WHERE id = (SELECT min(id) FROM items)"))
            .await
    }

    /// The column is gone in which a version finds its values.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn lose_column(&mut self, version: u32) -> Asked<()> {
        let column = column(&self.plan, version);
        self.run(&format!("ALTER TABLE items RENAME COLUMN {column} TO lost")).await
    }

    /// There is an unknown table.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn leave_table(&mut self) -> Asked<()> {
        self.run("CREATE TABLE items_left (id TEXT)").await
    }
}
