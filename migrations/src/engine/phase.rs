//! One phase, migration by migration: what the history says is still to do, in order.

use super::entry::{Write, write};
use super::order::{self, Record};
use super::{ContractProof, Outcome, Recheck, cascade, left, present, status};
use crate::backfill;
use crate::database::Dialect;
use crate::error::Error;
use crate::history::{self, Entry, PHASE, State};
use crate::ladder::Ladder;
use crate::leader::Leader;
use crate::lint;
use crate::load::LoadError;
use crate::mutant;
use crate::object::{self, Object};
use crate::owner::Owner;
use crate::progress::ProgressSender;
use crate::step::{self, Manner};
use crate::unit::{Digest, Migration, MigrationSet, Phase, Step};

/// How often a fill is walked again in one call when rows are still to do after it.
const PASSES: u32 = 3;

/// A verb under way.
pub(super) struct Run<'a, 'r> {
    pub leader: &'a mut Leader,
    pub progress: ProgressSender<'a>,
    pub contract: Option<(&'a ContractProof, &'a Recheck<'r>)>,
    pub outcome: Outcome,
    /// In whose name rows are written, and whose rows an undo takes.
    pub owner: &'a Owner,
    /// What an undo of the migration at hand must not remove.
    pub kept: Vec<Object>,
}

impl Run<'_, '_> {
    /// The phase of every migration that has something to do; undo from the last to the first.
    pub(super) async fn all(&mut self, phase: Phase, set: &MigrationSet) -> Result<(), Error> {
        let dialect = self.leader.session.dialect();
        let mut order: Vec<&Migration> = match mutant::is("undo-has-no-lower-bound") {
            true => set.iter().collect(),
            false => set.own().collect(),
        };
        if phase == Phase::Undo {
            order.reverse();
        }
        let entries = history::entries(&mut self.leader.session).await?;
        order::drift(&entries, set, dialect)?;
        let beside = order::has_contracted(&entries, set, dialect);
        if phase == Phase::Contract {
            order = order::uncontracted(&entries, set, dialect).chain(order).collect();
        }
        // All are judged before the first is touched.
        let mut todo = Vec::new();
        for migration in order {
            let record = Record::of(&entries, &migration.id);
            if record.wants(migration, phase, dialect, self.owner, beside)?
                || self.fills_again(phase, migration, &record, beside).await?
            {
                let begins = phase == Phase::Expand && !record.begun(Phase::Expand);
                if begins {
                    may_begin(migration, dialect)?;
                    let there = present::all(&mut self.leader.session, set, migration, &record).await?;
                    there.into_iter().next().map_or(Ok(()), Err)?;
                }
                if begins || phase == Phase::Contract {
                    order::baseline(&entries, set, migration, phase)?;
                }
                let kept = left::kept(&record, migration, dialect, self.owner);
                todo.push((migration, record.begun(Phase::Contract), kept));
            }
        }
        // The row of the phase keeps that they are verified: the first contract may remove what their queries name.
        for (migration, contracting, _) in todo.iter().skip(1) {
            if phase == Phase::Contract && !contracting {
                self.verify_for_contract(migration).await?;
                self.begin_phase(phase, migration, migration.steps(phase, dialect)).await?;
            }
        }
        for (migration, contracting, kept) in todo {
            self.kept = kept;
            if phase == Phase::Contract && !contracting {
                self.verify_for_contract(migration).await?;
                self.recheck().await?;
            }
            self.one(phase, migration).await?;
        }
        Ok(())
    }

    /// Rows came after a fill that was done, and were not filled: its steps are opened again.
    async fn fills_again(
        &mut self,
        phase: Phase,
        migration: &Migration,
        record: &Record<'_>,
        beside: bool,
    ) -> Result<bool, Error> {
        let is_final = mutant::is("done-fill-is-never-opened-again");
        // An upgrade before its contract meets one that has ended where the upgrade was rolled back, or its store was lost.
        let is_ended = record.begun(Phase::Contract);
        let is_over = is_ended && (record.is_final(beside) || !self.owner.is_upgrade());
        if phase != Phase::Migrate || is_over || is_final {
            return Ok(false);
        }
        match self.verify(migration).await {
            Ok(()) => Ok(false),
            // Another contract may have removed what the query names.
            Err(Error::Sql { .. }) if is_ended || record.was_verified() => Ok(false),
            Err(unverified @ Error::Unverified { .. }) => {
                let steps = migration.steps(phase, self.leader.session.dialect());
                // Where no step fills rows, the writer of these rows must.
                if self.reopen(migration, steps).await? { Ok(true) } else { Err(unverified) }
            }
            Err(error) => Err(error),
        }
    }

    async fn one(&mut self, phase: Phase, migration: &Migration) -> Result<(), Error> {
        let dialect = self.leader.session.dialect();
        let steps = migration.steps(phase, dialect);
        self.begin_phase(phase, migration, steps).await?;
        for pass in 1.. {
            for unit in units(steps, phase, dialect) {
                match step::manner(&steps[unit.start], dialect) {
                    Manner::Together => self.together(phase, migration, unit).await?,
                    Manner::Alone => self.alone(phase, migration, unit.start).await?,
                }
            }
            if phase != Phase::Migrate {
                break;
            }
            match self.verify(migration).await {
                Err(Error::Unverified { .. }) if pass < PASSES && self.reopen(migration, steps).await? => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        self.finish_phase(phase, migration, steps).await
    }

    async fn verify(&mut self, migration: &Migration) -> Result<(), Error> {
        match status::pending(&mut self.leader.session, migration).await? {
            0 => Ok(()),
            rows => Err(Error::Unverified { migration: migration.id.clone(), rows }),
        }
    }

    /// Before its contract. Its query need not run where it has before another contract began.
    async fn verify_for_contract(&mut self, migration: &Migration) -> Result<(), Error> {
        let unverified = match self.verify(migration).await {
            Err(error @ Error::Sql { .. }) => error,
            answer => return answer,
        };
        let entries = history::entries(&mut self.leader.session).await?;
        let is_known = Record::of(&entries, &migration.id).was_verified();
        if is_known { Ok(()) } else { Err(unverified) }
    }

    /// Steps that are one transaction, tried until their locks are granted.
    async fn together(
        &mut self,
        phase: Phase,
        migration: &Migration,
        unit: std::ops::Range<usize>,
    ) -> Result<(), Error> {
        let steps = migration.steps(phase, self.leader.session.dialect());
        let first = steps[unit.start].summary();
        self.progress.step(&migration.id, unit.start + 1, steps.len(), first.clone());
        let cancel = self.leader.cancel.clone();
        let mut ladder = Ladder::new(&cancel);
        loop {
            self.recheck().await?;
            match self.attempt(phase, migration, unit.clone()).await {
                Ok(done) => {
                    self.progress.waiting(None);
                    self.outcome.steps += done;
                    return Ok(());
                }
                Err(error) => {
                    self.leader.session.rollback().await;
                    let tables: Vec<String> = steps[unit.clone()].iter().flat_map(Step::tables).collect();
                    let held = if error.lock_refused() { self.leader.holders(&tables).await } else { None };
                    ladder.rest_for(error, &first, held, &self.progress).await?;
                }
            }
        }
    }

    async fn attempt(
        &mut self,
        phase: Phase,
        migration: &Migration,
        unit: std::ops::Range<usize>,
    ) -> Result<usize, Error> {
        let (note, owner) = (self.note(), self.owner);
        let kept = &self.kept;
        let (leader, mut done) = (&mut *self.leader, 0);
        leader.begin().await?;
        // Read under the term's lock: what another process of this term did meanwhile counts.
        let entries = history::entries(&mut leader.session).await?;
        let record = Record::of(&entries, &migration.id);
        let dialect = leader.session.dialect();
        let steps = migration.steps(phase, dialect);
        for at in unit {
            let step = &steps[at];
            if record.step(phase, at as i64).is_some_and(|e| e.state == State::Done) {
                continue;
            }
            let entry = entry(owner, migration, phase, at as i64, Digest::of(step));
            let term = leader.term.clone();
            history::begin_entry(&mut leader.session, &entry, &step.summary(), note.as_deref(), &term)
                .await?;
            let there = record.step(phase, at as i64).is_some();
            if !there && phase != Phase::Undo {
                present::none(&mut leader.session, migration, step).await?;
            }
            if let Some(step) = doing(phase, step, kept) {
                if cascade::may(&step, dialect) {
                    let all = steps.iter().filter_map(|step| doing(phase, step, kept));
                    let gone: Vec<Object> = all.flat_map(|step| object::removed(&step)).collect();
                    cascade::none(&mut leader.session, &step, &gone).await?;
                }
                step::together(&mut leader.session, &step).await?;
            }
            history::finish_entry(&mut leader.session, &entry, &term).await?;
            done += 1;
        }
        // The job may have been stopped since they began: an instance that uses what they remove may have reported.
        leader.is_wanted()?;
        leader.commit(&format!("{phase} steps")).await?;
        Ok(done)
    }

    /// A step that cannot be one transaction: its intent first, then the effect, then its end.
    async fn alone(&mut self, phase: Phase, migration: &Migration, at: usize) -> Result<(), Error> {
        let steps = migration.steps(phase, self.leader.session.dialect());
        let step = &steps[at];
        self.progress.step(&migration.id, at + 1, steps.len(), step.summary());
        self.recheck().await?;
        let entries = history::entries(&mut self.leader.session).await?;
        if Record::of(&entries, &migration.id).step(phase, at as i64).is_none() {
            present::none(&mut self.leader.session, migration, step).await?;
        }
        let note = self.note();
        let mut entry = entry(self.owner, migration, phase, at as i64, Digest::of(step));
        let summary = step.summary();
        let begin = Write::Begin { entry: &entry, summary: &summary, note: note.as_deref() };
        let kept = write(self.leader, &self.progress, begin).await?;
        match kept {
            Some(kept) if kept.state == State::Done => return Ok(()),
            Some(kept) => entry = kept,
            None => {}
        }
        match step {
            Step::Backfill(fill) => {
                self.outcome.rows += backfill::fill(self.leader, fill, &mut entry, &self.progress).await?;
            }
            other => step::alone(self.leader, other).await?,
        }
        write(self.leader, &self.progress, Write::Finish(&entry)).await?;
        self.outcome.steps += 1;
        Ok(())
    }

    /// Begins the phase's own row, unless it has begun.
    async fn begin_phase(
        &mut self,
        phase: Phase,
        migration: &Migration,
        steps: &[Step],
    ) -> Result<(), Error> {
        let entry = entry(self.owner, migration, phase, PHASE, Digest::of(steps));
        let note = self.note();
        let summary = format!("{phase} of {}", migration.id);
        let begin = Write::Begin { entry: &entry, summary: &summary, note: note.as_deref() };
        write(self.leader, &self.progress, begin).await.map(drop)
    }

    async fn finish_phase(
        &mut self,
        phase: Phase,
        migration: &Migration,
        steps: &[Step],
    ) -> Result<(), Error> {
        let entry = entry(self.owner, migration, phase, PHASE, Digest::of(steps));
        if phase != Phase::Undo {
            return write(self.leader, &self.progress, Write::Finish(&entry)).await.map(drop);
        }
        let entries = history::entries(&mut self.leader.session).await?;
        let record = Record::of(&entries, &migration.id);
        let stay = left::rows(&mut self.leader.session, &record, migration, &self.kept).await?;
        let end = Write::FinishUndo { entry: &entry, stay: &stay };
        write(self.leader, &self.progress, end).await.map(drop)
    }

    /// Opens the fills again; false where there is none.
    async fn reopen(&mut self, migration: &Migration, steps: &[Step]) -> Result<bool, Error> {
        let fills: Vec<Entry> = (0_i64..)
            .zip(steps)
            .filter(|(_, step)| matches!(step, Step::Backfill(_)))
            .map(|(at, step)| entry(self.owner, migration, Phase::Migrate, at, Digest::of(step)))
            .collect();
        if fills.is_empty() {
            return Ok(false);
        }
        let phase = entry(self.owner, migration, Phase::Migrate, PHASE, Digest::of(steps));
        let all: Vec<Entry> = fills.into_iter().chain([phase]).collect();
        write(self.leader, &self.progress, Write::Reopen(&all)).await?;
        Ok(true)
    }

    async fn recheck(&self) -> Result<(), Error> {
        match self.contract {
            Some((_, recheck)) => recheck().await.map_err(|reason| Error::Recheck { reason }),
            None => Ok(()),
        }
    }

    fn note(&self) -> Option<String> {
        self.contract.map(|(proof, _)| {
            serde_json::json!({"certificate": proof.certificate, "digest": proof.digest}).to_string()
        })
    }
}

/// What is done of a step: an undo leaves in place what it must not remove.
fn doing(phase: Phase, step: &Step, kept: &[Object]) -> Option<Step> {
    match phase {
        Phase::Undo => left::spared(step, kept),
        _ => Some(step.clone()),
    }
}

fn entry(owner: &Owner, migration: &Migration, phase: Phase, step: i64, checksum: Digest) -> Entry {
    Entry::begun(owner.name(), migration, phase, step, &checksum)
}

/// Whether a migration may begin, by its words.
fn may_begin(migration: &Migration, dialect: Dialect) -> Result<(), Error> {
    match lint::to_begin(migration, dialect) {
        findings if findings.is_empty() => Ok(()),
        findings => Err(Error::Lint(LoadError::Findings(findings))),
    }
}

/// Which steps are one transaction. Neighbours on the same table are: between a column and its sync,
/// or between the end of a sync and its column, no write may come. On SQLite, where every lock is
/// the file's one, a whole expand or undo is. A step that validates a constraint is one by itself: it reads the whole table,
/// and a lock of a neighbour would stop readers and writers meanwhile.
fn units(steps: &[Step], phase: Phase, dialect: Dialect) -> Vec<std::ops::Range<usize>> {
    let whole = dialect == Dialect::Sqlite && matches!(phase, Phase::Expand | Phase::Undo);
    let mut units: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let joins = units.last().is_some_and(|unit| {
            let before = &steps[unit.start];
            let both =
                [before, step].iter().all(|s| step::manner(s, dialect) == Manner::Together && !s.validates());
            both && (whole || (step.table().is_some() && step.table() == before.table()))
        });
        match units.last_mut() {
            Some(unit) if joins => unit.end = at + 1,
            _ => units.push(at..at + 1),
        }
    }
    units
}
