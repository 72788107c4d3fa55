//! A compatibility run tells its verdict.

use super::super::{OperationError, remarking, wish};
use super::parse;
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::ReleaseTag;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::wire::v1::{ReleaseReply, TellEvidenceRequest};

/// Records a verdict.
pub async fn tell_evidence(
    room: &Room,
    seat: &Seat,
    asked: TellEvidenceRequest,
) -> Result<ReleaseReply, OperationError> {
    let compute: ReleaseTag = parse(&asked.compute_tag)?;
    let storage: ReleaseTag = parse(&asked.storage_tag)?;
    let verdict: Verdict = verdict(&asked.verdict)?;
    let asker = remarking(&asked.who, "note", &asked.note)?;
    let at = wish::grant(room, seat, |fleet, moment| {
        ask::release::evidence(fleet, moment, &compute, &storage, verdict, &asker)
    })
    .await?;
    let what = format!("{compute} with {storage}: {verdict}");
    Ok(ReleaseReply { changed: true, what, store_revision: at.0, ..ReleaseReply::default() })
}

fn verdict(text: &str) -> Result<Verdict, OperationError> {
    [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive].into_iter().find(|v| v.word() == text).ok_or_else(
        || OperationError::BadInput(format!("{text:?} is no verdict: pass, fail or inconclusive is allowed")),
    )
}
