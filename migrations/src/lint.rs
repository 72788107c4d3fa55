//! What a migration may say in which phase. One rule of thought per file:
//! expand only adds, contract and undo only remove or tighten, migrate only fills.
//!
//! Works on words, not on a grammar: what is not on a list of known forms is refused, so a new or
//! misspelt statement closes instead of passing. Never talks to a database.

mod additive;
mod removing;
mod shape;
mod strict;

use crate::database::Dialect;
use crate::finding::{Finding, Place, Rule};
use crate::unit::{Migration, Phase, Statement, Step, Token, split_top};
use std::collections::{BTreeSet, HashSet};

/// Every finding of one migration, on both engines.
pub(crate) fn lint(migration: &Migration) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dialect in Dialect::ALL {
        let created = additive::created_tables(migration, dialect);
        for phase in Phase::ALL {
            for (index, step) in migration.steps(phase, dialect).iter().enumerate() {
                let place = Place { phase, step: index, dialect };
                for (rule, found, allowed) in step_findings(&created, place, step) {
                    findings.push(Finding::of_step(migration.file(), place, rule, found, allowed));
                }
            }
        }
        findings.extend(shape::findings(migration, dialect));
    }
    findings
}

/// Findings that forbid to begin a migration, and not to finish one: files that ran under an earlier program, which
/// did not have these rules, must stay as they ran.
pub(crate) fn to_begin(migration: &Migration, dialect: Dialect) -> Vec<Finding> {
    let mut findings = strict::findings(migration, dialect);
    for phase in [Phase::Expand, Phase::Contract] {
        for (index, step) in migration.steps(phase, dialect).iter().enumerate() {
            let place = Place { phase, step: index, dialect };
            let of = |(rule, found, allowed): Broken| {
                Finding::of_step(migration.file(), place, rule, found, allowed)
            };
            findings.extend(additive::computed_default(step).map(of));
        }
    }
    findings
}

/// Whether a step does something or nothing by what is there already.
pub(crate) fn asks_what_is_there(step: &Step) -> bool {
    !strict::conditional(step).is_empty()
}

/// A step that both engines share is reported once.
pub(crate) fn once(findings: Vec<Finding>) -> Vec<Finding> {
    let first: Vec<bool> = {
        let mut seen = HashSet::new();
        findings.iter().map(|finding| seen.insert(finding.but_engine())).collect()
    };
    findings.into_iter().zip(first).filter_map(|(finding, first)| first.then_some(finding)).collect()
}

/// A broken rule, what was found, what is allowed.
type Broken = (Rule, String, String);

fn step_findings(created: &BTreeSet<String>, place: Place, step: &Step) -> Vec<Broken> {
    match (place.phase, step) {
        (Phase::Expand, Step::Sql(statements)) => {
            statements.iter().filter_map(|s| additive::broken(created, s)).collect()
        }
        (Phase::Contract | Phase::Undo, Step::Sql(statements)) => {
            statements.iter().filter_map(|s| removing::broken(place, s)).collect()
        }
        (Phase::Migrate, Step::Sql(statements)) => {
            let found = statements.first().map_or_else(String::new, Statement::first_line);
            vec![(Rule::MigrateFills, found, "backfill, index and not_null steps in migrate".into())]
        }
        (Phase::Expand, Step::AddColumn(column)) => additive::column(column).into_iter().collect(),
        (Phase::Expand, Step::Sync(_) | Step::Index(_))
        | (Phase::Migrate, Step::Backfill(_) | Step::Index(_) | Step::NotNull(_))
        | (Phase::Contract, Step::DropColumn(_) | Step::DropSync(_) | Step::Index(_) | Step::NotNull(_))
        | (Phase::Undo, Step::DropColumn(_) | Step::DropSync(_)) => Vec::new(),
        (phase, step) => {
            let (rule, allowed) = match phase {
                Phase::Expand => (Rule::ExpandAdds, "sql that adds, add_column, sync and index in expand"),
                Phase::Migrate => (Rule::MigrateFills, "backfill, index and not_null in migrate"),
                Phase::Contract => (
                    Rule::ContractRemoves,
                    "sql that removes or tightens, drop_column, drop_sync, index and not_null in contract",
                ),
                Phase::Undo => (Rule::UndoRemoves, "sql that removes, drop_column and drop_sync in undo"),
            };
            vec![(rule, step.summary(), allowed.into())]
        }
    }
}

/// Whether the statement begins with these words.
fn begins(tokens: &[Token], words: &[&str]) -> bool {
    tokens.len() >= words.len() && words.iter().zip(tokens).all(|(word, token)| token.is(word))
}

/// Changes of rows by hand, which no phase allows: they lock as many rows as there are.
fn changes_rows(tokens: &[Token]) -> bool {
    ["UPDATE", "DELETE", "MERGE", "TRUNCATE", "REPLACE"].iter().any(|w| begins(tokens, &[w]))
        || (begins(tokens, &["WITH"])
            && tokens.iter().any(|t| t.is("UPDATE") || t.is("DELETE") || t.is("INSERT")))
}

/// The actions of `ALTER TABLE [IF EXISTS] [ONLY] name a, b, c`, and nothing for another statement.
fn alter_actions(tokens: &[Token]) -> Option<Vec<&[Token]>> {
    if !begins(tokens, &["ALTER", "TABLE"]) {
        return None;
    }
    let mut at = 2;
    while tokens.get(at).is_some_and(|t| ["IF", "EXISTS", "ONLY"].iter().any(|w| t.is(w))) {
        at += 1;
    }
    tokens.get(at)?.name()?;
    at += 1;
    if tokens.get(at) == Some(&Token::Mark('.')) {
        at += 2;
    }
    Some(split_top(tokens.get(at..)?))
}
