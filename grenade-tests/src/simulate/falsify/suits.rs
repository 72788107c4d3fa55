//! Which scenarios have what a falsification is about.

use super::kind::{FalseAction, Falsification};
use super::scenarios::is_rolled_back;
use crate::simulate::scenario::Scenario;
use crate::trace::falsify::About;

impl Falsification {
    /// Whether a scenario has what it is about.
    pub(super) fn suits(self, scenario: &Scenario) -> bool {
        match self {
            Self::History(record) => match record.about() {
                About::Completed => scenario.services[0].schema.is_some(),
                About::Required => scenario.upgrades.iter().any(|upgrade| !upgrade.requires_gate.is_empty()),
                About::RolledBack => is_rolled_back(scenario),
                About::Anything => true,
            },
            Self::Action(deed) => deed.suits(scenario),
        }
    }
}

impl FalseAction {
    fn suits(self, scenario: &Scenario) -> bool {
        let (schema, hooks) = (scenario.services[0].schema.is_some(), scenario.services[0].hooks);
        let back = is_rolled_back(scenario);
        match self {
            Self::TableIsLeft | Self::NewProgramAfterRollback => back,
            // What is done in the first roll would make that rollback another one.
            _ if back => false,
            Self::DeposedWrites
            | Self::PausedJobGoesOn
            | Self::UnknownTermIsOverwritten
            | Self::OldProgramAtContract
            | Self::OldSessionAtContract
            | Self::RowIsLost
            | Self::RowIsFilledWrongly
            | Self::ColumnIsGone
            | Self::DatabaseWasOlder => schema,
            Self::FormerDocumentIsShown => scenario.metadata.is_some(),
            Self::OldProgramAtRemove | Self::OldProgramAtTheEnd => !schema,
            Self::SecondHook => hooks,
            _ => true,
        }
    }
}
