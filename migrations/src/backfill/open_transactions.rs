//! Whether others write to the database beside a fill. They wait for its rows and for its commits, so its batches are
//! shorter then.
//!
//! Each transaction that writes takes the next number of the cluster, so the numbers given since the last look, less the
//! fill's own, are the others': exact, at once, and without a privilege. SQLite has one writer, whose batches are short
//! always.

use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use std::time::Duration;
use tokio::time::Instant;

/// How often is looked.
const EVERY: Duration = Duration::from_millis(250);
/// So many transactions of others between two looks show that others write.
const SOME: i64 = 2;
/// How long others are expected to come again.
const LINGERS: Duration = Duration::from_secs(2);

/// The others who write.
#[derive(Default)]
pub(super) struct OpenTransactions {
    looked: Option<(Instant, i64)>,
    /// The fill's own transactions since that look.
    own: i64,
    seen: Option<Instant>,
    /// What was answered last.
    shared: bool,
}

impl OpenTransactions {
    /// Counts a batch of the fill; looks around where it is time to. Whether others write now, where that has changed.
    pub(super) async fn after_batch(&mut self, session: &mut Session) -> Result<Option<bool>, Error> {
        self.own += 1;
        let now = Instant::now();
        let due = self.looked.is_none_or(|(at, _)| now.duration_since(at) >= EVERY);
        if session.dialect() == Dialect::Postgres && due {
            let next = next_transaction(session).await?;
            self.take_in(now, next);
        }
        let shared = self.seen.is_some_and(|seen| now.duration_since(seen) < LINGERS);
        let changed = shared != std::mem::replace(&mut self.shared, shared);
        Ok(changed.then_some(shared))
    }

    fn take_in(&mut self, now: Instant, next: i64) {
        if let Some((_, before)) = self.looked
            && next - before - self.own >= SOME
        {
            self.seen = Some(now);
        }
        (self.looked, self.own) = (Some((now, next)), 0);
    }
}

async fn next_transaction(session: &mut Session) -> Result<i64, Error> {
    let sql = "SELECT txid_snapshot_xmax(txid_current_snapshot())";
    let rows = session.read(sql, &[]).await.map_err(|f| Error::of(f, sql))?;
    Ok(rows.first().and_then(|r| r.first()).and_then(Value::int).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_transactions_do_not_count_and_others_do_for_a_while() {
        let (mut others, now) = (OpenTransactions::default(), Instant::now());
        others.take_in(now, 1_000);
        others.own = 7;
        others.take_in(now, 1_008);
        assert!(others.seen.is_none(), "one may be a maintenance job");
        others.own = 7;
        others.take_in(now, 1_017);
        assert_eq!((others.seen, others.own), (Some(now), 0));
    }
}
