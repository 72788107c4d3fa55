//! What can be falsified: a record of the judged history, or a thing of the world.

use crate::trace::falsify::FalseRecord;
use serde::{Deserialize, Serialize};

/// What is made false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Falsification {
    /// A record of the history, when it is judged at the end.
    #[serde(rename = "told")]
    History(FalseRecord),
    /// The world, or what the judge saw of it.
    #[serde(rename = "done")]
    Action(FalseAction),
}

impl Falsification {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let records = FalseRecord::ALL.into_iter().map(Self::History);
        records.chain(FalseAction::ALL.into_iter().map(Self::Action)).collect()
    }

    /// The rule that it breaks.
    pub fn rule(self) -> u8 {
        match self {
            Self::History(record) => record.rule(),
            Self::Action(deed) => deed.rule(),
        }
    }

    pub(super) fn name(self) -> String {
        let name = match self {
            Self::History(record) => serde_json::to_value(record),
            Self::Action(deed) => serde_json::to_value(deed),
        };
        name.ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// One change of the world beside the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FalseAction {
    /// Of a leader that was deposed, a row appears in the engine's history.
    DeposedWrites,
    /// The schema job of an upgrade goes on while that is paused.
    PausedJobGoesOn,
    /// A leader claims a database that obeyed a term of another store.
    UnknownTermIsOverwritten,
    /// `explain` names no reason.
    ReasonsAreLost,
    /// A program of the former version says that it is the new one when contract begins, also to its database.
    OldProgramAtContract,
    /// A program of the former version says that it is the new one when the roll is left.
    OldProgramAtRemove,
    /// A row is lost.
    RowIsLost,
    /// A row is filled wrongly.
    RowIsFilledWrongly,
    /// A column disappears under a version in rotation.
    ColumnIsGone,
    /// A drain is ordered although the database was replaced by an older copy.
    DatabaseWasOlder,
    /// A version below the floor comes into rotation.
    OldProgramComesIn,
    /// A version gate opens over an instance that has been silent for a while.
    GateOverSilence,
    /// One instance too many is taken out by an order.
    OneOutTooMany,
    /// A process is started while another runs.
    SecondProcess,
    /// A hook is begun while another runs.
    SecondHook,
    /// An instance is stopped in rotation.
    StoppedInRotation,
    /// An instance is stopped while it works, before the drain's deadline.
    StoppedAtWork,
    /// An instance is drained until the deadline although what ran there ended a while ago.
    EndedIsNotDrained,
    /// An agent removes a person's disable-file.
    PersonsFileIsRemoved,
    /// A table is left after a rollback.
    TableIsLeft,
    /// An instance runs the new version after a rollback.
    NewProgramAfterRollback,
    /// A version gate opens over an unreadable report.
    GateOverABadRecord,
    /// The loop of a coordinator ends at an unreadable record.
    BadRecordEndsALoop,
    /// An instance that runs the former version says that it is the new one when the upgrade is completed.
    OldProgramAtTheEnd,
    /// An instance has been out of rotation for a while when the upgrade is completed.
    OutAtTheEnd,
    /// A node shows a former document of its metadata group.
    FormerDocumentIsShown,
    /// A program of the former version is connected to the database while a step of contract is committed.
    OldSessionAtContract,
    /// An agent takes back an instance after `healthy_deadline` that it was ordered to let in.
    LetInIsTakenBack,
    /// An agent takes back an instance that it has said to be verified.
    VerifiedIsTakenBack,
    /// Each reason names an agent, and none of them.
    ReasonsNameNone,
    /// The record of an upgrade grows.
    RecordGrows,
    /// The store refuses what an upgrade has to write.
    WriteIsRefused,
    /// The health URL of an instance that was verified has always flapped.
    FlappingIsVerified,
    /// An upgrade goes on over an instance that failed after it was verified.
    LateFailureIsNotCounted,
}

impl FalseAction {
    /// All of them.
    pub const ALL: [Self; 34] = [
        Self::DeposedWrites,
        Self::PausedJobGoesOn,
        Self::UnknownTermIsOverwritten,
        Self::ReasonsAreLost,
        Self::OldProgramAtContract,
        Self::OldProgramAtRemove,
        Self::RowIsLost,
        Self::RowIsFilledWrongly,
        Self::ColumnIsGone,
        Self::DatabaseWasOlder,
        Self::OldProgramComesIn,
        Self::GateOverSilence,
        Self::OneOutTooMany,
        Self::SecondProcess,
        Self::SecondHook,
        Self::StoppedInRotation,
        Self::StoppedAtWork,
        Self::EndedIsNotDrained,
        Self::PersonsFileIsRemoved,
        Self::TableIsLeft,
        Self::NewProgramAfterRollback,
        Self::GateOverABadRecord,
        Self::BadRecordEndsALoop,
        Self::OldProgramAtTheEnd,
        Self::OutAtTheEnd,
        Self::FormerDocumentIsShown,
        Self::OldSessionAtContract,
        Self::LetInIsTakenBack,
        Self::VerifiedIsTakenBack,
        Self::ReasonsNameNone,
        Self::RecordGrows,
        Self::WriteIsRefused,
        Self::FlappingIsVerified,
        Self::LateFailureIsNotCounted,
    ];

    /// The rule that it breaks.
    pub fn rule(self) -> u8 {
        match self {
            Self::DeposedWrites
            | Self::PausedJobGoesOn
            | Self::UnknownTermIsOverwritten
            | Self::ReasonsAreLost
            | Self::ReasonsNameNone
            | Self::FormerDocumentIsShown => 0,
            Self::OldProgramAtContract
            | Self::OldProgramAtRemove
            | Self::OldSessionAtContract
            | Self::RowIsLost
            | Self::RowIsFilledWrongly
            | Self::ColumnIsGone
            | Self::DatabaseWasOlder => 1,
            Self::OldProgramComesIn => 2,
            Self::GateOverSilence => 3,
            Self::OneOutTooMany | Self::LetInIsTakenBack | Self::VerifiedIsTakenBack => 4,
            Self::SecondProcess | Self::SecondHook => 5,
            Self::StoppedInRotation
            | Self::StoppedAtWork
            | Self::EndedIsNotDrained
            | Self::PersonsFileIsRemoved => 6,
            Self::TableIsLeft | Self::NewProgramAfterRollback => 10,
            Self::GateOverABadRecord
            | Self::BadRecordEndsALoop
            | Self::RecordGrows
            | Self::WriteIsRefused => 11,
            Self::OldProgramAtTheEnd
            | Self::OutAtTheEnd
            | Self::FlappingIsVerified
            | Self::LateFailureIsNotCounted => 12,
        }
    }
}
