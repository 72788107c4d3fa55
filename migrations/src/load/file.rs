//! The form of a migration file, and its way into a [`Migration`].

use crate::database::Dialect;
use crate::finding::{Finding, Place, Rule};
use crate::unit::{
    AddColumn, Backfill, DropColumn, DropSync, Index, Migration, NotNull, Phase, Requires, Statement, Step,
    Sync,
};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub(super) struct File {
    /// Its name in the history of the database; each is there once.
    id: String,
    /// The service version that it leads to.
    version: u32,
    /// Whether the old version reads rows that migrate has changed.
    old_reads_migrated: bool,
    /// Adds what the new version needs; the old version goes on.
    expand: Option<Steps>,
    /// Fills and converts rows.
    migrate: Option<Migrate>,
    /// Removes what only the old version needs.
    contract: Option<Steps>,
    /// Undoes expand, for a rollback.
    undo: Option<Steps>,
    /// Phases that are otherwise on PostgreSQL.
    #[serde(default)]
    postgres: Override,
    /// Phases that are otherwise on SQLite.
    #[serde(default)]
    sqlite: Override,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
struct Steps {
    /// The steps, in order; each is one of the kinds below.
    steps: Vec<StepFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
struct Migrate {
    /// When it may run.
    requires: Requires,
    /// The steps, in order.
    steps: Vec<StepFile>,
    /// An expression that is true for each migrated row.
    verify: Option<Statement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
struct MigrateOverride {
    steps: Vec<StepFile>,
    verify: Option<Statement>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
struct Override {
    expand: Option<Steps>,
    migrate: Option<MigrateOverride>,
    contract: Option<Steps>,
    undo: Option<Steps>,
}

impl Override {
    fn take(&mut self, phase: Phase) -> Option<Vec<StepFile>> {
        match phase {
            Phase::Expand => self.expand.take().map(|p| p.steps),
            Phase::Migrate => self.migrate.take().map(|p| p.steps),
            Phase::Contract => self.contract.take().map(|p| p.steps),
            Phase::Undo => self.undo.take().map(|p| p.steps),
        }
    }
}

/// One step, as `{ KIND = … }`, in expand also with `irreversible = true` beside it.
#[derive(Clone)]
pub(super) struct StepFile {
    kind: StepKind,
    irreversible: bool,
}

#[derive(Clone)]
enum StepKind {
    Sql(String),
    File(String),
    AddColumn(AddColumn),
    DropColumn(DropColumn),
    Sync(Sync),
    DropSync(DropSync),
    Backfill(Backfill),
    Index(Index),
    NotNull(NotNull),
}

const STEP_FIELDS: [&str; 10] = [
    "sql",
    "file",
    "add_column",
    "drop_column",
    "sync",
    "drop_sync",
    "backfill",
    "index",
    "not_null",
    "irreversible",
];

impl<'de> Deserialize<'de> for StepFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StepVisitor)
    }
}

struct StepVisitor;

/// Read field by field, so that a flaw is found with its line.
impl<'de> Visitor<'de> for StepVisitor {
    type Value = StepFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one step, such as { sql = \"…\" }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StepFile, A::Error> {
        let (mut kind, mut irreversible) = (None, false);
        while let Some(field) = map.next_key::<String>()? {
            let found = match field.as_str() {
                "irreversible" => {
                    irreversible = map.next_value()?;
                    continue;
                }
                "sql" => StepKind::Sql(map.next_value()?),
                "file" => StepKind::File(map.next_value()?),
                "add_column" => StepKind::AddColumn(map.next_value()?),
                "drop_column" => StepKind::DropColumn(map.next_value()?),
                "sync" => StepKind::Sync(map.next_value()?),
                "drop_sync" => StepKind::DropSync(map.next_value()?),
                "backfill" => StepKind::Backfill(map.next_value()?),
                "index" => StepKind::Index(map.next_value()?),
                "not_null" => StepKind::NotNull(map.next_value()?),
                other => return Err(A::Error::unknown_field(other, &STEP_FIELDS)),
            };
            if kind.replace(found).is_some() {
                return Err(A::Error::custom(format!(
                    "a second kind of step, `{field}`: each step is of one kind"
                )));
            }
        }
        let kind = kind.ok_or_else(|| A::Error::custom("a step of no kind"))?;
        Ok(StepFile { kind, irreversible })
    }
}

impl File {
    /// Parses one file's text. A finding names line and column.
    pub(super) fn parse(path: &Path, text: &str) -> Result<File, Box<Finding>> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().and_then(|span| text.get(..span.start)).map(|before| {
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
                (1 + before.matches('\n').count(), 1 + column)
            });
            Box::new(Finding::of_file(
                path,
                at,
                Rule::Form,
                error.message().trim().replace('\n', "; "),
                "the fields of a migration: id, version, old_reads_migrated, expand, migrate, contract, undo, \
                 postgres, sqlite",
            ))
        })
    }

    /// Resolves files and overrides.
    pub(super) fn into_migration(mut self, path: &Path, findings: &mut Vec<Finding>) -> Migration {
        self.check_head(path, findings);
        let mut verify = BTreeMap::new();
        let mut plain: BTreeMap<Phase, Vec<StepFile>> = BTreeMap::new();
        let requires = self.migrate.as_ref().map_or(Requires::Expanded, |m| m.requires.clone());
        for (dialect, over) in [(Dialect::Postgres, &self.postgres), (Dialect::Sqlite, &self.sqlite)] {
            let own = over.migrate.as_ref().and_then(|m| m.verify.clone());
            if let Some(query) = own.or_else(|| self.migrate.as_ref().and_then(|m| m.verify.clone())) {
                verify.insert(dialect.to_string(), query);
            }
        }
        for (phase, steps) in [
            (Phase::Expand, self.expand.take().map(|p| p.steps)),
            (Phase::Migrate, self.migrate.take().map(|p| p.steps)),
            (Phase::Contract, self.contract.take().map(|p| p.steps)),
            (Phase::Undo, self.undo.take().map(|p| p.steps)),
        ] {
            plain.insert(phase, steps.unwrap_or_default());
        }
        let mut steps = BTreeMap::new();
        let mut irreversible: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for phase in Phase::ALL {
            let mut by_dialect = BTreeMap::new();
            for (dialect, over) in
                [(Dialect::Postgres, &mut self.postgres), (Dialect::Sqlite, &mut self.sqlite)]
            {
                let own = over.take(phase).unwrap_or_else(|| plain[&phase].clone());
                let resolved = own.into_iter().enumerate().filter_map(|(index, step)| {
                    let place = Place { phase, step: index, dialect };
                    if step.irreversible && phase == Phase::Expand {
                        irreversible.entry(dialect.to_string()).or_default().insert(index);
                    } else if step.irreversible {
                        let found = format!("irreversible = true in {phase}");
                        let allowed =
                            "irreversible = true beside a step of expand, which a rollback leaves in place";
                        findings.push(Finding::of_step(path, place, Rule::Form, found, allowed));
                    }
                    resolve(path, place, step.kind).map_err(|finding| findings.push(*finding)).ok()
                });
                by_dialect.insert(dialect.to_string(), resolved.collect());
            }
            steps.insert(phase, by_dialect);
        }
        Migration {
            id: self.id,
            version: self.version,
            old_reads_migrated: self.old_reads_migrated,
            requires,
            file: path.to_owned(),
            steps,
            verify,
            irreversible,
        }
    }

    fn check_head(&self, path: &Path, findings: &mut Vec<Finding>) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if self.id != stem {
            let found = format!("id `{}`", self.id);
            findings.push(Finding::of_file(
                path,
                None,
                Rule::Form,
                found,
                format!("the file's own name, `{stem}`"),
            ));
        }
        // The range of a service version (the words of the design).
        if self.version == 0 || self.version > 2_147_483_647 {
            let found = format!("version {}", self.version);
            findings.push(Finding::of_file(path, None, Rule::Form, found, "1 to 2147483647"));
        }
        if let Some(Migrate { requires, .. }) = &self.migrate {
            check_requires(requires, path, findings);
        }
    }
}

/// The floors that migrate requires: at least one service, and versions that exist.
fn check_requires(requires: &Requires, path: &Path, findings: &mut Vec<Finding>) {
    let mut refuse = |found, allowed: &str| {
        findings.push(Finding::of_file(path, None, Rule::Form, found, allowed));
    };
    let versions = |floor: &u32| (1..=2_147_483_647).contains(floor);
    match requires {
        Requires::Expanded => {}
        Requires::Floor(floor) if versions(floor) => {}
        Requires::Floor(floor) => refuse(format!("floor {floor}"), "1 to 2147483647"),
        Requires::Services(named) if named.is_empty() => refuse(
            "requires = {}".to_owned(),
            "\"expanded\", { floor = 2 }, or the floor of each service by name, such as { conductor = 2 }",
        ),
        Requires::Services(named) if named.contains_key("floor") => refuse(
            "`floor` beside the names of services".to_owned(),
            "{ floor = 2 } alone, or the floor of each service by name",
        ),
        Requires::Services(named) => named
            .iter()
            .filter(|(_, floor)| !versions(floor))
            .for_each(|(service, floor)| refuse(format!("{service} = {floor}"), "1 to 2147483647")),
    }
}

fn resolve(path: &Path, place: Place, step: StepKind) -> Result<Step, Box<Finding>> {
    let refuse =
        |rule, found: String, allowed: &str| Box::new(Finding::of_step(path, place, rule, found, allowed));
    let script = |text: &str| {
        let statements =
            Statement::script(text).map_err(|why| refuse(Rule::Form, why, "whole statements"))?;
        if statements.is_empty() {
            return Err(refuse(Rule::Form, "no statement".into(), "at least one statement"));
        }
        Ok(Step::Sql(statements))
    };
    Ok(match step {
        StepKind::Sql(text) => script(&text)?,
        StepKind::File(name) => {
            let text = beside(path, &name).map_err(|found| {
                refuse(
                    Rule::Path,
                    found,
                    "a file in the migration's own directory or below, at most 1 MiB of UTF-8",
                )
            })?;
            script(&text)?
        }
        StepKind::AddColumn(s) => Step::AddColumn(s),
        StepKind::DropColumn(s) => Step::DropColumn(s),
        StepKind::Sync(s) => Step::Sync(s),
        StepKind::DropSync(s) => Step::DropSync(s),
        StepKind::Backfill(s) => Step::Backfill(s),
        StepKind::Index(s) => Step::Index(s),
        StepKind::NotNull(s) => Step::NotNull(s),
    })
}

/// The text of a file beside the migration; it may not lie elsewhere, also not through a link.
fn beside(migration: &Path, name: &str) -> Result<String, String> {
    let plain = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
    if name.is_empty() || !plain {
        return Err(format!("the path `{name}` leads out of the directory"));
    }
    let directory = migration.parent().unwrap_or(Path::new("."));
    let unreadable = |e: std::io::Error| format!("`{name}` cannot be read: {e}");
    let home = directory.canonicalize().map_err(unreadable)?;
    let real = directory.join(name).canonicalize().map_err(unreadable)?;
    if !real.starts_with(&home) {
        return Err(format!("the path `{name}` leads out of the directory through a link"));
    }
    super::read_bounded(&real).map_err(unreadable)
}
