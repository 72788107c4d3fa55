//! What verdicts of gate jobs and of compatibility runs have in common: the one that is recorded last counts, and replaces
//! no other without keeping it.

use super::Asker;
use crate::fleet::{Fleet, Stored};
use crate::moment::Moment;
use tidegate_proto::record::evidence::{Earlier, Verdict};
use tidegate_proto::{Digest, Key, Revision};

/// The revision at which `key` must be when a verdict is recorded there, and the verdicts that are kept beside it.
pub(super) fn recorded<T: Clone + Into<Vec<Earlier>>>(
    fleet: &Fleet,
    moment: &Moment,
    key: &Key,
    known: Option<&Stored<T>>,
    (verdict, sha256): (Verdict, Option<Digest>),
    asker: &Asker,
) -> (Revision, Vec<Earlier>) {
    let (note, who) = (asker.why.clone(), asker.who.clone());
    let new = Earlier { verdict, sha256, note, who, at: moment.wall };
    let before = known.map(|known| known.record.body.clone().into()).unwrap_or_default();
    (fleet.replaced_at(key, known.map(|known| known.at)), new.after(before))
}

/// A verdict in the history of the fleet, with the digest of what it rests on.
pub(super) fn said(subject: &str, verdict: Verdict, of: &str, sha256: Option<Digest>) -> String {
    let sha256 = sha256.map(|sha256| format!(" ({of} sha256 {sha256})")).unwrap_or_default();
    format!("{subject}: {verdict}{sha256}")
}
