//! Preview of an upgrade (`--dry-run`): any coordinator answers, and nothing is changed.

use super::{OperationError, answer, spec};
use crate::act::schema::{self, Preview, Unbound};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::gate::preflight;
use tidegate_planner::{Fleet, ServiceFleet, ask, wave};
use tidegate_proto::UpgradeId;
use tidegate_proto::record::upgrade::SchemaBinding;
use tidegate_proto::spec::Spec;
use tidegate_proto::wire::v1::{Finding, PreviewUpgradeReply, PreviewUpgradeRequest, Wave};

/// The first nodes of a wave that are named.
const NAMED: usize = 10;

/// The most warnings about sessions that are listed.
const WARNED: usize = 20;

/// The findings of preflight now, and the waves as they would be drawn.
pub async fn preview_upgrade(
    context: &Context,
    asked: &PreviewUpgradeRequest,
) -> Result<PreviewUpgradeReply, OperationError> {
    let spec = spec::parse(&asked.spec)?;
    let id = spec::name(&asked.id, &spec)?;
    look(context, None, &id, &spec).await.map(|looked| looked.reply)
}

/// What starting an upgrade would do, with what its database shows.
pub(super) struct Looked {
    pub schema: Option<SchemaBinding>,
    /// What forbids to begin in the database.
    pub obstacles: Vec<String>,
    pub reply: PreviewUpgradeReply,
}

/// The same, with the schema that the database shows.
pub(super) async fn look(
    context: &Context,
    leadership: Option<&Leadership>,
    id: &UpgradeId,
    spec: &Spec,
) -> Result<Looked, OperationError> {
    let (seen, away) = unless_away(schema::look_only(context, leadership, id, spec).await)?;
    let (schema, obstacles, warned) = match seen {
        Some(Preview { binding, obstacles, warnings }) => (Some(binding), obstacles, warnings),
        None => (None, Vec::new(), Vec::new()),
    };
    let (mut findings, waves) = previewed(&context.mirror.view().fleet, id, spec, schema.as_ref());
    let warning = |what| Finding { blocking: false, what: format!("contract will wait: {what}") };
    findings.extend(warned.into_iter().take(WARNED).map(warning));
    findings.extend(away);
    findings.extend(obstacles.iter().map(|what| Finding { blocking: true, what: what.clone() }));
    Ok(Looked { schema, obstacles, reply: PreviewUpgradeReply { findings, waves } })
}

/// What was found, or that the database does not answer: the upgrade then waits for it in preflight.
pub(super) fn unless_away<T>(
    looked: Result<Option<T>, Unbound>,
) -> Result<(Option<T>, Option<Finding>), Unbound> {
    match looked {
        Err(unbound) if unbound.is_away() => {
            let what = format!("the upgrade waits in preflight for its database: {}", unbound.in_words());
            Ok((None, Some(Finding { blocking: false, what })))
        }
        looked => looked.map(|schema| (schema, None)),
    }
}

/// The findings that block it, and the waves as they would be drawn now.
fn previewed(
    fleet: &Fleet,
    id: &UpgradeId,
    spec: &Spec,
    schema: Option<&SchemaBinding>,
) -> (Vec<Finding>, Vec<Wave>) {
    let taken = ask::unused(fleet, id).err().map(|taken| Finding { blocking: true, what: taken.message });
    let found = preflight::preview(fleet, spec, schema).into_iter();
    let found = found.map(|finding| Finding { blocking: finding.blocks, what: finding.what });
    let findings = taken.into_iter().chain(found).collect();
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
