//! What the people of a stream ask for.

use super::dice::Dice;
use super::operator::{Answer, Operator};
use super::stream::{said, who};
use super::stream_plan::StreamCommand;
use super::stream_refusals::judge_refusal;
use super::world::World;
use serde_json::json;
use tidegate_coordinator::operation::release as asks;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::Stream;
use tidegate_proto::wire::v1::{
    ConfigureStreamRequest, CreateReleaseRequest, PinComputeRequest, PromoteReleaseRequest,
    ReportAvailableRequest, ReportSignalRequest, RetryReleaseRequest, RollBackReleaseRequest,
    UnpinComputeRequest,
};

/// The stream.
pub(super) const STREAM: &str = "compute";

/// So many of a hundred rollbacks do not wait for the prewarm.
const WITHOUT_PREWARM: u64 = 30;

/// How a task ended that its agent knows nothing of, as an operator at the node sees it; none while it runs.
pub(super) fn truth(world: &World, node: &str, task: &str, tag: &str) -> Option<&'static str> {
    let place = world.testbed.names().node(node)?;
    let state = world.testbed.state();
    let images = &state.disks[place].images;
    if images.runs(&task.parse().ok()?) {
        return None;
    }
    let is_there = images.there.contains(tag);
    Some(if is_there == task.starts_with("prewarm") { "succeeded" } else { "failed" })
}

/// The stream as the auditor sees it.
fn stream(world: &World) -> Stream {
    world.testbed.state().facts.streams.now.get(STREAM).cloned().unwrap_or_default()
}

fn latest(world: &World) -> u64 {
    stream(world).latest.map_or(0, |latest| latest.revision.get())
}

/// Asks for a release: which version it needs, whether it is tried first, and whether evidence is needed.
pub(super) async fn release(
    world: &World,
    on: usize,
    number: u64,
    (need, canary, evidence): (u32, bool, bool),
) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let body = body(world, on, (number, 0), (need, canary, evidence));
    said(asks::create_release(
        room,
        &leadership,
        CreateReleaseRequest { stream: STREAM.to_owned(), body, who: who() },
    ))
    .await
}

fn body(
    world: &World,
    on: usize,
    (number, settings): (u64, u64),
    (need, canary, evidence): (u32, bool, bool),
) -> String {
    let service = &world.testbed.names().services[on];
    let mut body = json!({
        "version": 9_000 + number, "tag": format!("release-{number}"), "manifest": {"settings": settings},
        "requires": {service.as_str(): need}, "evidence": if evidence { "required" } else { "none" },
    });
    if canary {
        body["canary"] = json!({"fraction": 0.4, "promote_after": 1, "tolerate": 0});
    }
    body.to_string()
}

/// Does one thing; what was answered.
pub(super) async fn run(world: &mut World, on: usize, number: u64, command: &StreamCommand) -> String {
    let lowest = world.testbed.lowest(on);
    let done = match command {
        StreamCommand::Create { ahead, canary, evidence } => {
            release(world, on, number, (lowest + ahead, *canary, *evidence)).await
        }
        StreamCommand::SameImage => same_image(world, on, number, lowest).await,
        StreamCommand::Twice => {
            let (one, other) =
                tokio::join!(same_image(world, on, number, lowest), same_image(world, on, number, lowest));
            return format!("{one:?}, {other:?}");
        }
        StreamCommand::RollBack(back) => roll_back(world, *back).await,
        StreamCommand::Both(back) => {
            let needs = (lowest, false, false);
            let (one, other) = tokio::join!(roll_back(world, *back), release(world, on, number, needs));
            return format!("{one:?}, {other:?}");
        }
        StreamCommand::Promote(deploys) => promote(world, *deploys).await,
        StreamCommand::Pin(compute, back) => pin(world, *compute, *back).await,
        StreamCommand::Unpin(compute) => unpin(world, *compute).await,
        StreamCommand::Available(answers) => available(world, *answers).await,
        StreamCommand::HooksFail(..) => Ok("hooks fail".to_owned()),
        StreamCommand::Wrong(which) => wrong(world, *which).await,
    };
    format!("{done:?}")
}

/// Another revision with the image of the latest request.
async fn same_image(world: &World, on: usize, number: u64, lowest: u32) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let body = body(world, on, (number.max(1), 1 + latest(world)), (lowest, false, false));
    said(asks::create_release(
        room,
        &leadership,
        CreateReleaseRequest { stream: STREAM.to_owned(), body, who: who() },
    ))
    .await
}

async fn roll_back(world: &World, back: u64) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let revision = latest(world).saturating_sub(back).max(1);
    let mut own = Dice::of(world.scenario.seed, &format!("no-prewarm-{}", world.testbed.now()));
    let no_prewarm = own.percent(WITHOUT_PREWARM);
    if no_prewarm {
        // As with a promotion, a person accepts that images are missing.
        {
            let streams = &mut world.testbed.state().facts.streams;
            let target = streams.releases.get(&(STREAM.to_owned(), revision));
            let tag = target.map(|release| release.tag.to_string());
            streams.promoted.extend(tag);
        }
        world.testbed.log(format!("{STREAM} goes back to revision {revision} with --no-prewarm"));
    }
    let asked = RollBackReleaseRequest {
        stream: STREAM.to_owned(),
        revision,
        who: who(),
        why: "starts are slow".to_owned(),
        prewarm: Some(!no_prewarm),
    };
    let done = async {
        let done = asks::roll_back_release(room, &leadership, asked).await;
        done.inspect_err(|error| judge_refusal(world, revision, !no_prewarm, error))
    };
    said(done).await
}

async fn promote(world: &World, deploys: bool) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let stream = stream(world);
    let waits = stream.pending.last().or(stream.canary.as_deref()).map(|head| &head.release);
    let revision = waits.map_or(latest(world), |release| release.revision.get());
    // An operator's word also replaces the prewarm.
    if let Some(release) = waits.filter(|release| release.status == ReleaseStatus::Pending) {
        world.testbed.state().facts.streams.promoted.insert(release.tag.to_string());
    }
    let fraction = (!deploys).then_some(0.5);
    let asked = PromoteReleaseRequest {
        stream: STREAM.to_owned(),
        revision,
        fraction,
        who: who(),
        why: "now".to_owned(),
        deploy: deploys,
    };
    said(asks::promote_release(room, &leadership, asked)).await
}

async fn available(world: &World, answers: bool) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let stream = stream(world);
    let waits = stream.pending.first().or(stream.canary.as_deref()).map(|head| &head.release);
    let revision = waits.map_or(latest(world), |release| release.revision.get());
    let asked =
        ReportAvailableRequest { stream: STREAM.to_owned(), revision, available: answers, who: who() };
    said(asks::report_available(room, &leadership, asked)).await
}

async fn pin(world: &World, compute: u64, back: u64) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let asked = PinComputeRequest {
        stream: STREAM.to_owned(),
        compute: format!("ep-{compute}"),
        revision: latest(world).saturating_sub(back).max(1),
        who: who(),
        why: "it stays".to_owned(),
    };
    said(asks::pin_compute(room, &leadership, asked)).await
}

async fn unpin(world: &World, compute: u64) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let compute = format!("ep-{compute}");
    let asked = UnpinComputeRequest { stream: STREAM.to_owned(), compute, who: who(), why: String::new() };
    said(asks::unpin_compute(room, &leadership, asked)).await
}

/// What makes no sense is refused.
async fn wrong(world: &World, which: u64) -> Answer {
    let (room, leadership) = Operator::new(&world.coordinators).leader()?;
    let (stream, revision, why) = (STREAM.to_owned(), 9_999, "no reason".to_owned());
    let done = match which {
        0 => {
            let body = r#"{"version": 1, "tag": "release-0"}"#.to_owned();
            said(asks::create_release(room, &leadership, CreateReleaseRequest { stream, body, who: who() }))
                .await
        }
        1 => {
            let asked = RollBackReleaseRequest { stream, revision, who: who(), why, prewarm: None };
            said(asks::roll_back_release(room, &leadership, asked)).await
        }
        2 => {
            let asked =
                PromoteReleaseRequest { stream, revision, who: who(), deploy: true, ..Default::default() };
            said(asks::promote_release(room, &leadership, asked)).await
        }
        3 => {
            said(asks::retry_release(
                room,
                &leadership,
                RetryReleaseRequest { stream, revision, who: who(), why },
            ))
            .await
        }
        4 => {
            let compute = "ep-0".to_owned();
            let asked = ReportSignalRequest { stream, revision, compute, success: true, why, who: who() };
            said(asks::report_signal(room, &leadership, asked)).await
        }
        _ => {
            let asked = ConfigureStreamRequest {
                stream,
                settings: r#"{"minimum_available": -1}"#.to_owned(),
                who: who(),
                why,
            };
            said(asks::configure_stream(room, &leadership, asked)).await
        }
    };
    if let (Ok(done), 1..) = (&done, which) {
        let text = format!("what makes no sense was accepted: {done}");
        world.testbed.state().facts.breach(world.testbed.now(), 0, text);
    }
    done
}
