//! Record the verdict of a compatibility run.

use crate::ask::{Asker, Refusal, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::evidence::{Evidence, Verdict};
use tidegate_proto::{Digest, Key, ReleaseTag, Revision};

/// Records a verdict on a pair of tags; the last word stands. `log` is the sha256 of the run's log, and `asker.why` is kept as
/// its note.
pub fn evidence(
    fleet: &Fleet,
    moment: &Moment,
    compute: &ReleaseTag,
    storage: &ReleaseTag,
    verdict: Verdict,
    log: Option<Digest>,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    let known = fleet.evidence(compute, storage);
    let key = Key::Evidence(compute.clone(), storage.clone());
    let body = Evidence { verdict, note: asker.why.clone(), log, who: asker.who.clone(), at: moment.wall };
    let from = known.map(|(verdict, _)| format!("{compute} with {storage}: {verdict}")).unwrap_or_default();
    let to = format!("{compute} with {storage}: {verdict}");
    Ok(with_event(moment, Subject::Fleet, asker, &from, &to)
        .when(Precondition::At(key.clone(), known.map_or(Revision::ABSENT, |(_, at)| at)))
        .put(key, body))
}
