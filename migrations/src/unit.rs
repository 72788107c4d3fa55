//! Migrations as they are written: one TOML file each, parsed and linted at the border.
//!
//! Inside this crate nothing is malformed: names are [`Name`]s, SQL is split into [`Statement`]s, and
//! each phase has its steps for each engine. Never talks to a database.

mod digest;
mod name;
mod phase;
mod statement;
mod step;

pub use digest::Digest;
pub(crate) use name::quoted;
pub use name::{InvalidName, Name};
pub use phase::{Phase, Requires};
pub use statement::Statement;
pub(crate) use statement::{Token, qualified, split_top};
pub use step::{AddColumn, Backfill, DropColumn, DropSync, Index, NotNull, Refresh, Step, Sync};

use crate::database::Dialect;
use crate::mutant;
use crate::owner::Owner;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One migration: what each phase does, on each engine.
#[derive(Debug, Clone, Serialize)]
pub struct Migration {
    /// The file's name without its ending, such as `0002_image_visibility`.
    pub id: String,
    /// The first service version that knows the new shape.
    pub version: u32,
    /// Whether version N-1 can read migrated rows; if not, entering migrate is the point of no return.
    pub old_reads_migrated: bool,
    /// What migrate asks of the fleet.
    pub requires: Requires,
    #[serde(skip)]
    pub(crate) file: std::path::PathBuf,
    pub(crate) steps: BTreeMap<Phase, BTreeMap<String, Vec<Step>>>,
    pub(crate) verify: BTreeMap<String, Statement>,
    /// Steps of expand that no undo takes back, by engine. Absent from the digest where there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) irreversible: BTreeMap<String, BTreeSet<usize>>,
}

impl Migration {
    /// The steps of a phase, in order.
    pub fn steps(&self, phase: Phase, dialect: Dialect) -> &[Step] {
        self.steps.get(&phase).and_then(|by| by.get(&dialect.to_string())).map_or(&[], Vec::as_slice)
    }

    /// The query that counts the rows that migrate has still to do; none when it has nothing to fill.
    pub fn verify(&self, dialect: Dialect) -> Option<&Statement> {
        self.verify.get(&dialect.to_string())
    }

    /// Whether a step of expand, counted from 0, is left in place by an undo.
    pub fn is_irreversible(&self, dialect: Dialect, step: usize) -> bool {
        self.irreversible.get(&dialect.to_string()).is_some_and(|steps| steps.contains(&step))
    }

    /// The file it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// The migrations of a directory, in the order of their numbers. One file, `0002_size_class.toml`:
///
/// ```toml
/// id = "0002_size_class"
/// version = 2                  # the first service version that knows the new shape
/// old_reads_migrated = true    # false: entering migrate is the point of no return
/// [expand]
/// steps = [{ add_column = { table = "images", column = "class", type = "text" } }]
/// [migrate]
/// requires = { floor = 2 }     # or "expanded", or floors by service: { conductor = 2, scheduler = 2 }
/// steps = [{ backfill = { table = "images", key = "id", where = "class IS NULL", set = { class = "'small'" } } }]
/// verify = "SELECT count(*) FROM images WHERE class IS NULL"
/// [contract]
/// steps = [{ drop_column = { table = "images", column = "size" } }]
/// [undo]
/// steps = [{ drop_column = { table = "images", column = "class" } }]
/// ```
///
/// Further steps are `sql`, `file`, `sync`, `drop_sync`, `index` and `not_null`; `[sqlite.migrate]` and
/// its like replace a phase's steps on one engine. A step of expand needs an undo, or `irreversible = true` beside it:
/// then a rollback leaves in place what it made.
#[derive(Debug, Clone)]
pub struct MigrationSet {
    migrations: Vec<Migration>,
    /// The ids of those that the verbs run; the others are the baseline, which is only compared with the history.
    own: BTreeSet<String>,
    /// Those that only a later version knows, each with that version: they are recognized in a history, and never run.
    later: BTreeMap<String, u32>,
    owner: Owner,
}

impl MigrationSet {
    /// All that it knows, in the order in which they run.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Migration> {
        self.migrations.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.migrations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.migrations.is_empty()
    }

    /// Those that a service version of at most `version` knows: what an upgrade to it may run.
    #[must_use]
    pub fn up_to(&self, version: u32) -> MigrationSet {
        self.between(0, version)
    }

    /// Those that version `to` knows; the ones above `from` are its own: what an upgrade between the two runs.
    #[must_use]
    pub fn between(&self, from: u32, to: u32) -> MigrationSet {
        let (known, cut): (Vec<_>, Vec<_>) = self.migrations.iter().cloned().partition(|m| m.version <= to);
        let cut = cut.into_iter().map(|m| (m.id, m.version));
        let later = self.later.clone().into_iter().filter(|(_, version)| *version > to).chain(cut).collect();
        MigrationSet { later, owner: self.owner.clone(), ..MigrationSet::new(known) }
            .with_own(|m| m.version > from)
    }

    /// The same migrations, with other ones as its own.
    #[must_use]
    pub fn with_own(mut self, is_own: impl Fn(&Migration) -> bool) -> MigrationSet {
        self.own = self.migrations.iter().filter(|m| is_own(m)).map(|m| m.id.clone()).collect();
        self
    }

    /// The same migrations, run in the name of another owner than a person.
    #[must_use]
    pub fn owned_by(self, owner: Owner) -> MigrationSet {
        MigrationSet { owner, ..self }
    }

    /// In whose name they run.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Its own ones, in the order in which they run.
    pub fn own(&self) -> impl DoubleEndedIterator<Item = &Migration> {
        self.migrations.iter().filter(|m| self.own.contains(&m.id))
    }

    /// Those below its own ones: finished before it was started. It runs none of them, but for a contract that an older
    /// copy of the database lacks.
    pub fn baseline(&self) -> impl DoubleEndedIterator<Item = &Migration> {
        self.migrations.iter().filter(|m| !self.own.contains(&m.id))
    }

    /// Whether an old reader understands every row that its own ones migrate; if not, entering migrate is final.
    pub fn old_reads_migrated(&self) -> bool {
        let counts_all = mutant::is("finished-migrations-forbid-rollback");
        self.iter().filter(|m| counts_all || self.own.contains(&m.id)).all(|m| m.old_reads_migrated)
    }

    /// The digest of all contents, comments and spacing left out: equal for equal meaning.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.migrations)
    }

    pub(crate) fn new(migrations: Vec<Migration>) -> MigrationSet {
        let own = migrations.iter().map(|m| m.id.clone()).collect();
        MigrationSet { migrations, own, later: BTreeMap::new(), owner: Owner::by_hand() }
    }

    /// The first version that knows a migration, where none of the set's versions does.
    pub(crate) fn later(&self, id: &str) -> Option<u32> {
        self.later.get(id).copied()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Migration> {
        self.migrations.iter().find(|m| m.id == id)
    }
}
