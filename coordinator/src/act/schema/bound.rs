//! The database and the migrations that a spec names, found and read: what every job begins with.

use super::sessions::{Endpoint, endpoints};
use crate::context::Context;
use crate::telemetry::Chain;
use std::path::{Component, Path, PathBuf};
use tidegate_migrations::held::held;
use tidegate_migrations::{
    DatabaseUrl, Engine, MigrationSet, MigrationStatus, Owner, PhaseState, RowCount, SchemaId, Sessions, Term,
};
use tidegate_planner::{ContractBegun, LaterContract, SchemaFacts};
use tidegate_proto::name::NotAName;
use tidegate_proto::record::upgrade::SchemaBinding;
use tidegate_proto::spec::{DatabaseSource, Spec, SpecSchema};
use tidegate_proto::{Digest, Revision, ServiceVersion, TermId, UpgradeId};

/// The term of a database that no coordinator has led yet, and a person worked on.
pub(crate) const BY_HAND: &str = "by-hand";

/// The most things left in place that are recorded.
const MOST_LEFT: usize = 50;

/// Why a schema cannot be worked on from here; it waits, and is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Unbound {
    /// This coordinator was started without migrations.
    #[error(
        "this coordinator was started without --migrations, and the spec's migrations lie below that directory"
    )]
    NoMigrations,
    /// The path leaves the directory.
    #[error(
        "schema.migrations {0:?} is no directory below --migrations: a relative path without .. is allowed"
    )]
    Outside(String),
    /// The variable is not there.
    #[error(
        "the environment variable {0}, which the spec names for the database's URL, is not set on this coordinator"
    )]
    NoUrl(String),
    /// What it holds is no URL.
    #[error("the environment variable {variable}")]
    Url {
        variable: String,
        #[source]
        source: tidegate_migrations::InvalidUrl,
    },
    /// The migrations cannot be used.
    #[error("the migrations cannot be used")]
    Load(#[source] tidegate_migrations::LoadError),
    /// There is nothing for this version.
    #[error(
        "no migration below schema.migrations {directory:?} is of version {version}, the one that the spec upgrades to"
    )]
    Nothing { directory: String, version: ServiceVersion },
    /// The database cannot be opened.
    #[error("could not open the database that the environment variable {variable} names")]
    Away {
        /// Which; never the URL, which holds a password.
        variable: String,
        #[source]
        source: tidegate_migrations::Error,
    },
    /// The id that the database keeps is no name.
    #[error("the id that the database keeps for its schema cannot be used")]
    Id(#[source] NotAName),
    /// It obeyed a term that the store does not know, or for which it gives no higher number.
    #[error(
        "the database that the environment variable {variable} names obeyed term {term} (number {number}), and this store does not know that term, or gives no higher number: the store is blank or was restored from a backup, or the URL names a database that another store leads. Nothing was changed. Correct the URL; or, where this store is the one to obey, run `tidegate fleet reconcile` and start the upgrade again"
    )]
    Stranger {
        /// Where its URL is.
        variable: String,
        term: TermId,
        /// The number that it keeps for the term.
        number: Revision,
    },
    /// It keeps a number that no store can have given: no term counts on from it.
    #[error(
        "the database that the environment variable {variable} names keeps number {number} for term {term}, which no store before this one can have given, so no term can be counted on from it. Nothing was changed. Correct the URL or restore the database; or, where no other store leads it, set term_revision in its table tidegate_schema to 0"
    )]
    Number {
        /// Where its URL is.
        variable: String,
        term: TermId,
        number: Revision,
    },
    /// A migration requires the floor of something that is no service.
    #[error("a service that `requires` of a migration names")]
    Required(#[source] NotAName),
    /// A migration requires a floor that is no version.
    #[error("a floor that `requires` of a migration names")]
    Floor(#[source] tidegate_proto::version::NotAVersion),
    /// The term that a database would keep cannot be counted.
    #[error(
        "the reconciliation record names revision {0} of a former store, which no store can have given, so the term cannot be counted on from it: `tidegate fleet reconcile` corrects that"
    )]
    Term(Revision),
    /// The database did not do what was asked.
    #[error(transparent)]
    Database(#[from] tidegate_migrations::Error),
}

/// A schema that can be worked on.
pub(super) struct Bound {
    /// The engine on its database.
    pub engine: Engine,
    /// What the spec's version knows: the upgrade's own migrations, above `from`, and the baseline below them.
    pub set: MigrationSet,
    /// The digest of all of them.
    pub digest: Digest,
    /// The variable that holds the database's URL: its name as an endpoint.
    pub variable: String,
    /// The further endpoints whose sessions count.
    pub endpoints: Vec<Endpoint>,
}

impl Bound {
    /// Finds database and migrations, and sees that the database answers.
    /// Its own migrations are those that the upgrade's record lists. A record that was written before they were
    /// listed, by a program that did not record owners either, has those above `from`, and whatever a leader did of
    /// them without an owner is this upgrade's.
    pub(super) async fn open(
        context: &Context,
        upgrade: &UpgradeId,
        spec: &Spec,
        schema: &SpecSchema,
        binding: Option<&SchemaBinding>,
    ) -> Result<Self, Unbound> {
        let (url, set, digest) = found(context, spec, schema).await?;
        let set = set.owned_by(Owner::upgrade(upgrade.as_str()));
        let DatabaseSource::FromEnv(variable) = &schema.database;
        let away = |source| Unbound::Away { variable: variable.clone(), source };
        let engine = Engine::connect(&url).await.map_err(away)?;
        let (variable, endpoints) = (variable.clone(), endpoints(schema)?);
        let bound = Self { engine, set, digest, variable, endpoints };
        Ok(match binding {
            Some(binding) => bound.of_schema(upgrade, binding),
            None => bound,
        })
    }

    /// The same for what the upgrade's record says: its own migrations, and no other schema.
    pub(super) fn of_schema(self, upgrade: &UpgradeId, binding: &SchemaBinding) -> Self {
        let owner = Owner::upgrade(upgrade.as_str());
        let set = match binding.own.is_empty() {
            true => self.set.owned_by(owner.with_unrecorded()),
            false => self.set.with_own(|m| binding.own.contains(&m.id)).owned_by(owner),
        };
        Self { engine: self.engine.of_schema(SchemaId(binding.id.to_string())), set, ..self }
    }

    /// What forbids to begin, found in the database and in the files, each with the command that helps.
    pub(super) async fn obstacles(&self) -> Result<Vec<String>, Unbound> {
        Ok(self.engine.obstacles(&self.set).await?)
    }

    /// The same once the upgrade is started.
    pub(super) async fn obstacles_once_started(&self) -> Result<Vec<String>, Unbound> {
        Ok(self.engine.obstacles_once_started(&self.set).await?)
    }

    /// How far the database is, by its own history, and where asked by the number of rows that are left. Where these
    /// are not counted, it does not count as migrated.
    pub(super) async fn facts(&self, rows: RowCount) -> Result<SchemaFacts, Unbound> {
        Ok(self.facts_and_term(rows).await?.0)
    }

    /// The same with the term that the database obeyed last, that of another store too.
    pub(super) async fn facts_and_term(
        &self,
        rows: RowCount,
    ) -> Result<(SchemaFacts, Option<Term>), Unbound> {
        let (status, identity) = self.engine.state(&self.set, rows).await?;
        let obeyed = identity.term.as_ref().filter(|term| term.id != BY_HAND);
        let sessions_unknown = match self.engine.sessions().await? {
            Sessions::Listed(_) => None,
            Sessions::CannotTell { reason } => Some(reason),
        };
        let own = || status.migrations.iter().filter(|m| m.own);
        let removes = |m: &&MigrationStatus| m.contract != PhaseState::NotStarted && !m.contract_is_empty;
        let begun = || own().filter(removes);
        let contracted = status.migrations.iter().filter(removes).filter_map(|m| service_version(m.version));
        let later: Vec<_> = status.later.iter().map(later).collect();
        let all = |done: fn(&MigrationStatus) -> bool| own().all(done);
        let facts = SchemaFacts {
            expanded: all(MigrationStatus::is_expanded),
            filled: all(|m| m.filled),
            // Rows are not counted once an undo has begun, nor once contract has removed something.
            migrated: rows != RowCount::Uncounted
                && all(|m| {
                    m.is_expanded() && m.migrate == PhaseState::Done && m.pending_rows.unwrap_or(0) == 0
                }),
            migrate_begun: own().any(|m| m.migrate != PhaseState::NotStarted),
            contracted: all(|m| m.contract == PhaseState::Done),
            contract_begun: match (begun().any(|m| m.ours), begun().next().is_some()) {
                (true, _) => ContractBegun::Own,
                (false, true) => ContractBegun::OfOthers,
                (false, false) => ContractBegun::No,
            },
            contracted_by: begun().filter_map(|m| m.contracted_by.as_deref()?.parse().ok()).collect(),
            requires: contracted.chain(later.iter().filter_map(|contract| contract.version)).max(),
            later,
            unfinished: status.unfinished.clone(),
            clean: all(|m| !m.undoable),
            // A few name the kind; the history in the database names them all.
            left: own().flat_map(|m| m.left.clone()).take(MOST_LEFT).collect(),
            sessions_unknown,
            obeyed: obeyed.and_then(|term| Some((term.id.parse().ok()?, Revision(term.revision)))),
            ..SchemaFacts::default()
        };
        Ok((facts, identity.term))
    }
}

/// A later contract, as the planner knows it: a person has no id of an upgrade.
fn later(found: &tidegate_migrations::LaterContract) -> LaterContract {
    let version = found.version.and_then(service_version);
    let by = found.owner.as_deref().and_then(|owner| owner.parse().ok());
    LaterContract { migration: found.migration.clone(), version, by }
}

fn service_version(version: u32) -> Option<ServiceVersion> {
    ServiceVersion::new(i64::from(version)).ok()
}

/// What this coordinator itself must have: the migrations and the database's URL.
pub(super) async fn found(
    context: &Context,
    spec: &Spec,
    schema: &SpecSchema,
) -> Result<(DatabaseUrl, MigrationSet, Digest), Unbound> {
    let directory = below(context.migrations.as_deref(), &schema.migrations)?;
    let url = url(&schema.database)?;
    endpoints(schema)?;
    let loading = tokio::task::spawn_blocking(move || MigrationSet::load(&directory));
    let all = held(loading)
        .await
        .expect("reading files is not cancelled and does not panic")
        .map_err(Unbound::Load)?;
    let set = all.between(spec.from.get(), spec.to.get());
    if !set.own().any(|migration| migration.version == spec.to.get()) {
        return Err(Unbound::Nothing { directory: schema.migrations.clone(), version: spec.to });
    }
    let text = set.digest().to_string();
    let hex = text.strip_prefix("sha256:").unwrap_or(&text);
    let digest = hex.parse().expect("a digest of migrations is a sha256");
    Ok((url, set, digest))
}

/// A directory below the coordinator's own, however it is written.
fn below(root: Option<&Path>, asked: &str) -> Result<PathBuf, Unbound> {
    let root = root.ok_or(Unbound::NoMigrations)?;
    let outside = || Unbound::Outside(asked.to_owned());
    let plain =
        Path::new(asked).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain || asked.is_empty() {
        return Err(outside());
    }
    // A link may lead out of it, too.
    let (root, found) = (root.canonicalize(), root.join(asked).canonicalize());
    match (root, found) {
        (Ok(root), Ok(found)) if found.starts_with(&root) => Ok(found),
        _ => Err(outside()),
    }
}

pub(super) fn url(source: &DatabaseSource) -> Result<DatabaseUrl, Unbound> {
    let DatabaseSource::FromEnv(variable) = source;
    let text = std::env::var(variable).map_err(|_| Unbound::NoUrl(variable.clone()))?;
    text.parse().map_err(|source| Unbound::Url { variable: variable.clone(), source })
}

impl Unbound {
    /// Whether the database does not answer us: it is away, or does not take our name and password. What is wrong
    /// with the spec or with this coordinator does not pass by waiting.
    pub fn is_away(&self) -> bool {
        let (Self::Away { source, .. } | Self::Database(source)) = self else { return false };
        use tidegate_migrations::Error::{Authentication, Unreachable};
        matches!(source, Unreachable { .. } | Authentication { .. })
    }

    /// With all of its causes, for a reason that people read.
    pub fn in_words(&self) -> String {
        Chain(self).to_string()
    }
}
