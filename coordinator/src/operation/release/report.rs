//! What the control plane reports of computes: whether a release answers, success or failure of one compute, how many run
//! which tag.

use super::super::{OperationError, mutation, remarking};
use super::{parse, read, reply, revision, stream_name};
use crate::context::Context;
use crate::leadership::Leadership;
use std::collections::BTreeMap;
use tidegate_planner::ask;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::stream::MAX_RUNNING_TAGS;
use tidegate_proto::wire::v1::{
    ReleaseReply, ReportAvailableRequest, ReportRunningRequest, ReportSignalRequest,
};
use tidegate_proto::{ComputeId, ReleaseTag, StreamName};

/// Whether a release that waits answers.
pub async fn report_available(
    context: &Context,
    leadership: &Leadership,
    asked: ReportAvailableRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let asker = remarking(&asked.who, "why", "")?;
    let granted = mutation::asked_of_stream(context, leadership, |fleet, moment| {
        ask::release::available(fleet, moment, &stream, revision, asked.available, &asker)
    })
    .await?;
    let answers = if asked.available { "answers" } else { "does not answer" };
    reply(context, granted, format!("revision {revision} of {stream} {answers}")).await
}

/// Success or failure of one compute with the canary. Computes do not wait for each other: each has a key of its own.
pub async fn report_signal(
    context: &Context,
    leadership: &Leadership,
    asked: ReportSignalRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let compute: ComputeId = parse(&asked.compute)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let (granted, at) = mutation::settle_as_seen(context, leadership, |fleet, moment| {
        ask::release::signal(fleet, moment, &stream, revision, &compute, asked.success, &asker)
    })
    .await?;
    let word = if asked.success { "success" } else { "failure" };
    Ok(ReleaseReply {
        stream: granted.stream.to_string(),
        revision: revision.get(),
        changed: granted.commit.is_some(),
        what: format!("{compute} signalled {word} for revision {revision} of {stream}"),
        store_revision: at.0,
        ..ReleaseReply::default()
    })
}

/// How many computes run each tag.
pub async fn report_running(
    context: &Context,
    leadership: &Leadership,
    asked: ReportRunningRequest,
) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    if asked.counts.len() > MAX_RUNNING_TAGS {
        return Err(OperationError::BadInput(format!(
            "{} tags are said to run, at most {MAX_RUNNING_TAGS} are allowed; nothing was changed",
            asked.counts.len()
        )));
    }
    let counts = asked.counts.iter().map(|(tag, count)| Ok((parse(tag)?, *count)));
    let counts: BTreeMap<ReleaseTag, u64> = counts.collect::<Result<_, OperationError>>()?;
    let computes =
        counts.values().try_fold(0_u64, |sum, count| sum.checked_add(*count)).ok_or_else(|| {
            OperationError::BadInput(format!(
                "the counts are more than {} computes together; nothing was changed",
                u64::MAX
            ))
        })?;
    let asker = remarking(&asked.who, "why", "")?;
    let granted = {
        let _alone = context.releases.lock().await;
        mutation::settle(
            context,
            leadership,
            || past(context, &stream, &counts),
            |fleet, moment, past| ask::release::running(fleet, moment, &stream, &counts, past, &asker),
        )
        .await?
    };
    reply(context, granted, format!("{computes} computes run {} tags of {stream}", counts.len())).await
}

/// The latest release of each tag that the stream's record does not have itself.
async fn past(
    context: &Context,
    stream: &StreamName,
    counts: &BTreeMap<ReleaseTag, u64>,
) -> Result<BTreeMap<ReleaseTag, ComputeRelease>, OperationError> {
    let unknown: Vec<ReleaseTag> = {
        let view = context.mirror.view();
        let known =
            |tag: &ReleaseTag| view.fleet.stream(stream).is_some_and(|stream| stream.head_of(tag).is_some());
        counts.keys().filter(|tag| !known(tag)).cloned().collect()
    };
    let mut past = BTreeMap::new();
    for tag in unknown {
        if let Some(found) = read::tag(context, stream, &tag).await? {
            past.insert(tag, read::release(context, stream, found.revision).await?);
        }
    }
    Ok(past)
}
