//! A store that was restored from a backup, or is blank, is reconciled: first the plan, then a person applies it.

use super::{OperationError, explaining, mutation, parse};
use crate::context::Context;
use crate::leadership::Leadership;
use prost_reflect::prost::Message;
use std::collections::BTreeSet;
use tidegate_planner::ask::reconcile::{self, Choices, Proposal, Runs, Witness};
use tidegate_proto::wire::v1::{
    DatabaseClaim, Done, PlanReconciliationReply, PlanReconciliationRequest, ReconcileStoreRequest,
    RunningInstance, WindowChange, WitnessClaim,
};
use tidegate_proto::{Digest, InstanceId};

/// The most witnesses, and the most instances, that one answer names.
const NAMED: usize = 10_000;

/// How many bytes of each it has room for: most gRPC clients refuse an answer of more than 4 MiB unless they are set to read
/// it, and the request has no limit that they could lower.
const NAMED_BYTES: usize = 1_500_000;

/// The most bytes that an element of a list has besides its own: its tag and its length.
const ELEMENT_BYTES: usize = 5;

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
    let (every_witness, every_instance) = (proposal.witnesses.len(), proposal.instances.len());
    let (first, others): (Vec<_>, Vec<_>) =
        proposal.instances.into_iter().partition(|runs| runs.refused.is_some());
    let witnesses = named(proposal.witnesses.into_iter().map(witness));
    let instances = named(first.into_iter().chain(others).map(instance));
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
        more_witnesses: (every_witness - witnesses.len()) as u64,
        witnesses,
        windows: proposal
            .windows
            .into_iter()
            .map(|change| WindowChange {
                service: change.service.to_string(),
                floor: change.now.map(|(floor, _)| floor.get()),
                ceiling: change.now.map(|(_, ceiling)| ceiling.get()),
                new_floor: change.then.map(|(floor, _)| floor.get()),
                new_ceiling: change.then.map(|(_, ceiling)| ceiling.get()),
                floor_by_database: change.by_database,
            })
            .collect(),
        more_instances: (every_instance - instances.len()) as u64,
        instances,
        refused: refused as u64,
        revision: 0,
    }
}

fn witness(witness: Witness) -> WitnessClaim {
    WitnessClaim {
        instance: witness.instance.to_string(),
        says: witness.says,
        term: witness.term.map(|term| term.to_string()),
        floor: witness.floor.map(|floor| floor.get()),
        revision: witness.revision.0,
        unsupported: witness.lacks,
        fate: witness.fate.word().to_owned(),
    }
}

fn instance(runs: Runs) -> RunningInstance {
    RunningInstance {
        instance: runs.instance.to_string(),
        version: runs.version.map(|version| version.get()),
        refused: runs.refused,
    }
}

/// The first of these, as many as an answer has room for.
fn named<M: Message>(all: impl Iterator<Item = M>) -> Vec<M> {
    let mut bytes = 0;
    all.take(NAMED)
        .take_while(|one| {
            bytes += one.encoded_len() + ELEMENT_BYTES;
            bytes <= NAMED_BYTES
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_planner::ask::reconcile::Fate;
    use tidegate_proto::Revision;

    /// What a gRPC client accepts by default.
    const MOST_BYTES: usize = 4 * 1024 * 1024;

    #[test]
    fn plan_of_many_instances_with_long_names_fits_its_answer() {
        const ALL: usize = 12_000;
        let id = |n: usize| -> InstanceId { format!("{:s<63}/{n:0>63}", "").parse().unwrap() };
        let claims = |n| Witness {
            instance: id(n),
            says: "holds the directive of revision 1234567, and the store has the one of 1230000".to_owned(),
            term: Some("f".repeat(36).parse().unwrap()),
            floor: None,
            revision: Revision(1_234_567),
            lacks: None,
            fate: Fate::Applied,
        };
        let refused = "its running version is unknown (its agent does not say which version runs)";
        let runs = |n| Runs { instance: id(n), version: None, refused: Some(refused.to_owned()) };
        let reply = shown(Proposal {
            choices: Choices::default(),
            nothing_acts: true,
            fall: None,
            databases: Vec::new(),
            witnesses: (0..ALL).map(claims).collect(),
            windows: Vec::new(),
            instances: (0..ALL).map(runs).collect(),
        });
        assert!(reply.encoded_len() < MOST_BYTES, "{} bytes", reply.encoded_len());
        assert_eq!(reply.refused, ALL as u64, "those that are not named count too");
        for (named, more) in
            [(reply.witnesses.len(), reply.more_witnesses), (reply.instances.len(), reply.more_instances)]
        {
            assert!(named > 1_000, "{named}");
            assert_eq!(named as u64 + more, ALL as u64);
        }
    }
}
