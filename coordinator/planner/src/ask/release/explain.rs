//! Why releases of a stream do not move further.

use super::find;
use crate::ask::Refusal;
use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::plan::stream_turn;
use std::collections::BTreeMap;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::{ReleaseRevision, StreamName};

/// Everything that each waiting release of a stream, and its canary, waits for; nothing for one that is about to move.
pub fn explain(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
) -> Result<BTreeMap<ReleaseRevision, Vec<WaitingFor>>, Refusal> {
    find(fleet, name)?;
    let told = |(revision, reasons): (ReleaseRevision, Vec<crate::Reason>)| {
        let reasons = reasons.iter().map(|reason| reason.for_release(name, revision)).collect();
        (revision, reasons)
    };
    Ok(stream_turn(fleet, moment, name).waiting.into_iter().map(told).collect())
}
