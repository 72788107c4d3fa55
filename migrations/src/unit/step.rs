//! The kinds of steps, as values. Their work is in `step/`, `sync/` and `backfill/`.

use super::{Name, Statement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One step of a phase.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Statements as written, in one transaction.
    Sql(Vec<Statement>),
    /// A new column: nullable, or with a constant default.
    AddColumn(AddColumn),
    /// A column goes, if it is there.
    DropColumn(DropColumn),
    /// Two-way sync of an old and a new column by triggers.
    Sync(Sync),
    /// The end of a sync, if it is there.
    DropSync(DropSync),
    /// Rows that were there before, in batches.
    Backfill(Backfill),
    /// An index, without stopping writers.
    Index(Index),
    /// No more nulls in a column.
    NotNull(NotNull),
}

impl Step {
    /// In one line, for history, progress and messages.
    pub fn summary(&self) -> String {
        match self {
            Step::Sql(statements) => statements.first().map_or_else(String::new, Statement::first_line),
            Step::AddColumn(s) => format!("add column {}.{}", s.table.as_str(), s.column.as_str()),
            Step::DropColumn(s) => format!("drop column {}.{}", s.table.as_str(), s.column.as_str()),
            Step::Sync(s) => {
                format!("sync {}.{} with {}", s.table.as_str(), s.old.as_str(), s.new.as_str())
            }
            Step::DropSync(s) => format!("drop sync {}.{}", s.table.as_str(), s.new.as_str()),
            Step::Backfill(s) => format!("backfill {}", s.table.as_str()),
            Step::Index(s) => format!("index {} on {}", s.name.as_str(), s.table.as_str()),
            Step::NotNull(s) => format!("not null {}.{}", s.table.as_str(), s.column.as_str()),
        }
    }

    /// The one table it touches, if there is exactly one.
    pub(crate) fn table(&self) -> Option<String> {
        let table = match self {
            Step::Sql(statements) => {
                let mut tables: Vec<String> = statements.iter().filter_map(Statement::table).collect();
                tables.dedup();
                return if tables.len() == 1 { tables.pop() } else { None };
            }
            Step::AddColumn(s) => &s.table,
            Step::DropColumn(s) => &s.table,
            Step::Sync(s) => &s.table,
            Step::DropSync(s) => &s.table,
            Step::Backfill(s) => &s.table,
            Step::Index(s) => &s.table,
            Step::NotNull(s) => &s.table,
        };
        Some(table.as_str().to_owned())
    }
}

impl Step {
    /// Every table that it locks, as far as its words show.
    pub(crate) fn tables(&self) -> Vec<String> {
        match self {
            Step::Sql(statements) => statements.iter().filter_map(Statement::table).collect(),
            Step::Sync(sync) => {
                let refreshed = sync.refresh.iter().map(|refresh| &refresh.table);
                refreshed.chain([&sync.table]).map(|table| table.as_str().to_owned()).collect()
            }
            other => other.table().into_iter().collect(),
        }
    }

    /// Whether it validates a constraint, which reads the whole table.
    pub(crate) fn validates(&self) -> bool {
        let validates = |s: &Statement| {
            s.tokens().windows(2).any(|words| words[0].is("VALIDATE") && words[1].is("CONSTRAINT"))
        };
        matches!(self, Step::Sql(statements) if statements.iter().any(validates))
    }
}

/// `add_column = { table, column, type, default }`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct AddColumn {
    /// The table.
    pub table: Name,
    /// The new column.
    pub column: Name,
    /// Its type, in the engine's own words.
    #[serde(rename = "type")]
    pub kind: String,
    /// A constant; absent means nullable and null.
    #[serde(default)]
    pub default: Option<String>,
}

/// `drop_column = { table, column }`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct DropColumn {
    /// The table.
    pub table: Name,
    /// The column that goes.
    pub column: Name,
}

/// `sync = { table, old, new, up, down }`: what one version writes, the other reads.
///
/// `up` computes the new column and `down` the old one, each an expression over the row's columns
/// (subqueries may name the row by its table). Who changes `new` knows it, and wins. A change of
/// `old` alone is carried up only if `new` does not already say the same, so that a value that the
/// old version cannot express is not lost by a write that does not concern it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct Sync {
    /// The table.
    pub table: Name,
    /// The column of the old version.
    pub old: Name,
    /// The column of the new version.
    pub new: Name,
    /// The new column's value, from the row.
    pub up: Statement,
    /// The old column's value, from the row.
    pub down: Statement,
    /// Tables on which `up` depends as well.
    #[serde(default)]
    pub refresh: Vec<Refresh>,
}

impl Sync {
    /// How many other tables one sync may be refreshed from.
    pub(crate) const MAX_REFRESH: usize = 8;
}

/// `refresh = [{ table, key, of }]`: after an insert into `table`, the synced row whose column `of`
/// equals the inserted row's `key` has its new column computed again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct Refresh {
    /// The other table.
    pub table: Name,
    /// The other table's column that names the synced row.
    pub key: Name,
    /// The synced table's column that it names.
    pub of: Name,
}

/// `drop_sync = { table, new }`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct DropSync {
    /// The synced table.
    pub table: Name,
    /// The sync's new column.
    pub new: Name,
}

/// `backfill = { table, key, set = { column = "expression" }, where, batch_ms }`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct Backfill {
    /// The table.
    pub table: Name,
    /// A unique column without nulls, by whose order the rows are walked.
    pub key: Name,
    /// What each column becomes, over the row.
    pub set: BTreeMap<Name, Statement>,
    /// Which rows are still to do; false for a row that is done.
    #[serde(rename = "where")]
    pub pending: Statement,
    /// How long a batch should take, in milliseconds, and so how long a row stays locked.
    #[serde(default = "Backfill::default_batch_ms")]
    pub batch_ms: u32,
}

impl Backfill {
    /// 40 ms: about 8,000 narrow rows on PostgreSQL as measured; longer gains nothing, shorter
    /// begins to cost commits.
    fn default_batch_ms() -> u32 {
        40
    }
}

/// `index = { name, table, on, unique, where }`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct Index {
    /// The index's name.
    pub name: Name,
    /// The table.
    pub table: Name,
    /// Its columns, in order.
    pub on: Vec<Name>,
    /// Whether equal values are refused.
    #[serde(default)]
    pub unique: bool,
    /// Only rows for which this holds.
    #[serde(default, rename = "where")]
    pub only: Option<Statement>,
}

/// `not_null = { table, column }`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct NotNull {
    /// The table.
    pub table: Name,
    /// The column.
    pub column: Name,
}
