//! What belongs together: a sync and its end, a column and its sync, a fill and its proof.

use super::begins;
use crate::database::Dialect;
use crate::finding::{Finding, Place, Rule};
use crate::unit::{Migration, Name, Phase, Statement, Step, Sync, Token};
use std::collections::{BTreeMap, BTreeSet};

/// Findings that concern more than one step.
pub(super) fn findings(migration: &Migration, dialect: Dialect) -> Vec<Finding> {
    let added = Added::of(migration.steps(Phase::Expand, dialect));
    let broken = expanded(migration, dialect, &added)
        .into_iter()
        .chain(undone(migration, dialect, &added))
        .chain(filled(migration, dialect, &added));
    let finding = |(phase, step, rule, found, allowed): Broken| {
        let place = Place { phase, step, dialect };
        Finding::of_step(migration.file(), place, rule, found, allowed)
    };
    broken.map(finding).collect()
}

/// A broken rule: phase, step, rule, what was found, what is allowed.
type Broken = (Phase, usize, Rule, String, &'static str);

fn expanded(migration: &Migration, dialect: Dialect, added: &Added<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut add = |step, found: String, allowed| {
        broken.push((Phase::Expand, step, Rule::Shape, found, allowed));
    };
    let expand = migration.steps(Phase::Expand, dialect);
    let ends = [Phase::Contract, Phase::Undo].map(|phase| (phase, ended(migration.steps(phase, dialect))));
    for (index, step) in expand.iter().enumerate() {
        if let Step::Sync(sync) = step {
            if sync.refresh.len() > Sync::MAX_REFRESH {
                let found = format!("{} refreshed from {} tables", step.summary(), sync.refresh.len());
                add(index, found, "at most 8 tables");
            }
            for (phase, ended) in &ends {
                if !ended.contains(&(&sync.table, &sync.new)) {
                    let found = format!("{} that {phase} does not end", step.summary());
                    add(index, found, "drop_sync in contract and in undo");
                }
            }
            if let Some(at) = added.columns.get(&(sync.table.as_str(), sync.new.as_str()))
                && added.runs[*at] != added.runs[index]
            {
                let found = format!("{} apart from its new column", step.summary());
                let allowed =
                    "both next to each other: writes that come between the two would be lost to the sync";
                add(index, found, allowed);
            }
        }
    }
    let reversible = (0..expand.len()).any(|step| !migration.is_irreversible(dialect, step));
    if reversible && migration.steps(Phase::Undo, dialect).is_empty() {
        let allowed = "undo steps that take expand back, or irreversible = true beside each step of expand";
        add(0, "an expand without undo".into(), allowed);
    }
    broken
}

fn undone(migration: &Migration, dialect: Dialect, added: &Added<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (index, step) in migration.steps(Phase::Undo, dialect).iter().enumerate() {
        let foreign = match step {
            Step::DropColumn(gone) => !added.has(gone.table.as_str(), gone.column.as_str()),
            Step::Sql(statements) => statements.iter().any(|s| added.is_foreign_drop(s)),
            _ => false,
        };
        if foreign {
            let allowed = "only what this migration's expand added";
            broken.push((Phase::Undo, index, Rule::UndoRemoves, step.summary(), allowed));
        }
    }
    broken
}

fn filled(migration: &Migration, dialect: Dialect, added: &Added<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut add = |step, rule, found: String, allowed| {
        broken.push((Phase::Migrate, step, rule, found, allowed));
    };
    for (index, step) in migration.steps(Phase::Migrate, dialect).iter().enumerate() {
        match step {
            Step::Backfill(_) if migration.verify(dialect).is_none() => {
                let found = format!("{} without verify", step.summary());
                add(index, Rule::Shape, found, "verify, a query that counts the rows still to do");
            }
            Step::Backfill(fill) if fill.set.is_empty() || fill.batch_ms == 0 || fill.batch_ms > 10_000 => {
                let found = format!(
                    "{} with {} columns and batch_ms {}",
                    step.summary(),
                    fill.set.len(),
                    fill.batch_ms
                );
                add(index, Rule::Form, found, "at least one column, batch_ms from 1 to 10000");
            }
            // SQLite checks before a row is written, triggers of a sync fill it afterwards.
            Step::NotNull(forbids)
                if dialect == Dialect::Sqlite
                    && added.synced.contains(&(forbids.table.as_str(), forbids.column.as_str())) =>
            {
                let found = format!("{} while its sync lives", step.summary());
                let allowed = "not_null in [sqlite.contract] after drop_sync";
                add(index, Rule::Shape, found, allowed);
            }
            _ => {}
        }
    }
    broken
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

    /// Whether a column is added, as far as its words show.
    fn has(&self, table: &str, column: &str) -> bool {
        self.columns.contains_key(&(table, column))
            || self.names.get(table).is_some_and(|names| names.contains(column))
    }

    fn is_foreign_drop(&self, statement: &Statement) -> bool {
        begins(statement.tokens(), &["DROP", "TABLE"]) && !self.tables.contains(&statement.table())
    }
}
