//! A person starts an upgrade.

use super::{OperationError, mutation, preview, remarking, spec};
use crate::act::schema;
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask::{self, StartRequest};
use tidegate_proto::UpgradeId;
use tidegate_proto::wire::v1::{PreviewUpgradeReply, StartUpgradeReply, StartUpgradeRequest};

/// Starts an upgrade. The call returns as soon as the record is there; the next turn sees it.
pub async fn start_upgrade(
    context: &Context,
    leadership: &Leadership,
    asked: StartUpgradeRequest,
) -> Result<StartUpgradeReply, OperationError> {
    let spec = spec::parse(&asked.spec)?;
    let asker = remarking(&asked.who, "why", "")?;
    let id = spec::name(&asked.id, &spec)?;
    let looked = preview::look(context, Some(leadership), &id, &spec).await;
    // No reconciliation hears a database that is refused under the ID of another upgrade.
    let looked = looked.map_err(|refused| taken(context, &id).unwrap_or(refused))?;
    let preview::Looked { schema, obstacles, reply } = looked;
    let PreviewUpgradeReply { mut findings, waves } = reply;
    if asked.dry_run {
        return Ok(StartUpgradeReply { findings, waves, ..StartUpgradeReply::default() });
    }
    let request = StartRequest { id: id.clone(), spec, schema, asker };
    // The database is claimed only for an upgrade that passes every other check.
    mutation::validate(context, leadership, |fleet, moment| ask::start(fleet, moment, request.clone()))
        .await?;
    if !obstacles.is_empty() {
        let found = obstacles.join("; ");
        return Err(OperationError::Refused(format!("preflight found what would stop the upgrade: {found}")));
    }
    let request = match &request.schema {
        Some(_) => {
            let bound = schema::bind(context, leadership, &id, &request.spec).await;
            // The claim ends with the leadership, and another leader makes its own.
            if bound.is_err() && leadership.lost.is_cancelled() {
                return Err(mutation::deposed());
            }
            let (schema, away) = preview::unless_away(bound)?;
            findings.extend(away);
            StartRequest { schema, ..request }
        }
        None => request,
    };
    // The database of a former start with this ID or of this service, which was refused, is not that of this upgrade.
    schema::unhear(context, leadership, &id, &request.spec.service);
    let revision =
        mutation::apply(context, leadership, |fleet, moment| ask::start(fleet, moment, request.clone()))
            .await?;
    Ok(StartUpgradeReply { id: id.to_string(), revision: revision.0, findings, waves })
}

/// That an upgrade has this ID already.
fn taken(context: &Context, id: &UpgradeId) -> Option<OperationError> {
    ask::unused(&context.mirror.view().fleet, id).err().map(mutation::refused)
}
