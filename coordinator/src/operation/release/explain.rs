//! Why a release does not go out: every gate that is shut, who can open it, which command helps.

use super::super::{OperationError, wish};
use super::{revision, stream_name, view};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::key::Subject;
use tidegate_proto::wire::v1::ExplainReleaseRequest;

/// Explains what waits; the leader answers, because it counts the time.
pub fn explain(
    room: &Room,
    seat: &Seat,
    asked: &ExplainReleaseRequest,
) -> Result<Vec<view::Waits>, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let only = (asked.revision != 0).then(|| revision(asked.revision)).transpose()?;
    let picture = room.mirror.picture();
    let fleet = &picture.fleet;
    let mut reasons = seat
        .plan(&picture, |moment| ask::release::explain(fleet, moment, &stream), |_| 0)
        .map_err(wish::refused)?;
    let refused = seat.refused(&Subject::Stream(stream.clone()));
    let heads = fleet.stream(&stream).into_iter().flat_map(|stream| stream.heads());
    let mut waits = Vec::new();
    for release in heads.map(|head| &head.release) {
        let reasons = reasons.remove(&release.revision);
        let told =
            only.map_or(reasons.is_some() || release.deployed_at.is_none(), |only| only == release.revision);
        if told {
            let refused = refused.iter().map(|reason| reason.for_release(&stream, release.revision));
            waits.push(view::Waits {
                revision: release.revision,
                tag: release.tag.clone(),
                status: release.status,
                reasons: reasons.unwrap_or_default().into_iter().chain(refused).collect(),
            });
        }
    }
    match only {
        Some(only) if waits.is_empty() => Err(OperationError::NotFound(format!(
            "revision {only} of {stream} is no release that anything may still happen to"
        ))),
        _ => Ok(waits),
    }
}
