//! What differs between the engines of databases. Each call is over before any simulated time goes by.

use std::collections::BTreeSet;
use std::io;

/// One database under one URL, as programs and people reach it.
pub(super) trait Engine {
    /// Runs statements.
    ///
    /// # Errors
    /// What the database says.
    fn run(&mut self, sql: &str) -> Result<(), String>;

    /// Asks for one text.
    ///
    /// # Errors
    /// What the database says.
    fn text(&mut self, sql: &str) -> Result<String, String>;

    /// A query for several tables, each with the expressions of a name and a text, that answers one text: a JSON array of
    /// a table each, of an array of pairs. One value: it takes one round trip, or one hand-over between two threads.
    fn query(&self, tables: &[Table<'_>]) -> String;

    /// All objects but those of the engine's own history, each with `name` and `definition`.
    fn objects(&self) -> &'static str;

    /// The columns of the table `items`, each with `name` and `type`, `TEXT` or another.
    fn columns(&self) -> &'static str;

    /// These programs have a session each, by its name, and no others do.
    fn set_programs(&mut self, names: &BTreeSet<String>);

    /// Ends sessions that have been idle in a transaction for too long, as their server does by the clock that is not
    /// simulated; `now` is in simulated milliseconds.
    fn end_idle(&mut self, now: u64);

    /// The name of the judge's own session, where the engine lists sessions.
    fn judge(&self) -> Option<&'static str>;

    /// Whether it cannot be reached.
    fn is_away(&self) -> bool;

    /// Puts it where no process reaches it, or back.
    ///
    /// # Errors
    /// What the system or the server says.
    fn set_away(&mut self, away: bool) -> io::Result<()>;

    /// Keeps a copy of it as it is.
    ///
    /// # Errors
    /// What the system or the server says.
    fn keep_copy(&mut self) -> io::Result<()>;

    /// Puts the copy in its place; keeps what was there as the newest one, or not.
    ///
    /// # Errors
    /// What the system or the server says.
    fn put_copy(&mut self, keeps: bool) -> io::Result<()>;

    /// Keeps the newest one under a number.
    ///
    /// # Errors
    /// What the system or the server says.
    fn set_newest_aside(&mut self, number: usize) -> io::Result<()>;

    /// Puts the newest one back, and keeps what was there under a number.
    ///
    /// # Errors
    /// What the system or the server says.
    fn put_newest(&mut self, number: usize) -> io::Result<()>;

    /// Puts the one back that is kept under a number, and keeps what was there under another one.
    ///
    /// # Errors
    /// What the system or the server says.
    fn put_replaced(&mut self, number: usize, aside: usize) -> io::Result<()>;
}

/// A table or a subquery, with the expressions of a name and a text.
pub(super) type Table<'a> = (&'a str, (&'a str, &'a str));

/// What each of both says where another session has a lock: a program waits and tries again.
const BUSY: [&str; 3] = ["database is locked", "table is locked", "canceling statement due to lock timeout"];

/// Whether another session had a lock.
pub(super) fn is_busy(why: &str) -> bool {
    BUSY.iter().any(|busy| why.contains(busy))
}

#[cfg(test)]
mod tests {
    use super::is_busy;

    #[test]
    fn only_a_lock_of_another_session_is_busy() {
        assert!(is_busy(
            "UPDATE items: error returned from database: canceling statement due to lock timeout"
        ));
        assert!(is_busy("error returned from database: (code: 5) database is locked"));
        assert!(!is_busy("error returned from database: canceling statement due to statement timeout"));
    }
}
