//! A real SQLite database, and what programs of each version read and write in it.
//!
//! A row holds one value for good. Version `v` knows it under the name and in the form of its generation: each renaming
//! puts another sign behind it. So a version that reads the wrong column, or a row that was filled wrongly, is seen.

mod falsified;
mod form;
mod history;
mod rows;

use super::scenario::SchemaPlan;
use form::{added, column, migration};
use history::History;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
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

/// One database with the programs' knowledge of it.
pub(super) struct Database {
    plan: SchemaPlan,
    path: PathBuf,
    connection: Option<SqliteConnection>,
    /// What was written, by key.
    rows: BTreeMap<String, String>,
    /// The same, when the copy was made.
    kept: Option<BTreeMap<String, String>>,
    /// The same, when a copy took its place.
    newest: Option<BTreeMap<String, String>>,
    /// Rows of the copy that the newest one replaced, where it is kept.
    replaced: Option<BTreeMap<String, String>>,
    next: u64,
    /// What the engine's history said when it was last looked at.
    history: History,
    /// An older copy took its place: programs are refused until that is corrected.
    pub older: bool,
    /// When another file took its place last, in milliseconds from the beginning.
    pub replaced_at: Option<u64>,
}

/// Waits for SQLite's thread, and lets no time go by.
async fn held<T>(work: impl Future<Output = T>) -> T {
    futures::executor::block_on(tokio::task::unconstrained(work))
}

/// A program that the database refused, or that did not read what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong(pub String);

type Asked<T> = Result<T, Wrong>;

/// Pairs of a name and a text.
type Texts = Vec<(String, Option<String>)>;

impl Wrong {
    /// Whether another writer was at it: a program waits and tries again.
    pub(super) fn is_busy(&self) -> bool {
        self.0.contains("database is locked") || self.0.contains("table is locked")
    }
}

impl Database {
    /// Makes it in `directory`, in its first form, with its first rows; and the migrations beside it, which know the services
    /// that share it.
    ///
    /// # Errors
    /// What the file system or SQLite says.
    pub(super) async fn make(
        plan: &SchemaPlan,
        directory: &Path,
        name: &str,
        shares: &[&str],
    ) -> anyhow::Result<Self> {
        let path = directory.join(format!("{name}.sqlite"));
        let migrations = directory.join("migrations").join(name);
        std::fs::create_dir_all(&migrations)?;
        for (n, _) in plan.generations.iter().enumerate() {
            let id = format!("{:04}_change", n + 2);
            std::fs::write(migrations.join(format!("{id}.toml")), migration(plan, n, shares))?;
        }
        let mut made = Self {
            plan: plan.clone(),
            path,
            connection: None,
            rows: BTreeMap::new(),
            kept: None,
            newest: None,
            replaced: None,
            next: 0,
            history: History::default(),
            older: false,
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

    async fn open(&mut self) -> Asked<&mut SqliteConnection> {
        if self.connection.is_none() {
            // No other task can end the wait of a thread that holds the runtime's.
            let options = SqliteConnectOptions::new()
                .filename(&self.path)
                .create_if_missing(true)
                .busy_timeout(Duration::ZERO)
                .journal_mode(SqliteJournalMode::Memory)
                .synchronous(SqliteSynchronous::Off);
            let opened = held(SqliteConnection::connect_with(&options)).await;
            self.connection = Some(opened.map_err(|e| Wrong(e.to_string()))?);
        }
        self.connection.as_mut().ok_or_else(|| Wrong("not open".to_owned()))
    }

    async fn run(&mut self, sql: &str) -> Asked<()> {
        let connection = self.open().await?;
        let done = held(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection)).await;
        done.map(drop).map_err(|e| Wrong(format!("{sql}: {e}")))
    }

    /// Pairs of a name and a text.
    async fn texts(&mut self, sql: &str, of: (&str, &str)) -> Asked<Texts> {
        let [found] = self.texts_of([(sql, of)]).await?;
        Ok(found)
    }

    /// The same of several tables at once. All come as one value: each row by itself would be handed from thread to thread.
    async fn texts_of<const N: usize>(&mut self, tables: [(&str, (&str, &str)); N]) -> Asked<[Texts; N]> {
        let connection = self.open().await?;
        let each = tables.map(|(sql, (name, text))| {
            format!("json((SELECT json_group_array(json_array({name}, {text})) FROM {sql}))")
        });
        let sql = format!("SELECT json_array({})", each.join(", "));
        let wrong = |e: &dyn std::fmt::Display| Wrong(format!("{sql}: {e}"));
        let row = held(sqlx::query(AssertSqlSafe(sql.clone())).fetch_one(connection)).await;
        let found = row.and_then(|row| row.try_get::<String, _>(0)).map_err(|e| wrong(&e))?;
        let found: Vec<Texts> = serde_json::from_str(&found).map_err(|e| wrong(&e))?;
        found.try_into().map_err(|_| wrong(&"another number of tables was read"))
    }

    /// Looks at the history that coordinators keep in it: what was written since a higher term was obeyed, under a lower
    /// one.
    pub(super) async fn written_by_the_deposed(&mut self) -> Option<String> {
        // Before the first claim there is none.
        let rows = "(SELECT seq, term_revision || ' ' || state || coalesce(cursor, '') AS row FROM tidegate_history)";
        let term = ("tidegate_schema", ("schema_id", "CAST(term_revision AS TEXT)"));
        let [term, rows] = self.texts_of([term, (rows, ("CAST(seq AS TEXT)", "row"))]).await.ok()?;
        let term = term.first()?.1.as_ref()?.parse().ok()?;
        self.history.follow(term, rows)
    }

    /// Whether a text says that an upgrade was started on the schema that it holds.
    pub(super) async fn is_named_in(&mut self, what: &str) -> bool {
        let started_on = what.rsplit("was started on ").next().unwrap_or_default();
        let id = self.texts("tidegate_schema", ("schema_id", "schema_id")).await;
        id.is_ok_and(|id| id.first().is_some_and(|(id, _)| started_on.contains(id.as_str())))
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
        let tables = "(SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'tidegate%' AND name NOT LIKE \
                      'sqlite_%' AND tbl_name NOT LIKE 'tidegate%' ORDER BY name)";
        let columns = "(SELECT name, type FROM pragma_table_info('items') ORDER BY name)";
        let mut form = Vec::new();
        let [tables, columns] =
            self.texts_of([(tables, ("name", "sql")), (columns, ("name", "type"))]).await?;
        for (name, sql) in tables {
            // A table that was rebuilt is written otherwise; its columns follow.
            if name != "items" {
                form.push(format!("{name}: {}", sql.unwrap_or_default()));
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
        let added = added(&self.plan, version).into_iter().map(|n| format!("b{n}"));
        let used: Vec<String> = added.chain([column(&self.plan, version)]).collect();
        let form = self.form().await?;
        Ok(used.iter().all(|column| form.contains(&format!("items.{column} TEXT"))))
    }

    /// Puts the file away, so that no process can open it, or back.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn set_away(&mut self, away: bool) -> std::io::Result<()> {
        let aside = self.path.with_extension("away");
        if away == aside.exists() {
            return Ok(());
        }
        self.connection = None;
        if away {
            std::fs::rename(&self.path, &aside)?;
            std::fs::create_dir(&self.path)
        } else {
            std::fs::remove_dir(&self.path)?;
            std::fs::rename(&aside, &self.path)
        }
    }

    /// Keeps a copy of it as it is.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn keep_copy(&mut self) -> std::io::Result<()> {
        if !self.is_away() {
            std::fs::copy(&self.path, self.path.with_extension("copy"))?;
            self.kept = Some(self.rows.clone());
        }
        Ok(())
    }

    /// Puts the copy in its place; whether there was one.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn put_copy_back(&mut self, now: u64) -> std::io::Result<bool> {
        let Some(rows) = self.kept.clone().filter(|_| !self.is_away()) else { return Ok(false) };
        self.connection = None;
        // Another file under the same name, as a restore makes it: a process that has the former one open keeps using it.
        if !self.older {
            std::fs::copy(&self.path, self.path.with_extension("newest"))?;
            self.newest = Some(self.rows.clone());
        }
        let fresh = self.path.with_extension("fresh");
        std::fs::copy(self.path.with_extension("copy"), &fresh)?;
        std::fs::rename(&fresh, &self.path)?;
        let _ = std::fs::remove_file(self.path.with_extension("sqlite-journal"));
        self.history = History::default();
        (self.rows, self.older, self.replaced_at) = (rows, true, Some(now));
        Ok(true)
    }

    /// Nothing looks any more for the file that the copy replaced.
    pub(super) fn stays_older(&mut self) {
        self.newest = None;
    }

    /// Puts the file back that the copy replaced, and keeps the copy. Where the copy went on meanwhile, it is the older
    /// one; whether there was one.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) async fn put_newest_back(&mut self, now: u64) -> std::io::Result<bool> {
        // While it is away, nothing is put in its place; the file is still there afterwards.
        if self.is_away() {
            return Ok(false);
        }
        let Some(rows) = self.newest.take().filter(|_| self.older) else { return Ok(false) };
        self.connection = None;
        std::fs::copy(&self.path, self.path.with_extension("replaced"))?;
        self.replaced = Some(self.rows.clone());
        self.take_place("newest", rows, now).await?;
        Ok(true)
    }

    /// Finds the file that an upgrade was started on: the one that the copy replaced, or else the copy, where the store was
    /// lost meanwhile and the upgrade was started again on the copy; whether there was one.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) async fn put_right_one_back(&mut self, now: u64) -> std::io::Result<bool> {
        if self.put_newest_back(now).await? {
            return Ok(true);
        }
        if self.is_away() {
            return Ok(false);
        }
        let Some(rows) = self.replaced.take() else { return Ok(false) };
        self.take_place("replaced", rows, now).await?;
        Ok(true)
    }

    async fn take_place(
        &mut self,
        kept: &str,
        rows: BTreeMap<String, String>,
        now: u64,
    ) -> std::io::Result<()> {
        let before = self.form().await.unwrap_or_default();
        self.connection = None;
        std::fs::rename(self.path.with_extension(kept), &self.path)?;
        self.history = History::default();
        (self.rows, self.replaced_at) = (rows, Some(now));
        let found = self.form().await.unwrap_or_default();
        self.older = before.iter().any(|what| !found.contains(what));
        Ok(())
    }

    /// Whether it can be opened.
    pub(super) fn is_away(&self) -> bool {
        self.path.is_dir()
    }
}
