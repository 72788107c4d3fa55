//! A person decides that a release goes to more starts, or to all.

use super::super::{OperationError, mutation, remarking};
use super::{parse, reply, revision, stream_name};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::Fraction;
use tidegate_proto::wire::v1::{PromoteReleaseRequest, ReleaseReply};

/// To which share; none = to all. One of them must be said.
fn share(asked: &PromoteReleaseRequest) -> Result<Option<Fraction>, OperationError> {
    let wrong = |what: &str| Err(OperationError::BadInput(format!("the promotion has {what}")));
    match (asked.fraction, asked.deploy) {
        (None, true) => Ok(None),
        (None, false) => wrong(
            "neither fraction nor deploy: a fraction of 0.5 gives the release to half of the starts, deploy to all",
        ),
        (Some(_), true) => wrong("both fraction and deploy: one of them is allowed"),
        (Some(share), false) => Ok(Some(parse(&share.to_string())?)),
    }
}

/// Promotes a release to a share of starts, or deploys it.
pub async fn promote_release(
    context: &Context,
    leadership: &Leadership,
    asked: PromoteReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let fraction = share(&asked)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = mutation::asked_of_stream(context, leadership, |fleet, moment| {
        ask::release::promote(fleet, moment, &stream, revision, fraction, &asker)
    })
    .await?;
    let what = match fraction {
        Some(share) => format!("{share} of starts use revision {revision} of {stream}"),
        None => format!("revision {revision} of {stream} is deployed"),
    };
    reply(context, granted, what).await
}
