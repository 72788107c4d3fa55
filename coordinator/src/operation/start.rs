//! A person starts an upgrade, or asks what starting it would do.

use super::{OperationError, answer, remarking, spec, wish};
use crate::act::schema::{self, Unbound};
use crate::room::Room;
use crate::seat::{Seat, now};
use tidegate_planner::ask::{self, StartRequest};
use tidegate_planner::{Fleet, ServiceFleet, preflight, wave};
use tidegate_proto::UpgradeId;
use tidegate_proto::name::NotAName;
use tidegate_proto::record::upgrade::SchemaBinding;
use tidegate_proto::spec::Spec;
use tidegate_proto::wire::v1::{Finding, StartUpgradeReply, StartUpgradeRequest, Wave};

/// The first nodes of a wave that a dry run names.
const NAMED: usize = 10;

/// Starts an upgrade. The door answers as soon as the record is there; the next turn sees it.
pub async fn start(
    room: &Room,
    seat: &Seat,
    asked: StartUpgradeRequest,
) -> Result<StartUpgradeReply, OperationError> {
    let spec = spec::parse(&asked.spec)?;
    let asker = remarking(&asked.who, "why", "")?;
    let id = match asked.id.as_str() {
        "" => a_name_for(&spec),
        id => id.parse().map_err(|e: NotAName| OperationError::BadInput(e.to_string()))?,
    };
    let (schema, away) = unless_away(schema::look_only(room, &spec).await)?;
    let (mut findings, waves) = foreseen(&room.mirror.picture().fleet, &id, &spec);
    findings.extend(away);
    if asked.dry_run {
        return Ok(StartUpgradeReply { findings, waves, ..StartUpgradeReply::default() });
    }
    let request = StartRequest { id: id.clone(), spec, schema, asker };
    // The database is claimed only for an upgrade that nothing else stands in the way of.
    wish::ponder(room, seat, |fleet, moment| ask::start(fleet, moment, request.clone())).await?;
    let request = match &request.schema {
        Some(_) => {
            let (schema, away) = unless_away(schema::bind(room, seat, &request.spec).await)?;
            findings.extend(away);
            StartRequest { schema, ..request }
        }
        None => request,
    };
    let revision =
        wish::grant(room, seat, |fleet, moment| ask::start(fleet, moment, request.clone())).await?;
    Ok(StartUpgradeReply { id: id.to_string(), revision: revision.0, findings, waves })
}

/// What was found, or that the database does not answer: the upgrade then waits for it in preflight.
fn unless_away(
    looked: Result<Option<SchemaBinding>, Unbound>,
) -> Result<(Option<SchemaBinding>, Option<Finding>), Unbound> {
    match looked {
        Err(unbound) if unbound.is_away() => {
            let what = format!("the upgrade waits in preflight for its database: {}", unbound.told());
            Ok((None, Some(Finding { blocking: false, what })))
        }
        looked => looked.map(|schema| (schema, None)),
    }
}

/// A name that a person recognises: service, version and time.
fn a_name_for(spec: &Spec) -> UpgradeId {
    let time =
        jiff::Timestamp::from_millisecond(now().0).unwrap_or_default().strftime("%Y%m%d-%H%M%S").to_string();
    let service: String = spec.service.as_str().chars().take(30).collect();
    format!("{service}-{}-{time}", spec.to)
        .parse()
        .expect("the beginning of a name, digits and dashes are a name")
}

/// What stands in the way, and the waves as they would be drawn now.
fn foreseen(fleet: &Fleet, id: &UpgradeId, spec: &Spec) -> (Vec<Finding>, Vec<Wave>) {
    let found = preflight::findings(fleet, spec).into_iter();
    let findings = found.map(|finding| Finding { blocking: finding.blocks, what: finding.what }).collect();
    let label = spec.failure_domain.as_deref();
    let nodes =
        fleet.service(&spec.service).into_iter().flat_map(ServiceFleet::instances).map(|instance| {
            (&instance.node, label.and_then(|label| instance.label(label)).unwrap_or_default())
        });
    let drawn = wave::draw(id.as_str(), &spec.strategy, nodes);
    let mut members = drawn.members.iter();
    let waves = drawn.sizes.iter().zip(1..).map(|(size, wave)| {
        let nodes: Vec<String> =
            members.by_ref().take(*size as usize).map(|(node, _)| node.to_string()).collect();
        let more_nodes = answer::short(nodes.len().saturating_sub(NAMED));
        Wave { wave, size: *size, nodes: nodes.into_iter().take(NAMED).collect(), more_nodes }
    });
    (findings, waves.collect())
}
