//! What belongs together: a sync and its end, a column and its sync, a fill and its proof.

use super::begins;
use crate::database::Dialect;
use crate::finding::{Finding, Place, Rule};
use crate::unit::{Migration, Name, Phase, Statement, Step, Sync, Token};
use std::collections::{BTreeMap, BTreeSet};

/// Findings that concern more than one step.
pub(super) fn findings(migration: &Migration, dialect: Dialect) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |phase, step, rule, found: String, allowed: &str| {
        let place = Place { phase, step, dialect };
        findings.push(Finding::of_step(migration.file(), place, rule, found, allowed));
    };
    let expand = migration.steps(Phase::Expand, dialect);
    let added = Added::of(expand);
    let ends = [Phase::Contract, Phase::Undo].map(|phase| (phase, ended(migration.steps(phase, dialect))));
    for (index, step) in expand.iter().enumerate() {
        if let Step::Sync(sync) = step {
            if sync.refresh.len() > Sync::MAX_REFRESH {
                let found = format!("{} refreshed from {} tables", step.summary(), sync.refresh.len());
                add(Phase::Expand, index, Rule::Shape, found, "at most 8 tables");
            }
            for (phase, ended) in &ends {
                if !ended.contains(&(&sync.table, &sync.new)) {
                    let found = format!("{} that {phase} does not end", step.summary());
                    add(Phase::Expand, index, Rule::Shape, found, "drop_sync in contract and in undo");
                }
            }
            if let Some(at) = added.columns.get(&(sync.table.as_str(), sync.new.as_str()))
                && added.runs[*at] != added.runs[index]
            {
                let found = format!("{} apart from its new column", step.summary());
                let allowed =
                    "both next to each other: writes that come between the two would be lost to the sync";
                add(Phase::Expand, index, Rule::Shape, found, allowed);
            }
        }
    }
    let reversible = (0..expand.len()).any(|step| !migration.is_irreversible(dialect, step));
    if reversible && migration.steps(Phase::Undo, dialect).is_empty() {
        let allowed = "undo steps that take expand back, or irreversible = true beside each step of expand";
        add(Phase::Expand, 0, Rule::Shape, "an expand without undo".into(), allowed);
    }
    for (index, step) in migration.steps(Phase::Undo, dialect).iter().enumerate() {
        let foreign = match step {
            Step::DropColumn(gone) => !added.has(gone.table.as_str(), gone.column.as_str()),
            Step::Sql(statements) => statements.iter().any(|s| added.is_foreign_drop(s)),
            _ => false,
        };
        if foreign {
            let allowed = "only what this migration's expand added";
            add(Phase::Undo, index, Rule::UndoRemoves, step.summary(), allowed);
        }
    }
    for (index, step) in migration.steps(Phase::Migrate, dialect).iter().enumerate() {
        match step {
            Step::Backfill(_) if migration.verify(dialect).is_none() => {
                let found = format!("{} without verify", step.summary());
                add(
                    Phase::Migrate,
                    index,
                    Rule::Shape,
                    found,
                    "verify, a query that counts the rows still to do",
                );
            }
            Step::Backfill(fill) if fill.set.is_empty() || fill.batch_ms == 0 || fill.batch_ms > 10_000 => {
                let found = format!(
                    "{} with {} columns and batch_ms {}",
                    step.summary(),
                    fill.set.len(),
                    fill.batch_ms
                );
                add(
                    Phase::Migrate,
                    index,
                    Rule::Form,
                    found,
                    "at least one column, batch_ms from 1 to 10000",
                );
            }
            // SQLite checks before a row is written, triggers of a sync fill it afterwards.
            Step::NotNull(forbids)
                if dialect == Dialect::Sqlite
                    && added.synced.contains(&(forbids.table.as_str(), forbids.column.as_str())) =>
            {
                let found = format!("{} while its sync lives", step.summary());
                let allowed = "not_null in [sqlite.contract] after drop_sync";
                add(Phase::Migrate, index, Rule::Shape, found, allowed);
            }
            _ => {}
        }
    }
    findings
}

/// The syncs that these steps end, by table and new column.
fn ended(steps: &[Step]) -> BTreeSet<(&Name, &Name)> {
    let ends = steps.iter().filter_map(|step| match step {
        Step::DropSync(end) => Some((&end.table, &end.new)),
        _ => None,
    });
    ends.collect()
}

/// What expand adds, to be looked up: a file of 1 MiB may have some ten thousand steps in each phase.
struct Added<'a> {
    /// The first step that adds a column, by table and column.
    columns: BTreeMap<(&'a str, &'a str), usize>,
    /// The columns that syncs fill, by table and column.
    synced: BTreeSet<(&'a str, &'a str)>,
    /// A number for each step, the same for neighbours that touch the same one table.
    runs: Vec<usize>,
    /// The tables that are created.
    tables: BTreeSet<Option<String>>,
    /// By table, every name in the statements that change its form.
    names: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> Added<'a> {
    fn of(expand: &'a [Step]) -> Self {
        let (mut columns, mut synced) = (BTreeMap::new(), BTreeSet::new());
        let (mut tables, mut names) = (BTreeSet::new(), BTreeMap::<String, BTreeSet<String>>::new());
        let (mut runs, mut run, mut before) = (Vec::with_capacity(expand.len()), 0, None);
        for (index, step) in expand.iter().enumerate() {
            let table = step.table();
            if before.as_ref() != Some(&table) {
                run += 1;
            }
            runs.push(run);
            before = Some(table);
            match step {
                Step::AddColumn(add) => {
                    columns.entry((add.table.as_str(), add.column.as_str())).or_insert(index);
                }
                Step::Sync(sync) => {
                    synced.insert((sync.table.as_str(), sync.new.as_str()));
                }
                Step::Sql(statements) => {
                    for statement in statements {
                        let table = statement.table();
                        if let Some(table) = table.clone() {
                            let words = statement.tokens().iter().filter_map(Token::name);
                            names.entry(table).or_default().extend(words);
                        }
                        if begins(statement.tokens(), &["CREATE", "TABLE"]) {
                            tables.insert(table);
                        }
                    }
                }
                _ => {}
            }
        }
        Self { columns, synced, runs, tables, names }
    }

    /// Whether a column is added, as far as words tell.
    fn has(&self, table: &str, column: &str) -> bool {
        self.columns.contains_key(&(table, column))
            || self.names.get(table).is_some_and(|names| names.contains(column))
    }

    fn is_foreign_drop(&self, statement: &Statement) -> bool {
        begins(statement.tokens(), &["DROP", "TABLE"]) && !self.tables.contains(&statement.table())
    }
}
