//! The database of an upgrade: it may lose what was done on it, get rows late, or be away.

use super::{World, binding, release, upgrade_id};
use tidegate_planner::plan::{DatabaseEvidence, certify};
use tidegate_planner::{ContractBegun, LaterContract, LookedFor, Reason, SchemaFacts, SchemaJob};
use tidegate_proto::record::upgrade::{MigrateOrder, PhaseName, Upgrade};

/// What the database itself holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Database {
    pub expanded: bool,
    pub filled: bool,
    /// Another upgrade has expanded it, so that no undo in the name of this one takes that back.
    pub by_another: bool,
    pub contracted: bool,
    /// An upgrade from 2 to 3 has contracted it since.
    pub contracted_later: bool,
    /// A migration at or below `from` that it does not show, in words.
    pub unfinished: Option<String>,
    /// Rows that old programs wrote, and that are not filled.
    pub late_rows: u64,
    /// It does not answer.
    pub away: bool,
    /// Why it cannot list its sessions, where it cannot.
    pub sessions_unknown: Option<String>,
}

impl Database {
    /// Rows are counted only where the next decision is made on them.
    fn facts(&self, upgrade: &Upgrade) -> SchemaFacts {
        let counts =
            matches!(upgrade.phase.name(), PhaseName::Migrate | PhaseName::Remove | PhaseName::Contract);
        SchemaFacts {
            looked_for: Some(LookedFor::of(upgrade)),
            expanded: self.expanded,
            filled: self.filled,
            migrated: counts && self.filled && self.late_rows == 0,
            migrate_begun: self.filled,
            contracted: self.contracted,
            contract_begun: if self.contracted { ContractBegun::Own } else { ContractBegun::No },
            later: self.contracted_later.then(later).into_iter().collect(),
            unfinished: self.unfinished.clone(),
            clean: !self.expanded || self.by_another,
            sessions_unknown: self.sessions_unknown.clone(),
            ..SchemaFacts::default()
        }
    }
}

/// The contract of an upgrade from 2 to 3.
pub(crate) fn later() -> LaterContract {
    let version = Some(release(3).version);
    LaterContract { migration: "0003_it".into(), version, by: Some("u2".parse().unwrap()) }
}

impl World {
    /// The database does what is ordered, at once; the schema worker reports what it then shows.
    pub(crate) fn work(&mut self, job: SchemaJob) {
        self.jobs.push(job);
        if self.database.away {
            let trouble = Some("connection refused".to_owned());
            self.facts = Some(SchemaFacts { trouble, ..SchemaFacts::default() });
            return;
        }
        let database = &mut self.database;
        match job {
            SchemaJob::Bind | SchemaJob::Look => {}
            SchemaJob::Expand => database.expanded = true,
            SchemaJob::Migrate => (database.filled, database.late_rows) = (true, 0),
            // Its own guard: with rows left it does nothing.
            SchemaJob::Contract { .. } => database.contracted = database.late_rows == 0,
            SchemaJob::Undo => {
                let (sessions_unknown, unfinished) =
                    (database.sessions_unknown.take(), database.unfinished.take());
                *database = Database { sessions_unknown, unfinished, ..Database::default() };
            }
        }
        self.look();
        if let (SchemaJob::Undo, Some(facts)) = (job, &mut self.facts) {
            facts.left = self.leaves_in_place.clone();
        }
        let found = (job == SchemaJob::Bind).then(|| binding(MigrateOrder::BeforeRoll));
        if let (Some(facts), Some(found)) = (&mut self.facts, found) {
            facts.found = Some(found);
        }
    }

    fn look(&mut self) {
        if let Some(upgrade) = self.upgrade() {
            let seen = self.database.facts(upgrade);
            self.facts = Some(SchemaFacts { looked_ms: self.leading_ms, ..seen });
        }
    }

    /// Whether a certificate was made and stored; the reasons why not are kept.
    pub(crate) fn certify(&mut self) -> Result<(), Vec<Reason>> {
        let pending_rows = self.evidence.pending_rows + self.database.late_rows;
        let evidence = DatabaseEvidence { pending_rows, ..self.evidence.clone() };
        self.look();
        let made = certify(self.store.fleet(), &self.moment(), &upgrade_id(), evidence)?;
        for commit in &made.commits {
            assert!(self.store.commit(commit), "nothing was written between the read and the commit");
            self.events += 1;
        }
        self.certificate = Some(made.certificate);
        Ok(())
    }
}
