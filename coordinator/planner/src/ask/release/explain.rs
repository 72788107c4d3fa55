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
    let mut all: BTreeMap<ReleaseRevision, Vec<Reason>> = failed(stream).collect();
    // What runs less than a release needs is said of one that failed, too.
    for (revision, reasons) in stream_turn(fleet, moment, name).waiting {
        all.entry(revision).or_default().extend(reasons);
    }
    Ok(all.into_iter().map(explained).collect())
}
