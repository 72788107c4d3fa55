//! The rows of the history: begun, gone on, ended.

use super::{Layout, change, layout, read};
use crate::database::{Session, Value};
use crate::error::Error;
use crate::mutant;
use crate::term::Term;
use crate::unit::{Digest, Migration, Phase};

/// How far a step or a phase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Done,
}

/// A live row: the step, or the phase itself as step [`super::PHASE`].
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub migration: String,
    pub phase: Phase,
    pub step: i64,
    pub checksum: String,
    pub state: State,
    pub cursor: Option<String>,
    pub rows_done: i64,
    pub rows_total: i64,
    /// The upgrade or person that began it; none in rows that were written before owners were recorded.
    pub owner: Option<String>,
    /// The term that wrote the row last.
    pub term_id: String,
}

impl Entry {
    /// A row that an owner begins. The term is that of the leader that writes it.
    pub(crate) fn begun(
        owner: &str,
        migration: &Migration,
        phase: Phase,
        step: i64,
        checksum: &Digest,
    ) -> Self {
        Self {
            migration: migration.id.clone(),
            phase,
            step,
            checksum: checksum.to_string(),
            state: State::Running,
            cursor: None,
            rows_done: 0,
            rows_total: 0,
            owner: Some(owner.to_owned()),
            term_id: String::new(),
        }
    }

    /// Whether both are the same step of the same phase of the same migration.
    pub(crate) fn same_place(&self, other: &Entry) -> bool {
        (&self.migration, self.phase, self.step) == (&other.migration, other.phase, other.step)
    }
}

/// All live rows, in the order in which they began.
pub(crate) async fn entries(session: &mut Session) -> Result<Vec<Entry>, Error> {
    // Read-only callers also meet a table to which no leader has added the column yet.
    let owner = if layout(session).await? == Layout::Complete { "owner" } else { "NULL" };
    let sql = format!(
        "SELECT migration, phase, step, checksum, state, cursor, rows_done, rows_total, {owner}, term_id \
         FROM tidegate_history WHERE state <> 'undone' ORDER BY seq"
    );
    read(session, &sql, &[]).await?.iter().map(|row| parse(row)).collect()
}

fn parse(row: &[Value]) -> Result<Entry, Error> {
    let unreadable = || Error::History { found: format!("a row of tidegate_history is {row:?}") };
    let [migration, phase, step, checksum, state, cursor, rows_done, rows_total, owner, term_id] = row else {
        return Err(unreadable());
    };
    let text = |v: &Value| v.text().map(str::to_owned).ok_or_else(unreadable);
    let int = |v: &Value| v.int().ok_or_else(unreadable);
    let phase = text(phase)?;
    Ok(Entry {
        migration: text(migration)?,
        phase: Phase::ALL.into_iter().find(|p| p.as_str() == phase).ok_or_else(unreadable)?,
        step: int(step)?,
        checksum: text(checksum)?,
        state: match state.text() {
            Some("running") => State::Running,
            Some("done") => State::Done,
            _ => return Err(unreadable()),
        },
        cursor: cursor.text().map(str::to_owned),
        rows_done: int(rows_done)?,
        rows_total: int(rows_total)?,
        owner: owner.text().map(str::to_owned),
        term_id: text(term_id)?,
    })
}

/// Records that a step (or a phase) has begun; one that has already begun is left as it is. Whether it began now.
pub(crate) async fn begin_entry(
    session: &mut Session,
    entry: &Entry,
    summary: &str,
    note: Option<&str>,
    term: &Term,
) -> Result<bool, Error> {
    let sql = format!(
        "INSERT INTO tidegate_history \
         (migration, phase, step, summary, checksum, state, term_revision, term_id, note, owner, started) \
         VALUES ($1, $2, $3, $4, $5, 'running', $6, $7, $8, $9, {}) \
         ON CONFLICT (migration, phase, step) WHERE state <> 'undone' DO NOTHING",
        session.dialect().now()
    );
    let values = [
        entry.migration.as_str().into(),
        entry.phase.as_str().into(),
        entry.step.into(),
        summary.into(),
        entry.checksum.as_str().into(),
        term.revision.into(),
        term.id.as_str().into(),
        note.map_or(Value::Null, Value::from),
        entry.owner.as_deref().map_or(Value::Null, Value::from),
    ];
    Ok(change(session, &sql, &values).await? == 1)
}

/// Records that a step (or a phase) is done, under the term that ended it. One that another process
/// of this term has ended meanwhile is left as it is.
pub(crate) async fn finish_entry(session: &mut Session, entry: &Entry, term: &Term) -> Result<(), Error> {
    let sql = format!(
        "UPDATE tidegate_history SET state = 'done', ended = {}, term_revision = $4, term_id = $5 \
         WHERE migration = $1 AND phase = $2 AND step = $3 AND state = 'running'",
        session.dialect().now()
    );
    let values = [
        entry.migration.as_str().into(),
        entry.phase.as_str().into(),
        entry.step.into(),
        term.revision.into(),
        term.id.as_str().into(),
    ];
    let changed = change(session, &sql, &values).await?;
    let ended = |e: &Entry| e.same_place(entry) && e.state == State::Done;
    if changed == 1 || entries(session).await?.iter().any(ended) {
        Ok(())
    } else {
        Err(Error::History {
            found: format!("{changed} running rows of {} {}", entry.migration, entry.phase),
        })
    }
}

/// Keeps where a fill is, in the transaction of its batch.
pub(crate) async fn save_cursor(session: &mut Session, entry: &Entry, term: &Term) -> Result<(), Error> {
    let sql = "UPDATE tidegate_history SET cursor = $4, rows_done = $5, rows_total = $6, term_revision = $7, \
               term_id = $8 WHERE migration = $1 AND phase = $2 AND step = $3 AND state = 'running'";
    let values = [
        entry.migration.as_str().into(),
        entry.phase.as_str().into(),
        entry.step.into(),
        entry.cursor.as_deref().map_or(Value::Null, Value::from),
        entry.rows_done.into(),
        entry.rows_total.into(),
        term.revision.into(),
        term.id.as_str().into(),
    ];
    match change(session, sql, &values).await? {
        1 => Ok(()),
        rows => Err(Error::History {
            found: format!("{rows} running rows of {} {}", entry.migration, entry.phase),
        }),
    }
}

/// Lays a migration's rows aside: what they record was undone. These phases' steps stay: what they made is there.
pub(crate) async fn undo_entries(
    session: &mut Session,
    migration: &str,
    stay: &[(Phase, i64)],
) -> Result<(), Error> {
    let sql = "UPDATE tidegate_history SET state = 'undone' \
               WHERE migration = $1 AND phase = $2 AND step = $3 AND state <> 'undone'";
    let live = entries(session).await?.into_iter().filter(|e| e.migration == migration);
    let live = live.filter(|e| e.phase == Phase::Undo || !mutant::is("undone-steps-stay-recorded"));
    for entry in live.filter(|e| !stay.contains(&(e.phase, e.step))) {
        change(session, sql, &[migration.into(), entry.phase.as_str().into(), entry.step.into()]).await?;
    }
    Ok(())
}

/// Opens a fill again from its beginning, or its phase: rows are still to do although it is done.
pub(crate) async fn reopen_entry(session: &mut Session, entry: &Entry) -> Result<(), Error> {
    let sql = "UPDATE tidegate_history SET state = 'running', cursor = NULL, ended = NULL \
               WHERE migration = $1 AND phase = $2 AND step = $3 AND state = 'done'";
    let values = [entry.migration.as_str().into(), entry.phase.as_str().into(), entry.step.into()];
    change(session, sql, &values).await?;
    Ok(())
}
