//! The status of an upgrade, with what a live view of it needs.

use super::{OperationError, answer, find, parse, upgrade_certificate};
use crate::context::Context;
use tidegate_proto::record::upgrade::{Phase, PhaseName};
use tidegate_proto::wire::v1::{
    Failure, PhaseTime, UpgradeCertificateRequest, UpgradeStatusReply, UpgradeStatusRequest,
};
use tidegate_proto::{Digest, UpgradeId};

/// The default; `fleet list` streams them all.
const INSTANCES: usize = 1000;

/// Returns the status of an upgrade.
pub async fn upgrade_status(
    context: &Context,
    asked: &UpgradeStatusRequest,
) -> Result<UpgradeStatusReply, OperationError> {
    let mut reply = seen(context, asked)?;
    let completed =
        reply.upgrade.as_ref().is_some_and(|upgrade| upgrade.phase == PhaseName::Completed.word());
    if completed && reply.schema.is_some() {
        // What is stored is checked, also where the record of an earlier version does not name the certificate.
        let asked = UpgradeCertificateRequest { id: asked.id.clone() };
        let text: String =
            upgrade_certificate(context, &asked).await?.into_iter().map(|page| page.text).collect();
        reply.certificate = Some(Digest::of(text.as_bytes()).to_string());
    }
    Ok(reply)
}

fn seen(context: &Context, asked: &UpgradeStatusRequest) -> Result<UpgradeStatusReply, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let most = match asked.max_instances {
        0 => INSTANCES,
        most => most as usize,
    };
    let view = context.mirror.view();
    let upgrade = find(&view.fleet, &id)?;
    let service = view.fleet.service(&upgrade.spec.service);
    let exceptions = view.fleet.exceptions(&id, upgrade);
    let instances: Vec<_> = service
        .map(|service| {
            service.instances().take(most).map(|instance| answer::instance(service, instance)).collect()
        })
        .unwrap_or_default();
    let waiting = view.waiting.get(&id).map(|stored| stored.record.body.clone()).unwrap_or_default();
    Ok(UpgradeStatusReply {
        upgrade: Some(answer::summary(&view.fleet, &id, upgrade)),
        because: answer::because(upgrade),
        spread: service.map(|service| answer::spread(&view.fleet, service)),
        more_instances: answer::short(service.map_or(0, |service| service.len()) - instances.len()),
        instances,
        waiting: waiting.reasons.into_iter().map(Into::into).collect(),
        more_waiting: waiting.more,
        timetable: upgrade
            .timetable
            .iter()
            .map(|time| PhaseTime { phase: time.phase.word().to_owned(), ms: time.ms })
            .collect(),
        phase_ms: upgrade.phase_ms,
        stalled_ms: upgrade.stalled_ms,
        more_failed: answer::short(exceptions.failures().count().saturating_sub(most)),
        failed: exceptions
            .failures()
            .take(most)
            .map(|(node, failure)| Failure {
                node: node.to_string(),
                wave: failure.wave + 1,
                reason: failure.reason.clone(),
            })
            .collect(),
        skipped: exceptions.skipped().take(most).map(ToString::to_string).collect(),
        approved: upgrade.approvals.keys().map(ToString::to_string).collect(),
        schema: upgrade.schema.as_ref().map(|schema| schema.id.to_string()),
        certificate: match &upgrade.phase {
            Phase::Contract { certificate } => Some(certificate.to_string()),
            _ => None,
        },
        revision: view.fleet.revision().0,
    })
}
