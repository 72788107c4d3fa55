//! The schema's id and the term that is obeyed: one row, read and raised under the lock.

use super::{change, read};
use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use crate::term::Term;

/// The only form of the tables that this code knows.
const FORMAT: i64 = 1;

/// What the row says.
pub(crate) struct Stored {
    pub schema_id: String,
    pub term: Term,
}

const READ: &str = "SELECT format, schema_id, term_revision, term_id FROM tidegate_schema WHERE only_row = 1";

/// The row, only looked at.
pub(crate) async fn stored(session: &mut Session) -> Result<Stored, Error> {
    parse(read(session, READ, &[]).await?)
}

/// The row, held as it is until the transaction ends: no one can raise the term meanwhile.
pub(crate) async fn stored_locked(session: &mut Session) -> Result<Stored, Error> {
    match session.dialect() {
        Dialect::Postgres => parse(read(session, &format!("{READ} FOR UPDATE"), &[]).await?),
        // The transaction has held the file's one write lock since it began.
        Dialect::Sqlite => stored(session).await,
    }
}

/// Raises the term. Inside a transaction that has the row by [`stored_locked`].
pub(crate) async fn raise(session: &mut Session, term: &Term) -> Result<(), Error> {
    let sql =
        "UPDATE tidegate_schema SET term_revision = $1, term_id = $2, last_leader = $3 WHERE only_row = 1";
    let values = [term.revision.into(), term.id.as_str().into(), term.session_name().as_str().into()];
    change(session, sql, &values).await?;
    Ok(())
}

fn parse(rows: Vec<Vec<Value>>) -> Result<Stored, Error> {
    match rows.first().map(Vec::as_slice) {
        Some([Value::Int(FORMAT), Value::Text(schema_id), Value::Int(revision), Value::Text(id)]) => {
            let term = Term { revision: *revision, id: id.clone() };
            Ok(Stored { schema_id: schema_id.clone(), term })
        }
        Some([Value::Int(format), ..]) if *format != FORMAT => Err(Error::History {
            found: format!("its form is {format}, and this program knows {FORMAT}; use the newer program"),
        }),
        other => Err(Error::History { found: format!("the row of tidegate_schema is {other:?}") }),
    }
}
