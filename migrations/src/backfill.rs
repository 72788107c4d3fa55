//! Rows that were there before the new column: walked by page or by key, filled in batches.
//!
//! Each batch is one transaction: term, cursor, rows, cursor again. A process that is killed leaves
//! a cursor that is exactly as far as its rows, and two processes cannot fill the same batch. The
//! walk ends at the last page, or the highest key, that was there when it began: later rows are
//! written by programs that know the column, or filled by the sync, so that inserts cannot make it
//! endless.

mod cursor;
mod durability;
mod key;
mod open_transactions;
mod pace;
mod pages;
mod rate;

use crate::database::{Dialect, Value};
use crate::error::Error;
use crate::history::{self, Entry};
use crate::ladder::Ladder;
use crate::leader::Leader;
use crate::mutant;
use crate::progress::ProgressSender;
use crate::sync::FILL_SETTING;
use crate::unit::Backfill;
use cursor::{Cursor, Key};
use key::{Kept, KeyColumn};
use open_transactions::OpenTransactions;
use pace::Pace;
use pages::{PageCursor, Pages};
use rate::Rate;
use std::time::Duration;
use tokio::time::Instant;

/// The order in which a fill visits rows.
enum RowOrder {
    Pages(Pages),
    Key(KeyColumn),
}

impl RowOrder {
    /// Whether a cursor is of a walk by page that cannot go on: the table has another form since, or the server another
    /// version. Such a fill begins again, because a second visit to a row changes nothing there.
    fn begins_again(&self, cursor: &str) -> bool {
        matches!(self, RowOrder::Key(_)) && PageCursor::parse(cursor).is_some()
    }
}

/// Fills until the walk's end. `entry` is the step's row in the history, begun already; what it
/// holds of an earlier run is gone on from. Answers how many rows this call has walked.
pub(crate) async fn fill(
    leader: &mut Leader,
    step: &Backfill,
    entry: &mut Entry,
    progress: &ProgressSender<'_>,
) -> Result<u64, Error> {
    let order = choose(leader, step, entry).await?;
    durability::relax(&mut leader.session).await?;
    let walked = walk_all(leader, step, &order, entry, progress).await?;
    durability::restore(&mut leader.session).await?;
    Ok(walked)
}

/// A walk that has begun goes on as it began, where it can. One that has to be repeated goes by key: it finds also rows
/// that others moved to pages behind it.
async fn choose(leader: &mut Leader, step: &Backfill, entry: &Entry) -> Result<RowOrder, Error> {
    let key = KeyColumn::find(&mut leader.session, step).await?;
    let first_by_page = match &entry.cursor {
        Some(text) => PageCursor::parse(text).is_some(),
        None => entry.rows_done == 0,
    };
    if first_by_page && let Some(pages) = Pages::find(&mut leader.session, step).await? {
        return Ok(RowOrder::Pages(pages));
    }
    Ok(RowOrder::Key(key))
}

async fn walk_all(
    leader: &mut Leader,
    step: &Backfill,
    order: &RowOrder,
    entry: &mut Entry,
    progress: &ProgressSender<'_>,
) -> Result<u64, Error> {
    let cancel = leader.cancel.clone();
    let mut pace = Pace::new(leader.session.dialect(), step.batch_ms);
    let mut others = OpenTransactions::default();
    let mut rate = Rate::default();
    let mut ladder = Ladder::new(&cancel);
    let mut walked = 0;
    let mut sizing = None;
    loop {
        let began = Instant::now();
        match batch(leader, step, order, entry, pace.rows(), &mut sizing).await {
            Ok(Batch { rows, cost, ended, took }) => {
                ladder = Ladder::new(&cancel);
                walked += rows;
                if ended {
                    return Ok(walked);
                }
                if let Some(shared) = others.after_batch(&mut leader.session).await? {
                    durability::share(&mut leader.session, shared).await?;
                    pace.share(shared);
                }
                pace.observe(cost, took);
                let rest = pace.rest(took);
                rate.observe(rows, began.elapsed() + rest);
                progress.rows(
                    entry.rows_done.unsigned_abs(),
                    entry.rows_total.unsigned_abs(),
                    rate.per_second(),
                );
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    () = cancel.cancelled() => return Err(Error::Cancelled),
                }
            }
            Err(error) => {
                leader.session.rollback().await;
                pace.refused();
                let table = step.table.as_str().to_owned();
                let held = if error.lock_refused() { leader.holders(&[table]).await } else { None };
                let doing = format!("backfill {}", step.table.as_str());
                ladder.rest_for(error, &doing, held, progress).await?;
            }
        }
    }
}

struct Batch {
    rows: u64,
    /// What was read for them, in rows.
    cost: u64,
    ended: bool,
    /// Without the wait for the transaction to begin: what others felt of it.
    took: Duration,
}

/// A batch's part of the walk.
struct Part {
    rows: i64,
    cost: u64,
    ended: bool,
    cursor: String,
}

/// Where the walk begins, and how many rows there are: asked once, before the first transaction.
enum Sizing {
    Pages(PageCursor, i64),
    Key(Option<Key>, i64),
}

impl Sizing {
    async fn of(leader: &mut Leader, order: &RowOrder) -> Result<Sizing, Error> {
        Ok(match order {
            RowOrder::Pages(pages) => {
                let cursor = pages.whole(&mut leader.session).await?;
                Sizing::Pages(cursor, pages.total(&mut leader.session).await?)
            }
            RowOrder::Key(key) => {
                let (until, total) = key.extent(&mut leader.session).await?;
                Sizing::Key(until, total)
            }
        })
    }

    fn total(&self) -> i64 {
        match self {
            Sizing::Pages(_, total) | Sizing::Key(_, total) => *total,
        }
    }

    fn cursor(&self) -> String {
        match self {
            Sizing::Pages(cursor, _) => cursor.to_text(),
            Sizing::Key(until, _) => Cursor { after: None, until: until.clone(), ended: false }.to_text(),
        }
    }
}

/// One batch, from the cursor that the history holds now, never from memory.
async fn batch(
    leader: &mut Leader,
    step: &Backfill,
    order: &RowOrder,
    entry: &mut Entry,
    rows: u32,
    sizing: &mut Option<Sizing>,
) -> Result<Batch, Error> {
    if sizing.is_none() && entry.cursor.as_deref().is_none_or(|cursor| order.begins_again(cursor)) {
        leader.is_wanted()?;
        // Counted before the transaction: it may take as long as the table is big.
        *sizing = Some(Sizing::of(leader, order).await?);
    }
    leader.begin().await?;
    let began = Instant::now();
    let cursor = match key::kept(&mut leader.session, entry).await? {
        Kept::Done => {
            leader.commit("a batch").await?;
            return Ok(Batch { rows: 0, cost: 0, ended: true, took: began.elapsed() });
        }
        Kept::Cursor(cursor, done, total) if !order.begins_again(&cursor) => {
            (entry.rows_done, entry.rows_total) = (done, total);
            cursor
        }
        Kept::Nothing | Kept::Cursor(..) => {
            (entry.rows_done, entry.rows_total) = (0, sizing.as_ref().map_or(0, Sizing::total));
            match sizing {
                Some(sizing) => sizing.cursor(),
                None => Sizing::of(leader, order).await?.cursor(),
            }
        }
    };
    let part = match order {
        RowOrder::Pages(pages) => by_page(leader, step, pages, &cursor, rows).await?,
        RowOrder::Key(key) => by_key(leader, step, key, &cursor, rows).await?,
    };
    entry.rows_done += part.rows;
    entry.cursor = Some(part.cursor);
    let term = leader.term.clone();
    history::save_cursor(&mut leader.session, entry, &term).await?;
    leader.commit("a batch").await?;
    Ok(Batch { rows: part.rows.unsigned_abs(), cost: part.cost, ended: part.ended, took: began.elapsed() })
}

async fn by_key(
    leader: &mut Leader,
    step: &Backfill,
    key: &KeyColumn,
    kept: &str,
    rows: u32,
) -> Result<Part, Error> {
    let mut cursor = Cursor::parse(kept).ok_or_else(|| unreadable(step, kept))?;
    let next = if cursor.ended { None } else { key.next(&mut leader.session, &cursor, rows).await? };
    let rows = match next {
        None => {
            cursor.ended = true;
            0
        }
        Some((last, rows)) => {
            let mut values: Vec<Value> = vec![last.value()];
            let upto = if mutant::is("keyset-cursor-is-off-by-one") { "<" } else { "<=" };
            let mut span = format!("{} {upto} {}", step.key, key.parameter(1));
            if let Some(after) = &cursor.after {
                values.push(after.value());
                span += &format!(" AND {} > {}", step.key, key.parameter(2));
            }
            update(leader, step, &span, &values).await?;
            cursor.after = Some(last);
            rows
        }
    };
    Ok(Part { rows, cost: rows.unsigned_abs(), ended: cursor.ended, cursor: cursor.to_text() })
}

async fn by_page(
    leader: &mut Leader,
    step: &Backfill,
    pages: &Pages,
    kept: &str,
    rows: u32,
) -> Result<Part, Error> {
    let mut cursor = PageCursor::parse(kept).ok_or_else(|| unreadable(step, kept))?;
    let end = pages.batch_end(&cursor, rows);
    let filled = update(leader, step, &pages::span(&cursor, end), &[]).await?;
    // The update holds the table, so that it cannot be rewritten before this transaction ends.
    let now = pages.whole(&mut leader.session).await?;
    let cost = pages.rows_of(end - cursor.next);
    if now.file == cursor.file {
        cursor.next = end;
    } else {
        cursor = now;
    }
    let ended = cursor.next >= cursor.end;
    Ok(Part { rows: i64::try_from(filled).unwrap_or(i64::MAX), cost, ended, cursor: cursor.to_text() })
}

/// Fills what is pending of a span of rows; answers how many that were.
async fn update(leader: &mut Leader, step: &Backfill, span: &str, values: &[Value]) -> Result<u64, Error> {
    if leader.session.dialect() == Dialect::Postgres {
        let sql = format!("SELECT set_config('{FILL_SETTING}', 'on', true)");
        leader.session.read(&sql, &[]).await.map_err(|f| Error::of(f, &sql))?;
    }
    let set: Vec<String> = step.set.iter().map(|(c, e)| format!("{c} = ({})", e.text())).collect();
    let sql =
        format!("UPDATE {} SET {} WHERE {span} AND ({})", step.table, set.join(", "), step.pending.text());
    leader.session.change(&sql, values).await.map_err(|f| Error::of(f, &sql))
}

fn unreadable(step: &Backfill, kept: &str) -> Error {
    Error::History { found: format!("a cursor of backfill {} is `{kept}`", step.table.as_str()) }
}
