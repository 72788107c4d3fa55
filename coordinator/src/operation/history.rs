//! Everything that happened to an upgrade, or was said of the fleet, in order.

use super::{OperationError, parse, store_error};
use crate::context::Context;
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::wire::v1::{Event, FleetHistoryRequest, UpgradeHistoryRequest};
use tidegate_proto::{UpgradeId, Value};
use tidegate_store::{Entry, Scope};

/// Lists the events of an upgrade, those that cannot be read among them.
pub async fn upgrade_history(
    context: &Context,
    asked: &UpgradeHistoryRequest,
) -> Result<Vec<Event>, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    super::find(&context.mirror.view().fleet, &id)?;
    of(context, Subject::Upgrade(id), "list the events of the upgrade").await
}

/// Lists what persons said of the fleet: decommissions, maintenance, tokens, evidence, a store that was reconciled.
pub async fn fleet_history(context: &Context, _: &FleetHistoryRequest) -> Result<Vec<Event>, OperationError> {
    of(context, Subject::Fleet, "list the events of the fleet").await
}

async fn of(
    context: &Context,
    subject: Subject,
    attempt: &'static str,
) -> Result<Vec<Event>, OperationError> {
    let scope = Scope::Within(Kind::Event, subject.to_string());
    let found = context.store.list(&scope).await.map_err(store_error(attempt))?;
    Ok(found.entries.into_iter().map(read).collect())
}

/// An event as it is shown, or why it cannot be read.
pub(super) fn read(entry: Entry) -> Event {
    match entry.value {
        Ok(Value::Event(record)) => record.body.into(),
        Ok(_) => unreadable(&entry.key, "is no event"),
        Err(why) => unreadable(&entry.key, &why.to_string()),
    }
}

fn unreadable(key: &tidegate_proto::Key, why: &str) -> Event {
    Event { because: format!("the record {key} {why}"), ..Event::default() }
}
