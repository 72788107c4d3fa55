//! CI, or a person, creates a compute release. Asked twice, it is created once.

use super::super::{OperationError, mutation, remarking};
use super::{body, read, reply, stream_name};
use crate::context::Context;
use crate::leadership::Leadership;
use std::time::Duration;
use tidegate_planner::ask::{self, release::Asked};
use tidegate_planner::release::manifest;
use tidegate_proto::compute::ReleaseRequest;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::wire::v1::{CreateReleaseRequest, ReleaseReply};

/// How long the answer waits for a release that nothing holds to go out: the next turn does it, within milliseconds.
const TURN: Duration = Duration::from_secs(2);

pub async fn create_release(
    context: &Context,
    leadership: &Leadership,
    asked: CreateReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let base = stream_name(&asked.stream)?;
    let request: ReleaseRequest = body("the release", &asked.body)?;
    let asker = remarking(&asked.who, "why", "")?;
    let read_tag = || async {
        let home = {
            let view = context.mirror.view();
            ask::release::home(&view.fleet, &base, &request).map_err(mutation::refused)?
        };
        read::tag(context, &home, &request.tag).await
    };
    let granted = {
        let _alone = context.releases.lock().await;
        mutation::settle(context, leadership, read_tag, |fleet, moment, tag| {
            ask::release::create(fleet, moment, &base, tag.as_ref(), &request, &asker)
        })
        .await?
    };
    let asked = &granted.0;
    if asked.commit.is_some() {
        goes_out(context, leadership, asked).await;
    }
    let what = match (&asked.revision, asked.commit.is_some()) {
        (Some(revision), true) => format!("revision {revision} of {} was created", asked.stream),
        (Some(revision), false) => {
            format!("revision {revision} of {} is the latest and says the same already", asked.stream)
        }
        (None, _) => "nothing was created".to_owned(),
    };
    let mut reply = reply(context, granted, what).await?;
    reply.warnings.extend(warnings(&request));
    Ok(reply)
}

/// Findings about a manifest that do not refuse it: unknown settings.
fn warnings(request: &ReleaseRequest) -> Vec<String> {
    manifest::listed(&manifest::findings(&request.manifest), false)
}

/// Waits until a new release has gone out, or something is known to hold it.
async fn goes_out(context: &Context, leadership: &Leadership, granted: &Asked) {
    let Some(revision) = granted.revision else { return };
    let mut sync_status = context.mirror.sync_status();
    let stands = || {
        let view = context.mirror.view();
        let waits = view
            .fleet
            .stream(&granted.stream)
            .and_then(|stream| stream.head(revision))
            .is_some_and(|head| head.release.status == ReleaseStatus::Pending);
        let held = || {
            let explain = |moment: &_| ask::release::explain(&view.fleet, moment, &granted.stream);
            let reasons = leadership.plan(&view, explain, |_| 0);
            reasons.is_ok_and(|all| all.contains_key(&revision))
        };
        waits && !held()
    };
    let moved = async { while stands() && sync_status.changed().await.is_ok() {} };
    // It goes out all the same, later; the answer has its current status.
    let _ = tokio::time::timeout(TURN, moved).await;
}
