//! A person sets the window of a service.

use super::{OperationError, explaining, mutation, parse};
use crate::context::Context;
use crate::leadership::Leadership;
use std::time::Duration;
use tidegate_planner::Sample;
use tidegate_planner::ask::{self, WindowRequest};
use tidegate_proto::wire::v1::{Done, SetWindowRequest};
use tidegate_proto::{Revision, ServiceName, ServiceVersion};
use tokio::time::timeout;

/// How long agents are given to acknowledge a window before the answer names those that did not.
const ACKNOWLEDGE: Duration = Duration::from_secs(5);

/// Sets it; the answer says which agents have acknowledged it.
pub async fn set_window(
    context: &Context,
    leadership: &Leadership,
    asked: SetWindowRequest,
) -> Result<Done, OperationError> {
    let asker = explaining(&asked.who, &asked.why)?;
    let request = read(&asked)?;
    let revision = mutation::apply(context, leadership, |fleet, moment| {
        ask::set_window(fleet, moment, &request, &asker)
    })
    .await?;
    let WindowRequest { service, floor, ceiling } = &request;
    let missing = unacknowledged(context, service, revision).await;
    let acknowledged = match missing.is_empty() {
        true => "every instance has acknowledged it".to_owned(),
        false => format!(
            "not yet acknowledged by {missing}; nothing that relies on the floor goes on before they have"
        ),
    };
    let what = format!("the window of {service} is [{floor}, {ceiling}]; {acknowledged}");
    Ok(Done { what, revision: revision.0 })
}

/// Says whether it would be set; nothing is changed.
pub async fn preview_window(
    context: &Context,
    leadership: &Leadership,
    asked: SetWindowRequest,
) -> Result<Done, OperationError> {
    let why = if asked.why.trim().is_empty() { "dry run" } else { &asked.why };
    let asker = explaining(&asked.who, why)?;
    let request = read(&asked)?;
    mutation::validate(context, leadership, |fleet, moment| ask::set_window(fleet, moment, &request, &asker))
        .await?;
    let WindowRequest { service, floor, ceiling } = &request;
    let view = context.mirror.view();
    let now = view.fleet.service(service).and_then(|service| service.window());
    let now =
        now.map_or_else(|| "any version is admitted".to_owned(), |now| format!("it is {}", now.record.body));
    Ok(Done {
        what: format!(
            "the window of {service} would be [{floor}, {ceiling}]; now {now}. Nothing was changed"
        ),
        revision: view.fleet.revision().0,
    })
}

/// The instances that have not acknowledged the window of this revision, once they had time to.
async fn unacknowledged(context: &Context, service: &ServiceName, set: Revision) -> Sample {
    let missing = || {
        let view = context.mirror.view();
        let of = view.fleet.service(service).filter(|of| of.window_at() == set);
        of.map(|of| of.unacknowledged().sample()).unwrap_or_default()
    };
    let mut sync_status = context.mirror.sync_status();
    let all = async { while !missing().is_empty() && sync_status.changed().await.is_ok() {} };
    // Silent instances acknowledge nothing: they are named.
    let _ = timeout(ACKNOWLEDGE, all).await;
    missing()
}

fn read(asked: &SetWindowRequest) -> Result<WindowRequest, OperationError> {
    let version = |what: &str, number: u32| {
        ServiceVersion::new(i64::from(number))
            .map_err(|e| OperationError::BadInput(format!("{what} {number}: {e}")))
    };
    let service = parse(&asked.service)?;
    Ok(WindowRequest {
        service,
        floor: version("floor", asked.floor)?,
        ceiling: version("ceiling", asked.ceiling)?,
    })
}
