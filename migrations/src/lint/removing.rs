//! Contract only removes or tightens; undo only removes, and can be repeated.

use super::{Broken, alter_actions, begins, changes_rows};
use crate::database::Dialect;
use crate::finding::{Place, Rule};
use crate::unit::{Phase, Statement, Token};

const DROPPABLE: [&str; 8] = ["TABLE", "INDEX", "VIEW", "TRIGGER", "FUNCTION", "SEQUENCE", "TYPE", "SCHEMA"];

/// What breaks the rule in one statement of contract or undo.
pub(super) fn broken(place: Place, statement: &Statement) -> Option<Broken> {
    let tokens = statement.tokens();
    let found = statement.first_line();
    let rule = if place.phase == Phase::Undo { Rule::UndoRemoves } else { Rule::ContractRemoves };
    if changes_rows(tokens) {
        let allowed = "a backfill step in migrate, which changes rows in batches";
        return Some((Rule::WholeTable, found, allowed.into()));
    }
    if tokens.iter().any(|t| t.is("CASCADE")) {
        let allowed = "each thing that goes by its name, without CASCADE";
        return Some((rule, found, allowed.into()));
    }
    if place.phase == Phase::Undo && !tokens.windows(2).any(|w| w[0].is("IF") && w[1].is("EXISTS")) {
        let allowed = "drop … if exists, or drop_column: an undo also follows an expand that was cut off";
        return Some((rule, found, allowed.into()));
    }
    let allowed = match place.phase {
        Phase::Undo => "drop …, alter table drop column or constraint",
        _ => {
            "drop …, revoke, alter table drop column, constraint or default, validate constraint, add constraint … \
             not valid"
        }
    };
    let fine = match alter_actions(tokens) {
        Some(actions) => actions.into_iter().all(|action| action_fine(place, action)),
        None => drops(tokens) || (place.phase == Phase::Contract && begins(tokens, &["REVOKE"])),
    };
    (!fine).then(|| (rule, found, allowed.into()))
}

fn drops(tokens: &[Token]) -> bool {
    begins(tokens, &["DROP"]) && tokens.get(1).is_some_and(|t| DROPPABLE.iter().any(|w| t.is(w)))
}

fn action_fine(place: Place, action: &[Token]) -> bool {
    if begins(action, &["DROP"]) {
        return true;
    }
    if place.phase == Phase::Undo || place.dialect == Dialect::Sqlite {
        return false;
    }
    let late = action.windows(2).any(|w| w[0].is("NOT") && w[1].is("VALID"));
    let drops_default = action.windows(2).any(|w| w[0].is("DROP") && w[1].is("DEFAULT"));
    begins(action, &["VALIDATE", "CONSTRAINT"])
        || (begins(action, &["ADD", "CONSTRAINT"]) && late)
        || (begins(action, &["ALTER"]) && drops_default)
}
