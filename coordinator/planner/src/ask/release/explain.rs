//! Why releases of a stream do not move further.

use super::find;
use crate::ask::Refusal;
use crate::fleet::Fleet;
use crate::gate::release::failed;
use crate::gate::{Reason, Waits};
use crate::moment::Moment;
use crate::plan::stream_turn;
use std::collections::BTreeMap;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::{ReleaseRevision, StreamName};

/// Everything that each waiting release of a stream, its canary, and one that failed, waits for; nothing for one that is
/// about to move.
pub fn explain(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
) -> Result<BTreeMap<ReleaseRevision, Vec<WaitingFor>>, Refusal> {
    let stream = find(fleet, name)?;
    let explained = |(revision, reasons): (ReleaseRevision, Vec<Reason>)| {
        let reasons = reasons.iter().map(|reason| reason.explained(Waits::Release(name, revision))).collect();
        (revision, reasons)
    };
    let waiting = stream_turn(fleet, moment, name).waiting;
    Ok(failed(stream).chain(waiting).map(explained).collect())
}
