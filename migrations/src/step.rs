//! The effect of each kind of step that is no fill. Says nothing about order, history or locks:
//! who calls has opened the transaction, or holds the lock where there can be none.

mod column;
mod index;
mod not_null;

use crate::database::{Dialect, Session};
use crate::error::Error;
use crate::leader::Leader;
use crate::sync;
use crate::unit::Step;

/// How a step meets the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// In one transaction with its history row, and with its neighbours on the same table.
    Together,
    /// By itself, several transactions or none: an intent row first, then the effect is seen.
    Alone,
}

/// Which manner a step needs.
pub(crate) fn manner(step: &Step, dialect: Dialect) -> Manner {
    match (step, dialect) {
        (Step::Backfill(_), _) | (Step::Index(_) | Step::NotNull(_), Dialect::Postgres) => Manner::Alone,
        _ => Manner::Together,
    }
}

/// Does a step of the first manner.
pub(crate) async fn together(session: &mut Session, step: &Step) -> Result<(), Error> {
    match step {
        Step::Sql(statements) => {
            for statement in statements {
                session.run(statement.text()).await.map_err(|f| Error::of(f, statement.text()))?;
            }
            Ok(())
        }
        Step::AddColumn(c) => column::add(session, c).await,
        Step::DropColumn(c) => column::drop(session, c).await,
        Step::Sync(s) => sync::create(session, s).await,
        Step::DropSync(s) => sync::drop(session, s).await,
        Step::Index(i) => index::plain(session, i).await,
        Step::NotNull(n) => not_null::by_triggers(session, n).await,
        Step::Backfill(_) => Err(wrong_manner(step)),
    }
}

/// Does a step of the second manner, again from its beginning if it was cut off.
pub(crate) async fn alone(leader: &mut Leader, step: &Step) -> Result<(), Error> {
    match step {
        Step::Index(i) => index::concurrently(leader, i).await,
        Step::NotNull(n) => not_null::by_constraint(leader, n).await,
        _ => Err(wrong_manner(step)),
    }
}

fn wrong_manner(step: &Step) -> Error {
    Error::Unsupported {
        step: step.summary(),
        found: "a step in the wrong manner".into(),
        needs: "a call by its manner".into(),
    }
}
