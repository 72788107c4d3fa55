//! A person states that an instance is gone.

use super::{OperationError, explaining, maybe_said, mutation, parse};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::InstanceId;
use tidegate_proto::wire::v1::{DecommissionInstanceRequest, Done};

/// Decommissions an instance that no longer reports.
pub async fn decommission_instance(
    context: &Context,
    leadership: &Leadership,
    asked: DecommissionInstanceRequest,
) -> Result<Done, OperationError> {
    let instance: InstanceId = parse(&asked.instance)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let given = |how: String| Some(how).filter(|how| !how.is_empty());
    let how = ask::Gone {
        stopped_how: given(maybe_said("stopped-how", &asked.stopped_how)?),
        revoked_how: given(maybe_said("how", &asked.revoked_how)?),
    };
    let revision = mutation::apply_on_any_store(context, leadership, |fleet, moment| {
        ask::decommission(fleet, moment, &instance, how.clone(), &asker)
    })
    .await?;
    let what = format!("{instance} is decommissioned: it does not count until it is admitted again");
    Ok(Done { what, revision: revision.0 })
}
