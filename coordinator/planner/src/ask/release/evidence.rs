//! Record the verdict of a compatibility run.

use crate::ask::verdict::{recorded, said};
use crate::ask::{Asker, Refusal, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::evidence::{Evidence, Verdict};
use tidegate_proto::{Digest, Key, ReleaseTag};

/// Records a verdict on a pair of tags. It counts from then on, and the record keeps those before it. `log` is the sha256 of
/// the run's log, and `asker.why` is kept as its note.
pub fn evidence(
    fleet: &Fleet,
    moment: &Moment,
    compute: &ReleaseTag,
    storage: &ReleaseTag,
    verdict: Verdict,
    log: Option<Digest>,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    let known = fleet.evidence_record(compute, storage);
    let key = Key::Evidence(compute.clone(), storage.clone());
    let pair = format!("{compute} with {storage}");
    let from = known.map(|known| said(&pair, known.verdict, "log", known.log));
    let (at, earlier) = recorded(fleet, moment, &key, known, (verdict, log), asker);
    let (note, who) = (asker.why.clone(), asker.who.clone());
    let body = Evidence { verdict, note, log, who, at: moment.wall, earlier };
    let to = said(&pair, verdict, "log", log);
    Ok(with_event(moment, Subject::Fleet, asker, &from.unwrap_or_default(), &to)
        .when(Precondition::At(key.clone(), at))
        .put(key, body))
}
