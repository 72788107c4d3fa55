//! What came after a set's own migrations: a contract that the history shows of a migration which the set does not have.

use crate::history::{Entry, PHASE};
use crate::unit::{MigrationSet, Phase};

/// A contract that has begun to remove something, of a migration that comes after a set's own ones. What only they need may
/// be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterContract {
    /// The migration's id.
    pub migration: String,
    /// The first service version that knows it; none where the directory of the set does not have its file.
    pub version: Option<u32>,
    /// The upgrade or person that began the contract; none where that was not recorded.
    pub owner: Option<String>,
}

/// All of them, in the order in which they began. One without a file counts if it began after the set's own migrations: an
/// earlier file may have been removed once its contract was over.
pub(super) fn contracts(entries: &[Entry], set: &MigrationSet) -> Vec<LaterContract> {
    let own = entries.iter().position(|e| set.own().any(|m| m.id == e.migration));
    let mut found: Vec<LaterContract> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let removes = entry.phase == Phase::Contract && entry.step != PHASE;
        let is_known = set.get(&entry.migration).is_some();
        if !removes || is_known || found.iter().any(|known| known.migration == entry.migration) {
            continue;
        }
        let version = set.later(&entry.migration);
        if version.is_some() || own.is_some_and(|own| own < at) {
            found.push(LaterContract {
                migration: entry.migration.clone(),
                version,
                owner: entry.owner.clone(),
            });
        }
    }
    found
}
