//! Why a release does not go out: every gate that is shut, who can open it, which command helps.

use super::super::{OperationError, mutation, unreadable};
use super::{read, revision, stream_name, view};
use crate::context::Context;
use crate::leadership::Leadership;
use std::collections::BTreeMap;
use tidegate_planner::ask;
use tidegate_planner::gate::Waits;
use tidegate_proto::key::Subject;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::wire::v1::ExplainReleaseRequest;
use tidegate_proto::{Key, ReleaseRevision, StreamName};

/// Explains what waits, or one revision, whatever became of it; the leader answers, because it counts the time.
pub async fn explain_release(
    context: &Context,
    leadership: &Leadership,
    asked: &ExplainReleaseRequest,
) -> Result<Vec<view::Waits>, OperationError> {
    let stream = stream_name(&asked.stream)?;
    unreadable::refuse(
        context,
        &format!("release stream {stream} does not move"),
        &[Key::Stream(stream.clone())],
    )?;
    let only = (asked.revision != 0).then(|| revision(asked.revision)).transpose()?;
    let (mut waits, past) = of_heads(context, leadership, &stream, only)?;
    for (revision, reasons) in past {
        let release = read::release(context, &stream, revision).await?;
        waits.push(view::Waits::of(&release, reasons));
    }
    match only {
        // History: no longer in use, and the store knows how it ended.
        Some(only) if waits.is_empty() => {
            let release = read::release(context, &stream, only).await?;
            Ok(vec![view::Waits::of(&release, Vec::new())])
        }
        _ => Ok(waits),
    }
}

/// What something is said of, by revision.
type Reasons = BTreeMap<ReleaseRevision, Vec<WaitingFor>>;

/// The releases that anything may still happen to; and what is said of others, which only run any more.
fn of_heads(
    context: &Context,
    leadership: &Leadership,
    stream: &StreamName,
    only: Option<ReleaseRevision>,
) -> Result<(Vec<view::Waits>, Reasons), OperationError> {
    let view = context.mirror.view();
    let fleet = &view.fleet;
    let mut reasons = leadership
        .plan(&view, |moment| ask::release::explain(fleet, moment, stream), |_| 0)
        .map_err(mutation::refused)?;
    let refused = leadership.refused(&Subject::Stream(stream.clone()));
    let heads = fleet.stream(stream).into_iter().flat_map(|stream| stream.heads());
    let mut waits = Vec::new();
    for release in heads.map(|head| &head.release) {
        let reasons = reasons.remove(&release.revision);
        let is_listed =
            only.map_or(reasons.is_some() || release.deployed_at.is_none(), |only| only == release.revision);
        if is_listed {
            let refused =
                refused.iter().map(|reason| reason.explained(Waits::Release(stream, release.revision)));
            let reasons = reasons.unwrap_or_default().into_iter().chain(refused).collect();
            waits.push(view::Waits::of(release, reasons));
        }
    }
    reasons.retain(|revision, _| only.is_none_or(|only| only == *revision));
    Ok((waits, reasons))
}
