//! A real database, and what programs of each version read and write in it.
//!
//! A row holds one value for good. Version `v` knows it under the name and in the form of its generation: each renaming
//! puts another sign behind it. So a version that reads the wrong column, or a row that was filled wrongly, is seen.

mod engine;
mod falsified;
mod filled;
mod form;
mod history;
mod postgres;
mod replaced;
mod rows;
mod sqlite;

#[cfg(test)]
mod tests;

pub(super) use history::TermOrigin;
pub(super) use postgres::server;

use super::scenario::SchemaPlan;
use engine::{Engine, Table, is_busy};
use form::{added, column, migration};
use history::History;
use postgres::PostgresDatabase;
use replaced::{Had, Kept};
use sqlite::SqliteFile;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a statement of the coordinators takes at most, in milliseconds: some 20 ms, so that each phase of a schema lasts
/// for long enough to be disturbed.
static SLOWEST_MS: AtomicU64 = AtomicU64::new(USUAL_MS);
const USUAL_MS: u64 = 40;

/// The same where databases are slow.
const SLOW_MS: u64 = 1_500;

/// How long one takes now.
pub(super) fn statement() -> Duration {
    Duration::from_millis(rand::random_range(1..=SLOWEST_MS.load(Ordering::SeqCst)))
}

/// Makes all databases slow, or as fast as usual.
pub(super) fn set_slow(slow: bool) {
    SLOWEST_MS.store(if slow { SLOW_MS } else { USUAL_MS }, Ordering::SeqCst);
}

/// Whether they are slow.
pub(super) fn is_slow() -> bool {
    SLOWEST_MS.load(Ordering::SeqCst) != USUAL_MS
}

/// One database with the programs' knowledge of it.
pub(super) struct Database {
    plan: SchemaPlan,
    engine: Box<dyn Engine>,
    /// What was written, by key.
    rows: BTreeMap<String, String>,
    /// The same, when the copy was made.
    kept: Option<BTreeMap<String, String>>,
    /// The one whose place a copy took.
    newest: Option<Kept>,
    /// Those that were replaced before and are kept, by their numbers.
    replaced: BTreeMap<usize, Kept>,
    next: u64,
    /// What the engine's history said when it was last looked at.
    history: History,
    /// An older copy took its place: programs are refused until that is corrected.
    pub older: bool,
    /// An upgrade was started on what is there, and no copy has taken its place since.
    in_use: bool,
    /// Migrations that were filled in the one whose place this one took, and are not filled in this one.
    unfilled: BTreeSet<String>,
    /// What those had whose place it took, while it is an older copy.
    had: Had,
    /// What it had when it took its place.
    had_at_first: Had,
    /// The steps in the engine's history, each with its state, when it took its place.
    steps_at_first: BTreeMap<String, Option<String>>,
    /// When another one took its place last, in milliseconds from the beginning.
    pub replaced_at: Option<u64>,
}

/// A program that the database refused, or that did not read what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong(pub String);

type Asked<T> = Result<T, Wrong>;

/// Pairs of a name and a text.
pub(super) type Texts = Vec<(String, Option<String>)>;

/// The rows of the engine's history.
const HISTORY: Table<'static> = (
    "(SELECT seq, term_revision || ' ' || state || coalesce(cursor, '') AS line FROM tidegate_history ORDER BY seq)",
    ("CAST(seq AS TEXT)", "line"),
);

impl Wrong {
    /// Whether another writer was at it: a program waits and tries again.
    pub(super) fn is_busy(&self) -> bool {
        is_busy(&self.0)
    }
}

impl Database {
    /// Makes it at `url`, in its first form, with its first rows; and in `directory` the migrations, which know the services
    /// that share it.
    ///
    /// # Errors
    /// What the file system or the database says.
    pub(super) async fn make(
        plan: &SchemaPlan,
        directory: &Path,
        (name, url): (&str, &str),
        shares: &[&str],
    ) -> anyhow::Result<Self> {
        let engine: Box<dyn Engine> = match url.strip_prefix("sqlite://") {
            Some(file) => Box::new(SqliteFile::at(directory.join(file))),
            None => Box::new(PostgresDatabase::create(url, directory)?),
        };
        let migrations = directory.join("migrations").join(name);
        std::fs::create_dir_all(&migrations)?;
        for (n, _) in plan.generations.iter().enumerate() {
            let id = format!("{:04}_change", n + 2);
            std::fs::write(migrations.join(format!("{id}.toml")), migration(plan, n, shares))?;
        }
        let mut made = Self {
            plan: plan.clone(),
            engine,
            rows: BTreeMap::new(),
            kept: None,
            newest: None,
            replaced: BTreeMap::new(),
            next: 0,
            history: History::default(),
            older: false,
            in_use: false,
            unfilled: BTreeSet::new(),
            had: Had::default(),
            had_at_first: Had::default(),
            steps_at_first: BTreeMap::new(),
            replaced_at: None,
        };
        let first = if plan.by_hand { 1 } else { u32::try_from(plan.contracted + 1)? };
        let mut columns = format!("id TEXT PRIMARY KEY, {} TEXT", column(plan, first));
        for n in added(plan, first) {
            let _ = write!(columns, ", b{n} TEXT");
        }
        made.run(&format!("CREATE TABLE items ({columns})")).await.map_err(|e| anyhow::anyhow!(e.0))?;
        made.first_rows(first).await.map_err(|e| anyhow::anyhow!(e.0))?;
        Ok(made)
    }

    async fn run(&mut self, sql: &str) -> Asked<()> {
        self.engine.run(sql).map_err(|why| Wrong(format!("{sql}: {why}")))
    }

    /// Pairs of a name and a text.
    async fn texts(&mut self, sql: &str, of: (&str, &str)) -> Asked<Texts> {
        let [found] = self.texts_of([(sql, of)]).await?;
        Ok(found)
    }

    /// The same of several tables at once.
    async fn texts_of<const N: usize>(&mut self, tables: [Table<'_>; N]) -> Asked<[Texts; N]> {
        let sql = self.engine.query(&tables);
        let wrong = |e: &dyn std::fmt::Display| Wrong(format!("{sql}: {e}"));
        let found = self.engine.text(&sql).map_err(|why| wrong(&why))?;
        let found: Vec<Texts> = serde_json::from_str(&found).map_err(|e| wrong(&e))?;
        found.try_into().map_err(|_| wrong(&"another number of tables was read"))
    }

    /// Looks at the history that coordinators keep in it: what was written since a higher term was obeyed, under a lower
    /// one, and which term took the place of one that the store does not know.
    pub(super) async fn written_wrongly(&mut self, origin: impl Fn(&str) -> TermOrigin) -> Option<String> {
        // Before the first claim there is none.
        let term = ("tidegate_schema", ("term_id", "CAST(term_revision AS TEXT)"));
        let [term, rows] = self.texts_of([term, HISTORY]).await.ok()?;
        let (id, number) = term.into_iter().next()?;
        let number = number?.parse().ok()?;
        let overwritten = self.history.claimed(&id, origin);
        self.history.follow(number, rows).or(overwritten)
    }

    /// Each row of the engine's history with its term, state and cursor; none where there is no history.
    pub(super) async fn written(&mut self) -> Option<Texts> {
        self.texts(HISTORY.0, HISTORY.1).await.ok()
    }

    /// How many steps of contract the engine's history has as done.
    pub(super) async fn contract_steps(&mut self) -> Option<u64> {
        let done = "(SELECT 'steps' AS name, CAST(count(*) AS TEXT) AS text FROM tidegate_history \
                    WHERE phase = 'contract' AND state = 'done' AND step >= 0)";
        let found = self.texts(done, ("name", "text")).await.ok()?;
        found.first()?.1.as_ref()?.parse().ok()
    }

    /// Once every row is filled: a program of `version` finds its own form of every row in every column that it knows, and
    /// no row that was not written.
    ///
    /// # Errors
    /// What the database says, or what is there that must not be, or the other way round.
    pub(super) async fn is_filled(&mut self, version: u32) -> Asked<()> {
        self.read_all(version, false).await?;
        let rows = self.texts("items", ("id", "id")).await?;
        if let Some((id, _)) = rows.iter().find(|(id, _)| !self.rows.contains_key(id)) {
            return Err(Wrong(format!("row {id} was written by no program")));
        }
        for n in added(&self.plan, version) {
            let column = format!("b{n}");
            let found = self.texts("items", ("id", &column)).await?;
            if let Some((id, value)) = found.iter().find(|(_, value)| value.as_deref() != Some("b")) {
                return Err(Wrong(format!("version {version} finds {value:?} in {column} of {id}")));
            }
        }
        Ok(())
    }

    /// The form of everything in it but the engine's own history.
    ///
    /// # Errors
    /// What the database says.
    pub(super) async fn form(&mut self) -> Asked<Vec<String>> {
        let (objects, columns) = (self.engine.objects(), self.engine.columns());
        let [objects, columns] =
            self.texts_of([(objects, ("name", "definition")), (columns, ("name", "type"))]).await?;
        let mut form = Vec::new();
        for (name, definition) in objects {
            // A table that was rebuilt is written otherwise; its columns follow.
            if name != "items" {
                form.push(format!("{name}: {}", definition.unwrap_or_default()));
            }
        }
        for (name, kind) in columns {
            form.push(format!("items.{name} {}", kind.unwrap_or_default()));
        }
        Ok(form)
    }

    /// Whether the columns are there that a version uses.
    ///
    /// # Errors
    /// What the database says.
    pub(super) async fn has_form(&mut self, version: u32) -> Asked<bool> {
        let form = self.form().await?;
        Ok(self.used(version).iter().all(|column| form.contains(column)))
    }

    /// The columns that a version uses, as they are in the form.
    fn used(&self, version: u32) -> Vec<String> {
        let added = added(&self.plan, version).into_iter().map(|n| format!("b{n}"));
        let names = added.chain([column(&self.plan, version)]);
        names.map(|name| format!("items.{name} TEXT")).collect()
    }

    /// Puts it where no process reaches it, or back.
    ///
    /// # Errors
    /// What the system or the server says.
    pub(super) fn set_away(&mut self, away: bool) -> std::io::Result<()> {
        self.engine.set_away(away)
    }

    /// These programs have a session each with it, by its name, and no others do.
    pub(super) fn set_programs(&mut self, names: &BTreeSet<String>) {
        if !self.is_away() {
            self.engine.set_programs(names);
        }
    }

    /// Ends sessions that have been idle in a transaction for too long, where a server does.
    pub(super) fn end_idle(&mut self, now: u64) {
        self.engine.end_idle(now);
    }

    /// The name of the judge's own session, where the engine lists sessions.
    pub(super) fn judge(&self) -> Option<&'static str> {
        self.engine.judge()
    }

    /// Whether it cannot be reached.
    pub(super) fn is_away(&self) -> bool {
        self.engine.is_away()
    }
}
