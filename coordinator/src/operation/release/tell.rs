//! What those who start computes tell: does a release answer, how did a compute fare, how many run which tag.

use super::super::{OperationError, remarking, wish};
use super::{parse, read, reply, revision, stream_name};
use crate::room::Room;
use crate::seat::Seat;
use std::collections::BTreeMap;
use tidegate_planner::ask;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::stream::MAX_RUNNING_TAGS;
use tidegate_proto::wire::v1::{ReleaseReply, TellAvailableRequest, TellRunningRequest, TellSignalRequest};
use tidegate_proto::{ComputeId, ReleaseTag, StreamName};

/// Whether a release that waits answers.
pub async fn tell_available(
    room: &Room,
    seat: &Seat,
    asked: TellAvailableRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let asker = remarking(&asked.who, "why", "")?;
    let granted = wish::asked_of_stream(room, seat, |fleet, moment| {
        ask::release::available(fleet, moment, &stream, revision, asked.available, &asker)
    })
    .await?;
    let answers = if asked.available { "answers" } else { "does not answer" };
    reply(room, granted, format!("revision {revision} of {stream} {answers}")).await
}

/// How one compute fared with the canary. Computes do not wait for each other: each has a key of its own.
pub async fn tell_signal(
    room: &Room,
    seat: &Seat,
    asked: TellSignalRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let compute: ComputeId = parse(&asked.compute)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let (granted, at) = wish::settle(
        room,
        seat,
        || async { Ok(()) },
        |fleet, moment, ()| {
            ask::release::signal(fleet, moment, &stream, revision, &compute, asked.success, &asker)
        },
    )
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
pub async fn tell_running(
    room: &Room,
    seat: &Seat,
    asked: TellRunningRequest,
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
        let _alone = room.releases.lock().await;
        wish::settle(
            room,
            seat,
            || past(room, &stream, &counts),
            |fleet, moment, past| ask::release::running(fleet, moment, &stream, &counts, past, &asker),
        )
        .await?
    };
    reply(room, granted, format!("{computes} computes run {} tags of {stream}", counts.len())).await
}

/// The latest release of each tag that the stream's record does not have itself.
async fn past(
    room: &Room,
    stream: &StreamName,
    counts: &BTreeMap<ReleaseTag, u64>,
) -> Result<BTreeMap<ReleaseTag, ComputeRelease>, OperationError> {
    let unknown: Vec<ReleaseTag> = {
        let picture = room.mirror.picture();
        let known = |tag: &ReleaseTag| {
            picture.fleet.stream(stream).is_some_and(|stream| stream.head_of(tag).is_some())
        };
        counts.keys().filter(|tag| !known(tag)).cloned().collect()
    };
    let mut past = BTreeMap::new();
    for tag in unknown {
        if let Some(found) = read::tag(room, stream, &tag).await? {
            past.insert(tag, read::release(room, stream, found.revision).await?);
        }
    }
    Ok(past)
}
