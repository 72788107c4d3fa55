//! What the history allows: which phase may follow which, and whether what ran is what is written.

use super::command;
use super::later;
use super::left::stays;
use crate::database::Dialect;
use crate::error::Error;
use crate::history::{Entry, PHASE, State};
use crate::mutant;
use crate::owner::Owner;
use crate::unit::{Digest, Migration, MigrationSet, Phase};
use std::collections::BTreeSet;

/// A migration's rows in the history.
pub(super) struct Record<'a> {
    /// Those of all migrations.
    all: &'a [Entry],
    entries: Vec<&'a Entry>,
}

impl<'a> Record<'a> {
    pub(super) fn of(entries: &'a [Entry], migration: &str) -> Self {
        Record { all: entries, entries: entries.iter().filter(|e| e.migration == migration).collect() }
    }

    /// Whether something of it was done, or at least intended. Contract has begun only with its first step: until then
    /// nothing is lost, and a rollback is possible.
    pub(super) fn begun(&self, phase: Phase) -> bool {
        let counts = |e: &Entry| phase != Phase::Contract || e.step != PHASE || e.state == State::Done;
        self.entries.iter().any(|e| e.phase == phase && counts(e))
    }

    pub(super) fn done(&self, phase: Phase) -> bool {
        self.step(phase, PHASE).is_some_and(|e| e.state == State::Done)
    }

    /// Whether a step of contract has begun. A contract without steps removes nothing.
    fn removed(&self) -> bool {
        self.removal().is_some()
    }

    /// The first step of contract that has begun.
    pub(super) fn removal(&self) -> Option<&'a Entry> {
        self.entries().find(|e| e.phase == Phase::Contract && e.step != PHASE)
    }

    /// Whether a contract began to remove something once its rows were verified for contract, which the row of that phase
    /// shows. What its verify query names may be gone since.
    pub(super) fn was_verified(&self) -> bool {
        let Some(verified) = self.step(Phase::Contract, PHASE) else { return false };
        let mut since = self.all.iter().skip_while(|e| !e.same_place(verified));
        since.any(|e| e.phase == Phase::Contract && e.step != PHASE)
    }

    /// Whether no undo takes it back: its contract has removed something, or has ended without a step while that of another
    /// migration, of the same owner or a later one, has removed something (`beside`).
    pub(super) fn is_final(&self, beside: bool) -> bool {
        self.removed() || (beside && self.done(Phase::Contract))
    }

    /// Whether the versions that use it may run: it is expanded and filled, or contracted, and no undo has begun.
    pub(super) fn is_usable(&self) -> bool {
        let filled = self.done(Phase::Expand) && self.done(Phase::Migrate);
        (filled || self.done(Phase::Contract)) && !self.begun(Phase::Undo)
    }

    pub(super) fn step(&self, phase: Phase, step: i64) -> Option<&'a Entry> {
        self.entries.iter().find(|e| e.phase == phase && e.step == step).copied()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().copied()
    }

    /// Whether a row is this owner's.
    pub(super) fn is_of(&self, entry: &Entry, owner: &Owner) -> bool {
        let takes_any = mutant::is("undo-takes-what-is-not-ours") || mutant::is("undo-has-no-lower-bound");
        owner.owns(entry) || takes_any
    }

    /// Whether something of expand was begun that an undo can take back.
    pub(super) fn expanding(&self, migration: &Migration, dialect: Dialect) -> bool {
        self.entries().any(|e| e.phase == Phase::Expand && stays(migration, dialect, e).is_none())
    }

    /// Whether this owner has expanded something of it that an undo takes back.
    pub(super) fn expanded_by(&self, migration: &Migration, dialect: Dialect, owner: &Owner) -> bool {
        let takes = |e: &Entry| e.phase == Phase::Expand && stays(migration, dialect, e).is_none();
        self.entries().any(|e| takes(e) && self.is_of(e, owner))
    }

    /// The other owners of what is expanded of it.
    pub(super) fn others(&self, owner: &Owner) -> BTreeSet<String> {
        let theirs = |e: &&&Entry| e.phase == Phase::Expand && e.step != PHASE && !owner.owns(e);
        self.entries.iter().filter(theirs).map(|e| crate::history::owner_of(e)).collect()
    }

    /// Whether `phase` has something to do here; `beside` is what [`has_contracted`] says of the set.
    ///
    /// # Errors
    /// [`Error::Order`] where it may not run now.
    pub(super) fn wants(
        &self,
        migration: &Migration,
        phase: Phase,
        dialect: Dialect,
        owner: &Owner,
        beside: bool,
    ) -> Result<bool, Error> {
        let refuse = |found: &str, needs: &str| {
            let (found, needs) = (found.to_owned(), needs.to_owned());
            Err(Error::Order { migration: migration.id.clone(), phase, found, needs })
        };
        let undo: Vec<&Entry> = self.entries().filter(|e| e.phase == Phase::Undo).collect();
        if let Some(entry) = undo.first()
            && (phase != Phase::Undo || !undo.iter().any(|e| self.is_of(e, owner)))
        {
            let found = format!("its undo has begun ({}) and not ended", crate::history::owner_of(entry));
            return refuse(&found, &format!("run `{}` first", command::end_undo(self, &migration.id)));
        }
        match phase {
            Phase::Expand => {}
            Phase::Migrate if !self.done(Phase::Expand) => {
                return refuse("it is not expanded", "run expand first");
            }
            Phase::Contract if !self.done(Phase::Migrate) => {
                return refuse("it is not migrated", "run migrate first");
            }
            Phase::Undo if self.begun(Phase::Contract) && !self.done(Phase::Contract) => {
                return refuse(
                    "its contract has started",
                    "run contract to its end; a rollback is not possible",
                );
            }
            Phase::Undo => {
                return Ok(self.expanded_by(migration, dialect, owner) && !self.is_final(beside));
            }
            Phase::Migrate | Phase::Contract => {}
        }
        Ok(!self.done(phase))
    }
}

/// Whether contract has removed something for a migration that the set's owner expanded, or for one that came after the
/// set's own ones. What contract has ended for the others is not undone then.
pub(super) fn has_contracted(entries: &[Entry], set: &MigrationSet, dialect: Dialect) -> bool {
    let removes = |migration: &Migration| {
        let record = Record::of(entries, &migration.id);
        record.removed() && record.expanded_by(migration, dialect, set.owner())
    };
    set.own().any(removes) || !later::contracts(entries, set).is_empty()
}

/// Whether a migration may be contracted, or expanded in the name of an upgrade: what came before it is expanded and
/// filled. A person may expand by hand above what no history shows.
pub(super) fn baseline(
    entries: &[Entry],
    set: &MigrationSet,
    migration: &Migration,
    phase: Phase,
) -> Result<(), Error> {
    let is_asked = phase == Phase::Contract || set.owner().is_upgrade();
    let lacks = |m: &&Migration| m.version < migration.version && !Record::of(entries, &m.id).is_usable();
    let Some(lacks) = set.baseline().find(lacks).filter(|_| is_asked) else { return Ok(()) };
    let run = |phase| command::up_to(phase, lacks.version);
    Err(Error::Order {
        migration: migration.id.clone(),
        phase,
        found: format!(
            "migration {} of version {}, which came before it, is not expanded and filled",
            lacks.id, lacks.version
        ),
        needs: format!("run `{}`, then `{}` first", run(Phase::Expand), run(Phase::Migrate)),
    })
}

/// What the contract of an upgrade runs before that of its own migrations: contracts of the baseline that are not done. They
/// were done when it was started, and an older copy took the database's place since. What they remove, no version from
/// `from` on uses; a sync that they end may refer to a column that the own contract removes.
pub(super) fn uncontracted<'a>(
    entries: &'a [Entry],
    set: &'a MigrationSet,
    dialect: Dialect,
) -> impl Iterator<Item = &'a Migration> {
    set.baseline().filter(move |migration| {
        let record = Record::of(entries, &migration.id);
        let is_left = record.is_usable() && !record.done(Phase::Contract);
        is_left && set.owner().is_upgrade() && !migration.steps(Phase::Contract, dialect).is_empty()
    })
}

/// Whether every step that ran is the step that is written now. A person may finish a migration by hand that comes before
/// one under way, which no version up to theirs knows.
pub(super) fn drift(entries: &[Entry], set: &MigrationSet, dialect: Dialect) -> Result<(), Error> {
    for entry in entries {
        let refuse = |now: String| Error::Drift {
            migration: entry.migration.clone(),
            phase: entry.phase,
            step: entry.step + 1,
            recorded: entry.checksum.clone(),
            now,
        };
        let Some(migration) = set.get(&entry.migration) else {
            let is_above = set.later(&entry.migration).is_some() && !set.owner().is_upgrade();
            if is_above || Record::of(entries, &entry.migration).done(Phase::Contract) {
                continue;
            }
            return Err(refuse("missing, although it is not done".into()));
        };
        if entry.step == PHASE {
            continue;
        }
        let now =
            usize::try_from(entry.step).ok().and_then(|at| migration.steps(entry.phase, dialect).get(at));
        let now = now.map(Digest::of).ok_or_else(|| refuse("missing".into()))?;
        if now.as_str() != entry.checksum {
            return Err(refuse(now.to_string()));
        }
    }
    // A phase that is done has all of its steps; one more step was added since.
    for migration in set.iter() {
        for phase in Phase::ALL {
            let record = Record::of(entries, &migration.id);
            let steps = migration.steps(phase, dialect);
            let added = (0..steps.len()).find(|at| record.step(phase, *at as i64).is_none());
            if let (true, Some(at)) = (record.done(phase), added) {
                return Err(Error::Drift {
                    migration: migration.id.clone(),
                    phase,
                    step: at as i64 + 1,
                    recorded: "missing".into(),
                    now: Digest::of(&steps[at]).to_string(),
                });
            }
        }
    }
    Ok(())
}
