//! Rows that were there before the new column: walked by key, filled in batches.
//!
//! Each batch is one transaction: term, cursor, rows, cursor again. A process that is killed leaves
//! a cursor that is exactly as far as its rows, and two processes cannot fill the same batch. The
//! walk ends at the highest key that was there when it began: later rows are written by programs
//! that know the column, or filled by the sync, so that inserts cannot make it endless.

mod cursor;
mod durability;
mod key;
mod pace;
mod rate;

use crate::database::{Dialect, Value};
use crate::error::Error;
use crate::history::{self, Entry};
use crate::ladder::Ladder;
use crate::leader::Leader;
use crate::progress::Teller;
use crate::sync::FILL_SETTING;
use crate::unit::Backfill;
use cursor::{Cursor, Key};
use key::{Kept, KeyColumn};
use pace::Pace;
use rate::Rate;
use std::time::Duration;
use tokio::time::Instant;

/// Fills until the walk's end. `entry` is the step's row in the history, begun already; what it
/// holds of an earlier run is gone on from. Answers how many rows this call has walked.
pub(crate) async fn fill(
    leader: &mut Leader,
    step: &Backfill,
    entry: &mut Entry,
    teller: &Teller<'_>,
) -> Result<u64, Error> {
    let key = KeyColumn::find(&mut leader.session, step).await?;
    durability::relax(&mut leader.session).await?;
    let walked = walk(leader, step, &key, entry, teller).await?;
    durability::restore(&mut leader.session).await?;
    Ok(walked)
}

async fn walk(
    leader: &mut Leader,
    step: &Backfill,
    key: &KeyColumn,
    entry: &mut Entry,
    teller: &Teller<'_>,
) -> Result<u64, Error> {
    let cancel = leader.cancel.clone();
    let mut pace = Pace::new(leader.session.dialect(), step.batch_ms);
    let mut rate = Rate::default();
    let mut ladder = Ladder::new(&cancel);
    let mut walked = 0;
    let mut sizing = None;
    loop {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let began = Instant::now();
        match batch(leader, step, key, entry, pace.rows(), &mut sizing).await {
            Ok(Batch { rows, ended, took }) => {
                ladder = Ladder::new(&cancel);
                walked += rows;
                if ended {
                    return Ok(walked);
                }
                pace.observe(rows, took);
                let rest = pace.rest(took);
                rate.observe(rows, began.elapsed() + rest);
                teller.rows(
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
                ladder.rest(error, &format!("backfill {}", step.table.as_str()), teller).await?;
            }
        }
    }
}

struct Batch {
    rows: u64,
    ended: bool,
    /// Without the wait for the transaction to begin: what others felt of it.
    took: Duration,
}

/// One batch, from the cursor that the history holds now; nobody's memory is trusted.
async fn batch(
    leader: &mut Leader,
    step: &Backfill,
    key: &KeyColumn,
    entry: &mut Entry,
    rows: u32,
    sizing: &mut Option<(Option<Key>, i64)>,
) -> Result<Batch, Error> {
    if sizing.is_none() && entry.cursor.is_none() {
        // Counted before the transaction: it may take as long as the table is big.
        *sizing = Some(key.extent(&mut leader.session).await?);
    }
    leader.begin().await?;
    let began = Instant::now();
    let mut cursor = match key::kept(&mut leader.session, entry).await? {
        Kept::Done => {
            leader.commit("a batch").await?;
            return Ok(Batch { rows: 0, ended: true, took: began.elapsed() });
        }
        Kept::Cursor(cursor, done, total) => {
            (entry.rows_done, entry.rows_total) = (done, total);
            cursor
        }
        Kept::Nothing => {
            let (until, total) = sizing.clone().unwrap_or((None, 0));
            (entry.rows_done, entry.rows_total) = (0, total);
            Cursor { after: None, until, ended: false }
        }
    };
    let next = if cursor.ended { None } else { key.next(&mut leader.session, &cursor, rows).await? };
    let walked = match next {
        None => {
            cursor.ended = true;
            0
        }
        Some((last, walked)) => {
            update(leader, step, key, &cursor, &last).await?;
            cursor.after = Some(last);
            walked
        }
    };
    entry.rows_done += walked;
    entry.cursor = Some(cursor.to_text());
    let term = leader.term.clone();
    history::save_cursor(&mut leader.session, entry, &term).await?;
    leader.commit("a batch").await?;
    Ok(Batch { rows: walked.unsigned_abs(), ended: cursor.ended, took: began.elapsed() })
}

async fn update(
    leader: &mut Leader,
    step: &Backfill,
    key: &KeyColumn,
    cursor: &Cursor,
    last: &Key,
) -> Result<(), Error> {
    if leader.session.dialect() == Dialect::Postgres {
        let sql = format!("SELECT set_config('{FILL_SETTING}', 'on', true)");
        leader.session.read(&sql, &[]).await.map_err(|f| Error::of(f, &sql))?;
    }
    let set: Vec<String> = step.set.iter().map(|(c, e)| format!("{c} = ({})", e.text())).collect();
    let mut values: Vec<Value> = vec![last.value()];
    let mut span = format!("{} <= {}", step.key, key.parameter(1));
    if let Some(after) = &cursor.after {
        values.push(after.value());
        span += &format!(" AND {} > {}", step.key, key.parameter(2));
    }
    let sql =
        format!("UPDATE {} SET {} WHERE {span} AND ({})", step.table, set.join(", "), step.pending.text());
    leader.session.change(&sql, &values).await.map_err(|f| Error::of(f, &sql))?;
    Ok(())
}
