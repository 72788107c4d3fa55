//! Record the verdict of a gate job.

use super::{Asker, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::gate::GateVerdict;
use tidegate_proto::{Digest, GateHop, Key, Revision};

/// Records a verdict; the last word stands. `report` is the sha256 of the gate's report, and `asker.why` is kept as its
/// note.
pub fn gate_verdict(
    fleet: &Fleet,
    moment: &Moment,
    hop: &GateHop,
    verdict: Verdict,
    report: Option<Digest>,
    asker: &Asker,
) -> Commit {
    let key = Key::GateVerdict(Box::new(hop.clone()));
    let known = fleet.gate_verdict(&key);
    let GateHop { service, tag, from, to } = hop;
    let said = |verdict: Verdict| {
        format!("gate {tag} of {service} from {} to {}: {verdict}", from.version, to.version)
    };
    let before = known.map(|(verdict, _)| said(verdict)).unwrap_or_default();
    let body =
        GateVerdict { verdict, report, note: asker.why.clone(), who: asker.who.clone(), at: moment.wall };
    // One that cannot be read is replaced.
    let unread = || fleet.unreadable().find(|(unread, ..)| **unread == key).map(|(.., at)| at);
    let at = known.map(|(_, at)| at).or_else(unread).unwrap_or(Revision::ABSENT);
    with_event(moment, Subject::Fleet, asker, &before, &said(verdict))
        .when(Precondition::At(key.clone(), at))
        .put(key, body)
}
