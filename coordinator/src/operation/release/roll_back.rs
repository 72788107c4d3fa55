//! A person goes back to a release that was deployed before.

use super::super::{OperationError, mutation, remarking};
use super::{read, reply, revision, stream_name, written};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_planner::ask::release::Asked;
use tidegate_proto::wire::v1::{ReleaseReply, RollBackReleaseRequest};
use tidegate_proto::{ReleaseRevision, StreamName};

/// Makes a new revision with the body of an old one, which goes out at once, or when its image is warmed up.
pub async fn roll_back_release(
    context: &Context,
    leadership: &Leadership,
    asked: RollBackReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let target = revision(asked.revision)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let prewarm = asked.prewarm.unwrap_or(true);
    let granted = {
        let _alone = context.releases.lock().await;
        let read_target = || read::stored(context, &stream, target);
        mutation::settle(context, leadership, read_target, |fleet, moment, target| {
            ask::release::roll_back(fleet, moment, &stream, target, prewarm, &asker)
        })
        .await?
    };
    let what = what(context, &stream, target, prewarm, &granted.0).await?;
    reply(context, granted, what).await
}

/// What was done, in words.
async fn what(
    context: &Context,
    stream: &StreamName,
    target: ReleaseRevision,
    prewarm: bool,
    granted: &Asked,
) -> Result<String, OperationError> {
    let waits = match granted.revision {
        // It may have failed by now: then it was not deployed either, and `explain` says why.
        Some(revision) => match (read::release(context, stream, revision).await, &granted.commit) {
            (Err(error), None) => return Err(error),
            (read, _) => {
                let release = read.ok().or_else(|| written::known(context, granted, revision));
                release.is_some_and(|release| release.deployed_at.is_none())
            }
        },
        None => false,
    };
    let until = match prewarm {
        true => "its image is warmed up",
        false => "no agent can start to remove its image",
    };
    Ok(match (&granted.revision, granted.commit.is_some()) {
        (Some(revision), _) if waits => format!(
            "revision {revision} of {stream} goes back to revision {target} as soon as {until}; until then what is deployed stays (`tidegate release explain {revision} --stream {stream}`)"
        ),
        (Some(revision), true) => {
            format!("{stream} is back at revision {target}, deployed as revision {revision}")
        }
        _ => format!("what revision {target} of {stream} holds is deployed already"),
    })
}
