//! Each falsification of a history, the rule that it breaks, and what a history must hold for it.

use serde::{Deserialize, Serialize};

use super::About;

/// What is changed in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FalseRecord {
    /// The leader's key is gone while there are orders.
    LeaderIsLost,
    /// A directive has the term of a leader that was deposed.
    DirectiveOfADeposedTerm,
    /// An event is written a second time.
    EventIsWrittenAgain,
    /// A paused upgrade begins to roll.
    PauseIsIgnored,
    /// The roll begins without the approval that was asked for.
    ApprovalIsMissing,
    /// The verdict that the spec requires was never recorded.
    VerdictIsMissing,
    /// The floor is not raised at the end of the roll.
    FloorIsLost,
    /// The certificate of contract is not stored.
    CertificateIsLost,
    /// The stored certificate names other witnesses than the one that contract was entered with.
    WitnessesAreFalse,
    /// An instance has not acknowledged the floor when contract begins.
    FloorIsNotAcknowledged,
    /// A report names an older directive than the one before it.
    AgentForgets,
    /// The former version is admitted after the end.
    OldNodeIsAdmitted,
    /// The window is removed.
    WindowIsRemoved,
    /// A report is back after its lease without an admission.
    ReportIsBackUnadmitted,
    /// A report goes although its lease is held.
    ReportGoesBeforeItsLease,
    /// An instance disappears from the inventory.
    InventoryIsForgotten,
    /// Two instances are taken out at once.
    TwoAreDrained,
    /// Two instances of different failure domains are taken out, where one domain is asked for.
    TwoDomainsAreOut,
    /// Two instances that are unhealthy in rotation are taken out at once.
    UnhealthyAreDrained,
    /// An instance is taken out beside the budget.
    BudgetIsLost,
    /// An upgrade goes back to an earlier phase.
    UpgradeGoesBack,
    /// An upgrade goes on without the lock of its service.
    LockIsLost,
    /// An upgrade goes on without the lock of its schema.
    SchemaLockIsLost,
    /// An upgrade is completed while an instance does not serve.
    OneDoesNotServe,
    /// The window is not put back at the end of a rollback.
    WindowIsNotRestored,
    /// An upgrade is rolled back while an instance does not serve.
    OneIsNotBack,
    /// Two releases of a stream are deployed.
    TwoAreDeployed,
    /// No release of a stream is deployed any more.
    NoneIsDeployed,
    /// A revision of a stream is given twice.
    RevisionIsGivenTwice,
    /// A release is removed from the history of its stream.
    ReleaseIsRemoved,
    /// A release is deployed over storage that is too old for it.
    ReleaseMeetsOldStorage,
    /// What a deployed release needs is not written down.
    NeedIsNotWritten,
    /// A floor is lowered below what a deployed release needs.
    FloorFallsBelowANeed,
    /// Entering the roll lowers a floor that a reconciliation had raised.
    ReconciledFloorIsLowered,
    /// Migrate begins below a floor that the migrations require.
    MigrateFloorIsMissing,
    /// A manifest is another one than that of its digest.
    ManifestIsChanged,
    /// A tag belongs to another version than before.
    TagIsMoved,
    /// An instance is put in another wave after the roll began.
    WaveIsChanged,
    /// A task ends once more, in another way.
    TaskEndsTwice,
    /// A token that was revoked is good again.
    RevokedTokenIsGood,
    /// A verdict is recorded, and no event names by whom.
    PersonIsNotNamed,
    /// The settings of a release stream change, and no event names by whom.
    SettingsChangeUnnamed,
    /// A batch of a metadata group is left out.
    BatchIsLeftOut,
    /// The document of a metadata group is removed.
    DocumentIsLost,
    /// What a contracted schema requires is forgotten.
    RequiredVersionIsForgotten,
    /// An instance is skipped, and the upgrade's record does not change.
    InstanceIsSkippedAlone,
    /// After an upgrade, a window admits a version that a contracted schema excludes.
    WindowAdmitsTheExcluded,
    /// The second wave begins although no instance of the first one serves.
    WavePassesUnverified,
}

impl FalseRecord {
    /// All of them.
    pub const ALL: [Self; 48] = [
        Self::LeaderIsLost,
        Self::DirectiveOfADeposedTerm,
        Self::EventIsWrittenAgain,
        Self::PauseIsIgnored,
        Self::ApprovalIsMissing,
        Self::VerdictIsMissing,
        Self::FloorIsLost,
        Self::CertificateIsLost,
        Self::WitnessesAreFalse,
        Self::FloorIsNotAcknowledged,
        Self::AgentForgets,
        Self::OldNodeIsAdmitted,
        Self::WindowIsRemoved,
        Self::ReportIsBackUnadmitted,
        Self::ReportGoesBeforeItsLease,
        Self::InventoryIsForgotten,
        Self::TwoAreDrained,
        Self::TwoDomainsAreOut,
        Self::UnhealthyAreDrained,
        Self::BudgetIsLost,
        Self::UpgradeGoesBack,
        Self::LockIsLost,
        Self::SchemaLockIsLost,
        Self::OneDoesNotServe,
        Self::WindowIsNotRestored,
        Self::OneIsNotBack,
        Self::TwoAreDeployed,
        Self::NoneIsDeployed,
        Self::RevisionIsGivenTwice,
        Self::ReleaseIsRemoved,
        Self::ReleaseMeetsOldStorage,
        Self::NeedIsNotWritten,
        Self::FloorFallsBelowANeed,
        Self::ReconciledFloorIsLowered,
        Self::MigrateFloorIsMissing,
        Self::ManifestIsChanged,
        Self::TagIsMoved,
        Self::WaveIsChanged,
        Self::TaskEndsTwice,
        Self::RevokedTokenIsGood,
        Self::PersonIsNotNamed,
        Self::SettingsChangeUnnamed,
        Self::BatchIsLeftOut,
        Self::DocumentIsLost,
        Self::RequiredVersionIsForgotten,
        Self::InstanceIsSkippedAlone,
        Self::WindowAdmitsTheExcluded,
        Self::WavePassesUnverified,
    ];

    /// The rule of `docs/rules.md` that it breaks.
    pub fn rule(self) -> u8 {
        match self {
            Self::LeaderIsLost
            | Self::DirectiveOfADeposedTerm
            | Self::EventIsWrittenAgain
            | Self::PauseIsIgnored
            | Self::ApprovalIsMissing
            | Self::VerdictIsMissing
            | Self::ReportGoesBeforeItsLease
            | Self::WaveIsChanged
            | Self::TaskEndsTwice
            | Self::RevokedTokenIsGood
            | Self::PersonIsNotNamed
            | Self::SettingsChangeUnnamed
            | Self::BatchIsLeftOut
            | Self::DocumentIsLost
            | Self::InstanceIsSkippedAlone => 0,
            Self::FloorIsLost
            | Self::CertificateIsLost
            | Self::WitnessesAreFalse
            | Self::FloorIsNotAcknowledged
            | Self::AgentForgets
            | Self::MigrateFloorIsMissing
            | Self::RequiredVersionIsForgotten
            | Self::WindowAdmitsTheExcluded => 1,
            Self::OldNodeIsAdmitted | Self::WindowIsRemoved | Self::ReconciledFloorIsLowered => 2,
            Self::ReportIsBackUnadmitted | Self::InventoryIsForgotten => 3,
            Self::TwoAreDrained | Self::TwoDomainsAreOut | Self::UnhealthyAreDrained | Self::BudgetIsLost => {
                4
            }
            Self::TwoAreDeployed
            | Self::NoneIsDeployed
            | Self::RevisionIsGivenTwice
            | Self::ReleaseIsRemoved
            | Self::ManifestIsChanged
            | Self::TagIsMoved => 7,
            Self::ReleaseMeetsOldStorage | Self::NeedIsNotWritten | Self::FloorFallsBelowANeed => 8,
            Self::UpgradeGoesBack | Self::LockIsLost | Self::SchemaLockIsLost => 9,
            Self::WindowIsNotRestored | Self::OneIsNotBack => 10,
            Self::OneDoesNotServe | Self::WavePassesUnverified => 12,
        }
    }

    /// What a history must contain for it.
    pub fn about(self) -> About {
        match self {
            Self::WindowIsNotRestored | Self::OneIsNotBack => About::RolledBack,
            Self::VerdictIsMissing | Self::PersonIsNotNamed => About::Required,
            Self::TaskEndsTwice
            | Self::RevokedTokenIsGood
            | Self::SettingsChangeUnnamed
            | Self::BatchIsLeftOut
            | Self::DocumentIsLost
            | Self::InstanceIsSkippedAlone => About::Anything,
            _ if matches!(self.rule(), 7 | 8) => About::Anything,
            _ => About::Completed,
        }
    }
}
