//! A person goes back to a release that was deployed before.

use super::super::{OperationError, remarking, wish};
use super::{read, reply, revision, stream_name};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{ReleaseReply, RollBackReleaseRequest};

/// Makes a new revision with the body of an old one, which goes out at once.
pub async fn roll_back(
    room: &Room,
    seat: &Seat,
    asked: RollBackReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let target = revision(asked.revision)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = {
        let _alone = room.releases.lock().await;
        let read_target = || read::stored(room, &stream, target);
        wish::settle(room, seat, read_target, |fleet, moment, target| {
            ask::release::roll_back(fleet, moment, &stream, target, &asker)
        })
        .await?
        .0
    };
    let what = match (&granted.revision, granted.commit.is_some()) {
        (Some(revision), true) => {
            format!("{stream} is back at revision {target}, deployed as revision {revision}")
        }
        _ => format!("what revision {target} of {stream} holds is deployed already"),
    };
    reply(room, granted, what).await
}
