//! Sessions that are no service of ours and may stay although the schema is contracted, by name.

use std::collections::BTreeSet;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::spec::ApprovalPoint;

/// How an approval of contract begins to name a session: `session:walreceiver`.
pub const SESSION: &str = "session:";

/// The sessions that the spec allows, and those that the approval of contract accepts.
pub fn allowed_sessions(upgrade: &Upgrade) -> BTreeSet<String> {
    let asked = upgrade.spec.schema.iter().flat_map(|schema| schema.allow_sessions.iter().cloned());
    let approved = upgrade.approvals.get(&ApprovalPoint::Contract).map(|word| accepted(&word.accepts));
    asked.chain(approved.into_iter().flatten()).collect()
}

/// The sessions that are named by what an approval accepts.
pub fn accepted(accepts: &BTreeSet<String>) -> BTreeSet<String> {
    let names = accepts.iter().filter_map(|part| part.strip_prefix(SESSION));
    names.filter(|name| is_acceptable(name)).map(str::to_owned).collect()
}

/// Whether a person may accept sessions of this name: none without one, and none that is tagged as a service's
/// (`service/version/node`), which ends with its instance.
pub(super) fn is_acceptable(name: &str) -> bool {
    !name.is_empty() && name.split('/').count() != 3
}
