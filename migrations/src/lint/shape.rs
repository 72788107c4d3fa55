//! What belongs together: a sync and its end, a column and its sync, a fill and its proof.

use super::{Finding, Place, Rule, begins};
use crate::database::Dialect;
use crate::unit::{Migration, Phase, Statement, Step, Sync};

/// Findings that concern more than one step.
pub(super) fn findings(migration: &Migration, dialect: Dialect) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |phase, step, rule, found: String, allowed: &str| {
        let place = Place { phase, step, dialect };
        findings.push(Finding::of_step(migration.file(), place, rule, found, allowed));
    };
    let expand = migration.steps(Phase::Expand, dialect);
    for (index, step) in expand.iter().enumerate() {
        if let Step::Sync(sync) = step {
            if sync.refresh.len() > Sync::MAX_REFRESH {
                let found = format!("{} refreshed from {} tables", step.summary(), sync.refresh.len());
                add(Phase::Expand, index, Rule::Shape, found, "at most 8 tables");
            }
            for phase in [Phase::Contract, Phase::Undo] {
                let ends =
                    |s: &Step| matches!(s, Step::DropSync(d) if d.table == sync.table && d.new == sync.new);
                if !migration.steps(phase, dialect).iter().any(ends) {
                    let found = format!("{} that {phase} does not end", step.summary());
                    add(Phase::Expand, index, Rule::Shape, found, "drop_sync in contract and in undo");
                }
            }
            let adds =
                |s: &Step| matches!(s, Step::AddColumn(c) if c.table == sync.table && c.column == sync.new);
            if let Some(at) = expand.iter().position(adds)
                && expand[at.min(index)..=at.max(index)].iter().any(|s| s.table() != step.table())
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
            Step::DropColumn(gone) => !adds_column(expand, gone.table.as_str(), gone.column.as_str()),
            Step::Sql(statements) => statements.iter().any(|s| drops_foreign_table(expand, s)),
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
            Step::NotNull(forbids) if dialect == Dialect::Sqlite => {
                let synced = |s: &Step| matches!(s, Step::Sync(y) if y.table == forbids.table && y.new == forbids.column);
                if expand.iter().any(synced) {
                    let found = format!("{} while its sync lives", step.summary());
                    let allowed = "not_null in [sqlite.contract] after drop_sync";
                    add(Phase::Migrate, index, Rule::Shape, found, allowed);
                }
            }
            _ => {}
        }
    }
    findings
}

fn drops_foreign_table(expand: &[Step], statement: &Statement) -> bool {
    let creates = |step: &Step| match step {
        Step::Sql(statements) => statements
            .iter()
            .any(|s| s.table() == statement.table() && begins(s.tokens(), &["CREATE", "TABLE"])),
        _ => false,
    };
    begins(statement.tokens(), &["DROP", "TABLE"]) && !expand.iter().any(creates)
}

fn adds_column(expand: &[Step], table: &str, column: &str) -> bool {
    expand.iter().any(|step| match step {
        Step::AddColumn(c) => c.table.as_str() == table && c.column.as_str() == column,
        Step::Sql(statements) => statements.iter().any(|s| {
            s.table().as_deref() == Some(table)
                && s.tokens().iter().any(|t| t.name().as_deref() == Some(column))
        }),
        _ => false,
    })
}
