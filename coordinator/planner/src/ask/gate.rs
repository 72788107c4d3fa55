//! Record the verdict of a gate job.

use super::verdict::{recorded, said};
use super::{Asker, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::gate::GateVerdict;
use tidegate_proto::{Digest, GateHop, Key};

/// Records a verdict. It counts from then on, and the record keeps those before it. `report` is the sha256 of the gate's
/// report, and `asker.why` is kept as its note.
pub fn gate_verdict(
    fleet: &Fleet,
    moment: &Moment,
    hop: &GateHop,
    verdict: Verdict,
    report: Option<Digest>,
    asker: &Asker,
) -> Commit {
    let key = Key::GateVerdict(Box::new(hop.clone()));
    let known = fleet.gate_record(&key);
    let GateHop { service, tag, from, to } = hop;
    let gate = format!("gate {tag} of {service} from {} to {}", from.version, to.version);
    let before = known.map(|known| said(&gate, known.verdict, "report", known.report));
    let (at, earlier) = recorded(fleet, moment, &key, known, (verdict, report), asker);
    let (note, who) = (asker.why.clone(), asker.who.clone());
    let body = GateVerdict { verdict, report, note, who, at: moment.wall, earlier };
    with_event(
        moment,
        Subject::Fleet,
        asker,
        &before.unwrap_or_default(),
        &said(&gate, verdict, "report", report),
    )
    .when(Precondition::At(key.clone(), at))
    .put(key, body)
}
