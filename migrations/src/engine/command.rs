//! Commands of `tidegate schema` that texts advise, with every argument that they need but `--from-env`: the engine knows
//! a URL, and not the variable that holds it. DIR, TEXT and FILE are for the reader to fill in.

use super::order::Record;
use crate::owner;
use crate::unit::Phase;

/// Runs a phase of all migrations up to a version.
pub(super) fn up_to(phase: Phase, to: u32) -> String {
    let certificate = if phase == Phase::Contract { " --certificate FILE" } else { "" };
    format!("tidegate schema {phase} --to {to} --migrations DIR{certificate}")
}

/// Marks migrations up to a version as present.
pub(super) fn adopt_up_to(to: u32, option: &str) -> String {
    format!("tidegate schema adopt --to {to}{option} --migrations DIR --why TEXT")
}

/// Marks one migration as present.
pub(super) fn adopt(migration: &str) -> String {
    format!("tidegate schema adopt --migration {migration} --migrations DIR --why TEXT")
}

/// Ends an undo that has begun, in the name of its owner.
pub(super) fn end_undo(record: &Record<'_>, migration: &str) -> String {
    let of =
        |phase| record.entries().filter(move |e| e.phase == phase).filter_map(crate::history::owner_argument);
    // What a person undoes is by hand, or was not recorded.
    let made_by =
        of(Phase::Undo).next().or_else(|| of(Phase::Expand).find(|name| *name == owner::UNRECORDED));
    let made_by = made_by.map(|name| format!(" --made-by {name}")).unwrap_or_default();
    format!("tidegate schema undo --migration {migration}{made_by} --nothing-new-runs --migrations DIR")
}
