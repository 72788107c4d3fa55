//! What a migration needs before it may begin, so that a rollback takes back what it made and nothing else, and no
//! validation or default stops readers and writers.

use super::{alter_actions, begins};
use crate::database::Dialect;
use crate::finding::{Finding, Place, Rule};
use crate::object::{self, Object};
use crate::unit::{Migration, Phase, Statement, Step, Token};

pub(super) fn findings(migration: &Migration, dialect: Dialect) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |phase, step, rule, found: String, allowed: &str| {
        let place = Place { phase, step, dialect };
        findings.push(Finding::of_step(migration.file(), place, rule, found, allowed));
    };
    for phase in [Phase::Expand, Phase::Contract] {
        for (index, step) in migration.steps(phase, dialect).iter().enumerate() {
            for (words, statement) in conditional(step) {
                let allowed = "the statement without it: a step runs once, and an object that is already there must be \
                               adopted (`tidegate schema adopt`), or an undo would remove what this step did not make";
                add(
                    phase,
                    index,
                    Rule::IfExists,
                    format!("{words} in `{}`", statement.first_line()),
                    allowed,
                );
            }
            if step.validates() && !only_validates(step) {
                let allowed = "a step that only validates: it reads the whole table, and beside another statement it does so \
                               under that one's lock, which stops readers and writers";
                let found =
                    format!("`{}`, which validates a constraint beside something else", step.summary());
                add(phase, index, Rule::SafeForm, found, allowed);
            }
        }
    }
    let undo = migration.steps(Phase::Undo, dialect);
    let removed: Vec<Object> = undo.iter().flat_map(object::removed).collect();
    let own = object::of_migration(migration, dialect);
    for (index, step) in migration.steps(Phase::Expand, dialect).iter().enumerate() {
        let irreversible = migration.is_irreversible(dialect, index);
        let allowed = "undo steps that remove it, or irreversible = true beside the step: a rollback leaves it in place";
        match object::made(step) {
            Some(made) if irreversible => {
                for object in made.iter().filter(|object| removed.iter().any(|gone| object.is(gone))) {
                    let found = format!("{object}, which is irreversible and which undo removes");
                    add(Phase::Expand, index, Rule::Undoable, found, "one of the two");
                }
            }
            _ if irreversible => {}
            None => add(
                Phase::Expand,
                index,
                Rule::Undoable,
                format!("`{}`, whose undo cannot be seen", step.summary()),
                allowed,
            ),
            Some(made) => {
                for object in made.iter().filter(|object| !removed.iter().any(|gone| object.goes_with(gone)))
                {
                    add(Phase::Expand, index, Rule::Undoable, format!("{object} without undo"), allowed);
                }
                for statement in lasting(step, &own) {
                    let found = format!("`{}` without undo", statement.first_line());
                    add(Phase::Expand, index, Rule::Undoable, found, allowed);
                }
            }
        }
    }
    for (index, step) in undo.iter().enumerate() {
        for gone in object::removed(step) {
            if !own.iter().any(|object| object.is(&gone)) {
                let found = format!("{gone}, which this migration does not make");
                add(
                    Phase::Undo,
                    index,
                    Rule::UndoRemoves,
                    found,
                    "only what this migration's expand or migrate makes",
                );
            }
        }
    }
    findings
}

/// Statements that act or not by what is there, with the words that say so.
pub(super) fn conditional(step: &Step) -> Vec<(&'static str, &Statement)> {
    let Step::Sql(statements) = step else { return Vec::new() };
    let says = |s: &Statement, words: &[&str]| {
        s.tokens().windows(words.len()).any(|at| words.iter().zip(at).all(|(word, token)| token.is(word)))
    };
    let words = |s: &Statement| match () {
        () if says(s, &["IF", "NOT", "EXISTS"]) => Some("IF NOT EXISTS"),
        () if says(s, &["IF", "EXISTS"]) => Some("IF EXISTS"),
        () => None,
    };
    statements.iter().filter_map(|s| Some((words(s)?, s))).collect()
}

/// Whether each of its statements validates constraints and does nothing else.
fn only_validates(step: &Step) -> bool {
    let Step::Sql(statements) = step else { return false };
    statements.iter().all(|statement| {
        alter_actions(statement.tokens())
            .is_some_and(|actions| actions.into_iter().all(|action| begins(action, &["VALIDATE"])))
    })
}

/// Grants and comments on what this migration does not make: they outlive its undo.
fn lasting<'a>(step: &'a Step, own: &[Object]) -> Vec<&'a Statement> {
    let Step::Sql(statements) = step else { return Vec::new() };
    let names: Vec<String> = own.iter().map(Object::name).collect();
    let on_own = |token: &Token| token.name().is_some_and(|name| names.contains(&name));
    let lasts = |s: &&Statement| {
        let first = s.tokens().first();
        first.is_some_and(|t| t.is("GRANT") || t.is("COMMENT")) && !s.tokens().iter().any(on_own)
    };
    statements.iter().filter(lasts).collect()
}
