//! Verdicts of compatibility runs: recorded, and listed with the releases that wait for them.

use super::super::{OperationError, mutation, remarking, store_error};
use super::parse;
use crate::context::Context;
use crate::leadership::Leadership;
use std::collections::BTreeMap;
use tidegate_planner::Fleet;
use tidegate_planner::ask;
use tidegate_planner::gate::release::evidence::{is_run, wanted};
use tidegate_proto::key::Kind;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::wire::v1::{
    Evidence, ListEvidenceRequest, RecordEvidenceRequest, ReleaseReply, WaitingRelease,
};
use tidegate_proto::{Digest, Key, ReleaseTag, Value};
use tidegate_store::{Entry, Scope};

/// Records a verdict.
pub async fn record_evidence(
    context: &Context,
    leadership: &Leadership,
    asked: RecordEvidenceRequest,
) -> Result<ReleaseReply, OperationError> {
    let compute: ReleaseTag = parse(&asked.compute_tag)?;
    let storage: ReleaseTag = parse(&asked.storage_tag)?;
    let verdict: Verdict = parse(&asked.verdict)?;
    let log = some(&asked.log_sha256).map(parse::<Digest>).transpose()?;
    let asker = remarking(&asked.who, "note", &asked.note)?;
    let at = mutation::apply(context, leadership, |fleet, moment| {
        ask::release::evidence(fleet, moment, &compute, &storage, verdict, log, &asker)
    })
    .await?;
    let what = format!("{compute} with {storage}: {verdict}");
    let warnings = strange(&context.mirror.view().fleet, &compute, &storage);
    Ok(ReleaseReply { changed: true, what, store_revision: at.0, warnings, ..ReleaseReply::default() })
}

/// Tags that are perhaps misspelt. A run may come before its release, so they are no error.
fn strange(fleet: &Fleet, compute: &ReleaseTag, storage: &ReleaseTag) -> Vec<String> {
    let is_released =
        fleet.streams().any(|(_, stream)| stream.heads().any(|head| head.release.tag == *compute));
    let compute = (!is_released).then(|| {
        format!("no stream has a release {compute} that waits, is deployed or is kept: is the tag right?")
    });
    let storage = (!is_run(fleet, storage)).then(|| format!("no instance runs {storage}: is the tag right?"));
    compute.into_iter().chain(storage).collect()
}

/// Every pair of tags that has a verdict, or that a release waits for.
pub async fn list_evidence(
    context: &Context,
    asked: &ListEvidenceRequest,
) -> Result<Vec<Evidence>, OperationError> {
    let compute = some(&asked.compute_tag).map(parse::<ReleaseTag>).transpose()?;
    let storage = some(&asked.storage_tag).map(parse::<ReleaseTag>).transpose()?;
    let scope = match &compute {
        Some(compute) => Scope::Within(Kind::Evidence, compute.to_string()),
        None => Scope::Kind(Kind::Evidence),
    };
    let found = context.store.list(&scope).await.map_err(store_error("list the evidence"))?;
    let mut pairs: BTreeMap<(ReleaseTag, ReleaseTag), Evidence> =
        found.entries.into_iter().filter_map(stored).collect();
    for (pair, releases) in wanted(&context.mirror.view().fleet) {
        let waiting = releases.into_iter().map(|(stream, revision)| WaitingRelease {
            stream: stream.to_string(),
            revision: revision.get(),
        });
        pairs.entry(pair).or_default().waiting = waiting.collect();
    }
    let meant = |(c, s): &(ReleaseTag, ReleaseTag)| {
        compute.as_ref().is_none_or(|compute| compute == c)
            && storage.as_ref().is_none_or(|storage| storage == s)
    };
    let named = |((compute, storage), evidence): ((ReleaseTag, ReleaseTag), Evidence)| Evidence {
        compute_tag: compute.to_string(),
        storage_tag: storage.to_string(),
        ..evidence
    };
    Ok(pairs.into_iter().filter(|(pair, _)| meant(pair)).map(named).collect())
}

fn stored(entry: Entry) -> Option<((ReleaseTag, ReleaseTag), Evidence)> {
    let Key::Evidence(compute, storage) = entry.key else { return None };
    let evidence = match entry.value {
        Ok(Value::Evidence(record)) => {
            let body = record.body;
            Evidence {
                verdict: Some(body.verdict.to_string()),
                note: body.note,
                who: body.who,
                at: Some(body.at.0),
                log_sha256: body.log.map(|log| log.to_string()),
                earlier: body.earlier.into_iter().map(Into::into).collect(),
                ..Evidence::default()
            }
        }
        Ok(_) => Evidence { unreadable: Some("is no evidence".to_owned()), ..Evidence::default() },
        Err(why) => Evidence { unreadable: Some(why.to_string()), ..Evidence::default() },
    };
    Some(((compute, storage), evidence))
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
