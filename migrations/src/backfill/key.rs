//! The key column: what it is, where the next batch ends, how far the table reaches.

use super::cursor::{Cursor, Key};
use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use crate::history::Entry;
use crate::unit::Backfill;

/// A column that orders the rows, each with its own value.
pub(super) struct KeyColumn {
    table: String,
    column: String,
    /// PostgreSQL's name of its type.
    cast: Option<String>,
}

impl KeyColumn {
    /// Looks the column up.
    ///
    /// # Errors
    /// Unsupported, where it is missing, may be null, or has no unique index of its own: rows would
    /// be left out, or a batch would be as big as the table.
    pub(super) async fn find(session: &mut Session, step: &Backfill) -> Result<KeyColumn, Error> {
        let sql = match session.dialect() {
            Dialect::Postgres => {
                "SELECT format_type(a.atttypid, a.atttypmod), a.attnotnull AND EXISTS (SELECT 1 FROM pg_index i \
                 WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL \
                 AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) \
                 FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attname = $2 AND NOT a.attisdropped"
            }
            Dialect::Sqlite => {
                "SELECT c.type, c.pk = 1 AND (SELECT count(*) FROM pragma_table_info($1) WHERE pk > 0) = 1 \
                 OR c.\"notnull\" AND EXISTS (SELECT 1 FROM pragma_index_list($1) l WHERE l.\"unique\" AND NOT l.partial \
                 AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1 \
                 AND (SELECT name FROM pragma_index_info(l.name)) = $2) \
                 FROM pragma_table_info($1) c WHERE c.name = $2"
            }
        };
        let name = match session.dialect() {
            Dialect::Postgres => step.table.to_string(),
            Dialect::Sqlite => step.table.as_str().to_owned(),
        };
        let values = [Value::from(name.as_str()), step.key.as_str().into()];
        let rows = session.read(sql, &values).await.map_err(|f| Error::of(f, sql))?;
        let unsupported = |found: &str| Error::Unsupported {
            step: format!("backfill {}", step.table.as_str()),
            found: format!("key {} {found}", step.key.as_str()),
            needs: "a column without nulls that is the primary key or has a unique index of its own".into(),
        };
        if session.dialect() == Dialect::Sqlite {
            // A primary key that is no INTEGER may be null there, and a walk by key passes such rows by.
            let (table, column) = (&step.table, &step.key);
            let nulls = format!("SELECT count(*) FROM {table} WHERE {column} IS NULL");
            match session
                .read(&nulls, &[])
                .await
                .map(|found| found.first().and_then(|row| row.first()?.int()))
            {
                Ok(Some(1..)) => return Err(unsupported("is null in some rows")),
                Ok(_) => {}
                // No such column: said below. Anything else is the database's own trouble.
                Err(failure) if rows.is_empty() => tracing::debug!(%failure, "the key is no column"),
                Err(failure) => return Err(Error::of(failure, &nulls)),
            }
        }
        match rows.first().map(Vec::as_slice) {
            Some([Value::Text(kind), Value::Int(1)]) => Ok(KeyColumn {
                table: step.table.to_string(),
                column: step.key.to_string(),
                cast: (session.dialect() == Dialect::Postgres).then(|| kind.clone()),
            }),
            Some(_) => Err(unsupported("is not unique by itself, or may be null")),
            None => Err(unsupported("is no column of it")),
        }
    }

    /// `$n` as a value of the key's type.
    pub(super) fn parameter(&self, n: usize) -> String {
        match &self.cast {
            Some(kind) => format!("CAST(${n} AS {kind})"),
            None => format!("${n}"),
        }
    }

    fn out(&self, name: &str) -> String {
        match &self.cast {
            Some(_) => format!("CAST({name} AS text)"),
            None => name.to_owned(),
        }
    }

    /// The highest key, and how many rows there are.
    pub(super) async fn extent(&self, session: &mut Session) -> Result<(Option<Key>, i64), Error> {
        let KeyColumn { table, column, .. } = self;
        // Qualified: the bare name would mean the output, which is text, and 999 is above 3000 as text.
        let highest =
            format!("SELECT {} FROM {table} ORDER BY {table}.{column} DESC LIMIT 1", self.out(column));
        let rows = session.read(&highest, &[]).await.map_err(|f| Error::of(f, &highest))?;
        let until = rows.first().and_then(|r| r.first()).and_then(Key::of);
        let count = format!("SELECT count(*) FROM {table}");
        let rows = session.read(&count, &[]).await.map_err(|f| Error::of(f, &count))?;
        Ok((until, rows.first().and_then(|r| r.first()).and_then(Value::int).unwrap_or_default()))
    }

    /// The last key of the next batch of at most `rows`, and how many rows it has; none at the end.
    pub(super) async fn next(
        &self,
        session: &mut Session,
        cursor: &Cursor,
        rows: u32,
    ) -> Result<Option<(Key, i64)>, Error> {
        let Some(until) = &cursor.until else { return Ok(None) };
        let KeyColumn { table, column, .. } = self;
        let mut values = vec![until.value()];
        let mut span = format!("{column} <= {}", self.parameter(1));
        if let Some(after) = &cursor.after {
            values.push(after.value());
            span += &format!(" AND {column} > {}", self.parameter(2));
        }
        let sql = format!(
            "SELECT {out}, n FROM (SELECT k, count(*) OVER () AS n FROM \
             (SELECT {column} AS k FROM {table} WHERE {span} ORDER BY {column} LIMIT {rows}) s) w \
             ORDER BY w.k DESC LIMIT 1",
            out = self.out("w.k")
        );
        let found = session.read(&sql, &values).await.map_err(|f| Error::of(f, &sql))?;
        Ok(found.first().and_then(|row| Some((Key::of(&row[0])?, row.get(1)?.int()?))))
    }
}

/// What the history says of the fill now.
pub(super) enum Kept {
    /// No batch has run.
    Nothing,
    /// Batches have run: the cursor, rows done, rows in all.
    Cursor(String, i64, i64),
    /// Another process of this term has ended it.
    Done,
}

/// Reads it, inside the batch's transaction.
pub(super) async fn kept(session: &mut Session, entry: &Entry) -> Result<Kept, Error> {
    let sql = "SELECT state, cursor, rows_done, rows_total FROM tidegate_history \
               WHERE migration = $1 AND phase = $2 AND step = $3 AND state <> 'undone'";
    let values = [entry.migration.as_str().into(), entry.phase.as_str().into(), entry.step.into()];
    let rows = session.read(sql, &values).await.map_err(|f| Error::of(f, sql))?;
    match rows.first().map(Vec::as_slice) {
        Some([Value::Text(state), ..]) if state == "done" => Ok(Kept::Done),
        Some([_, Value::Null, ..]) => Ok(Kept::Nothing),
        Some([_, Value::Text(text), Value::Int(done), Value::Int(total)]) => {
            Ok(Kept::Cursor(text.clone(), *done, *total))
        }
        _ => Err(Error::History { found: format!("no fill of {} has begun", entry.migration) }),
    }
}
