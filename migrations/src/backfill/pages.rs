//! PostgreSQL's faster walk: by the table's own pages instead of a key.
//!
//! A range of pages needs no index and no query that finds where a batch ends, and reads each page once. A row that is
//! written during the walk moves to another page: with a sync its new form is filled by the trigger, and without one
//! the migration's verify query finds it and the next walk, which goes by key, fills it. A row may be visited twice, so
//! this walk is for fills whose second visit changes nothing.

use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use crate::unit::Backfill;
use serde::{Deserialize, Serialize};

/// Rows of a page until the database has counted them.
const ROWS_A_PAGE: f64 = 50.0;

/// The pages of a table that can be walked by page.
pub(super) struct Pages {
    table: String,
    rows_a_page: f64,
    /// By the database's own estimate; none before its first look at the table.
    estimate: Option<i64>,
}

/// The walk from page 0 to `end`, now at `next`. A table that is rewritten has other pages, and another file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageCursor {
    pub file: i64,
    pub next: i64,
    pub end: i64,
}

impl PageCursor {
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("page numbers are JSON")
    }

    pub(super) fn parse(text: &str) -> Option<PageCursor> {
        serde_json::from_str(text).ok()
    }
}

impl Pages {
    /// None where this walk does not fit: another engine or an old version of this one, a table of several parts or
    /// another kind, or a fill that a second visit could change.
    pub(super) async fn find(session: &mut Session, step: &Backfill) -> Result<Option<Pages>, Error> {
        if session.dialect() != Dialect::Postgres || !settled_by_one_visit(step) {
            return Ok(None);
        }
        let sql = "SELECT c.relpages::bigint, c.reltuples::bigint FROM pg_class c JOIN pg_am a ON a.oid = c.relam \
                   WHERE c.oid = to_regclass($1) AND c.relkind = 'r' AND a.amname = 'heap' AND NOT c.relhassubclass \
                   AND current_setting('server_version_num')::int >= 140000";
        let table = step.table.to_string();
        let rows = session.read(sql, &[table.as_str().into()]).await.map_err(|f| Error::of(f, sql))?;
        let Some([Value::Int(pages), Value::Int(tuples)]) = rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let counted = (*pages > 0 && *tuples > 0).then_some((*tuples, *tuples as f64 / *pages as f64));
        Ok(Some(Pages {
            table,
            rows_a_page: counted.map_or(ROWS_A_PAGE, |(_, rows)| rows.max(1.0)),
            estimate: counted.map(|(tuples, _)| tuples),
        }))
    }

    /// How many rows there are, about.
    pub(super) async fn total(&self, session: &mut Session) -> Result<i64, Error> {
        if let Some(estimate) = self.estimate {
            return Ok(estimate);
        }
        let count = format!("SELECT count(*) FROM {}", self.table);
        let rows = session.read(&count, &[]).await.map_err(|f| Error::of(f, &count))?;
        Ok(rows.first().and_then(|r| r.first()).and_then(Value::int).unwrap_or_default())
    }

    /// The walk's beginning, over the file that the table has now.
    pub(super) async fn whole(&self, session: &mut Session) -> Result<PageCursor, Error> {
        let sql = "SELECT pg_relation_filenode(to_regclass($1))::bigint, \
                   pg_relation_size(to_regclass($1)) / current_setting('block_size')::bigint";
        let rows = session.read(sql, &[self.table.as_str().into()]).await.map_err(|f| Error::of(f, sql))?;
        match rows.first().map(Vec::as_slice) {
            Some([Value::Int(file), Value::Int(end)]) => Ok(PageCursor { file: *file, next: 0, end: *end }),
            _ => Err(Error::History { found: format!("table {} is gone", self.table) }),
        }
    }

    /// The page before which a batch of `rows` rows ends.
    pub(super) fn batch_end(&self, cursor: &PageCursor, rows: u32) -> i64 {
        let pages = (f64::from(rows) / self.rows_a_page).max(1.0) as i64;
        cursor.next.saturating_add(pages).min(cursor.end)
    }

    /// What a batch cost, as a number of rows: pages are read whatever is still to do on them.
    pub(super) fn rows_of(&self, pages: i64) -> u64 {
        (pages as f64 * self.rows_a_page).ceil() as u64
    }
}

/// The pages before `end` that the walk has not visited.
pub(super) fn span(cursor: &PageCursor, end: i64) -> String {
    format!("ctid >= '({},0)'::tid AND ctid < '({end},0)'::tid", cursor.next)
}

/// Whether a row that was filled is no longer pending, or is filled with the same again: one column is set, and what
/// is pending is that it is null.
fn settled_by_one_visit(step: &Backfill) -> bool {
    let [column] = step.set.keys().collect::<Vec<_>>()[..] else { return false };
    let words: Vec<String> =
        step.pending.normal().split_whitespace().map(|word| word.trim_matches('"').to_lowercase()).collect();
    words == [column.as_str().to_lowercase(), "is".to_owned(), "null".to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Backfill {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn only_a_null_that_is_filled_is_walked_by_page() {
        let fits = step("table = 't'\nkey = 'id'\nwhere = 'V  is NULL'\n[set]\nv = 'w'");
        assert!(settled_by_one_visit(&fits));
        let other = step("table = 't'\nkey = 'id'\nwhere = 'n < 3'\n[set]\nn = 'n + 1'");
        let two = step("table = 't'\nkey = 'id'\nwhere = 'v IS NULL'\n[set]\nv = 'w'\nn = 'n + 1'");
        assert!(!settled_by_one_visit(&other) && !settled_by_one_visit(&two));
    }

    #[test]
    fn a_batch_is_at_least_one_page_and_ends_with_the_table() {
        let pages = Pages { table: "t".into(), rows_a_page: 400.0, estimate: None };
        let cursor = PageCursor { file: 1, next: 7, end: 10 };
        assert_eq!((pages.batch_end(&cursor, 100), pages.batch_end(&cursor, 50_000)), (8, 10));
        assert_eq!(PageCursor::parse(&cursor.to_text()), Some(cursor));
        assert_eq!(PageCursor::parse(r#"{"after":null,"until":null,"ended":false}"#), None);
    }
}
