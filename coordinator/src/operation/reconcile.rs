//! A person states that a store which was restored from a backup, or is blank, is the one to be obeyed.

use super::{OperationError, explaining, wish};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{Done, ReconcileStoreRequest};

/// Reconciles the store with those who contradict it.
pub async fn reconcile(
    room: &Room,
    seat: &Seat,
    asked: ReconcileStoreRequest,
) -> Result<Done, OperationError> {
    let asker = explaining(&asked.who, &asked.why)?;
    let revision =
        wish::grant_on_any_store(room, seat, |fleet, moment| ask::reconcile(fleet, moment, &asker)).await?;
    let what = "the store is reconciled: it is obeyed from here on, and no floor is below what a witness had journalled";
    Ok(Done { what: what.to_owned(), revision: revision.0 })
}
