//! A store that was restored from a backup, or is blank, is reconciled: first the plan, then a person applies it.

use super::{OperationError, explaining, mutation, parse};
use crate::context::Context;
use crate::leadership::Leadership;
use std::collections::BTreeSet;
use tidegate_planner::ask::reconcile::{self, Choices, Proposal};
use tidegate_proto::wire::v1::{
    DatabaseClaim, Done, PlanReconciliationReply, PlanReconciliationRequest, ReconcileStoreRequest,
    RunningInstance, WindowChange, WitnessClaim,
};
use tidegate_proto::{Digest, InstanceId};

/// The most witnesses, and the most instances, that one answer names: it stays below 4 MiB.
const NAMED: usize = 10_000;

/// What reconciling would do now.
pub async fn plan_reconciliation(
    context: &Context,
    leadership: &Leadership,
    asked: PlanReconciliationRequest,
) -> Result<PlanReconciliationReply, OperationError> {
    let choices = choices(&asked.disregard, &asked.include)?;
    let (proposal, revision) = mutation::look(context, leadership, |fleet, moment| {
        Ok((reconcile::propose(fleet, moment, &choices)?, fleet.revision()))
    })
    .await?;
    Ok(PlanReconciliationReply { revision: revision.0, ..shown(proposal) })
}

/// Applies a plan.
pub async fn reconcile_store(
    context: &Context,
    leadership: &Leadership,
    asked: ReconcileStoreRequest,
) -> Result<Done, OperationError> {
    let asker = explaining(&asked.who, &asked.why)?;
    let choices = choices(&asked.disregard, &asked.include)?;
    if asked.hash.is_empty() {
        return Err(OperationError::BadInput(
            "a store is reconciled by the hash of a plan: `tidegate fleet reconcile` shows the plan"
                .to_owned(),
        ));
    }
    let hash: Digest =
        asked.hash.parse().map_err(|e| OperationError::BadInput(format!("{}: {e}", asked.hash)))?;
    let revision = mutation::apply_on_any_store(context, leadership, |fleet, moment| {
        reconcile::reconcile(fleet, moment, &choices, hash, &asker)
    })
    .await?;
    let what = format!("the store is reconciled by plan {hash}: agents obey it from here on");
    Ok(Done { what, revision: revision.0 })
}

fn choices(disregard: &[String], include: &[String]) -> Result<Choices, OperationError> {
    let read = |texts: &[String]| -> Result<BTreeSet<InstanceId>, OperationError> {
        texts.iter().map(|text| parse(text)).collect()
    };
    Ok(Choices { disregard: read(disregard)?, include: read(include)? })
}

fn shown(proposal: Proposal) -> PlanReconciliationReply {
    let (hash, refused) = (proposal.hash(), proposal.refusals().count());
    let (witnesses, instances) = (proposal.witnesses.len(), proposal.instances.len());
    let (first, others): (Vec<_>, Vec<_>) =
        proposal.instances.into_iter().partition(|runs| runs.refused.is_some());
    let rest = |all: usize| all.saturating_sub(NAMED) as u64;
    PlanReconciliationReply {
        hash: hash.to_string(),
        nothing_acts: proposal.nothing_acts,
        seen: proposal.fall.map(|(seen, _)| seen.0),
        found: proposal.fall.map(|(_, found)| found.0),
        databases: proposal
            .databases
            .into_iter()
            .map(|(upgrade, term, number)| DatabaseClaim {
                upgrade: upgrade.to_string(),
                term: term.to_string(),
                number: number.0,
            })
            .collect(),
        witnesses: proposal
            .witnesses
            .into_iter()
            .take(NAMED)
            .map(|witness| WitnessClaim {
                instance: witness.instance.to_string(),
                says: witness.says,
                term: witness.term.map(|term| term.to_string()),
                floor: witness.floor.map(|floor| floor.get()),
                revision: witness.revision.0,
                unsupported: witness.lacks,
                fate: witness.fate.word().to_owned(),
            })
            .collect(),
        more_witnesses: rest(witnesses),
        windows: proposal
            .windows
            .into_iter()
            .map(|change| WindowChange {
                service: change.service.to_string(),
                floor: change.now.map(|(floor, _)| floor.get()),
                ceiling: change.now.map(|(_, ceiling)| ceiling.get()),
                new_floor: change.then.map(|(floor, _)| floor.get()),
                new_ceiling: change.then.map(|(_, ceiling)| ceiling.get()),
            })
            .collect(),
        instances: first
            .into_iter()
            .chain(others)
            .take(NAMED)
            .map(|runs| RunningInstance {
                instance: runs.instance.to_string(),
                version: runs.version.map(|version| version.get()),
                refused: runs.refused,
            })
            .collect(),
        more_instances: rest(instances),
        refused: refused as u64,
        revision: 0,
    }
}
