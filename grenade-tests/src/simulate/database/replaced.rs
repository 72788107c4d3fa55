//! Databases that take each other's place, and what people keep of the one that was there.

use super::Database;
use super::engine::Engine;
use super::history::History;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A database that another one replaced.
pub(super) struct Kept {
    rows: BTreeMap<String, String>,
    had: Had,
    unfilled: BTreeSet<String>,
    /// The schema that it holds.
    schema: Option<String>,
    /// How many steps of contract its history has as done.
    contract_steps: u64,
    /// People went on with the one that took its place: they find it again by the name of its schema only.
    is_left: bool,
}

/// What a database has, or those had whose place an older one took.
#[derive(Debug, Clone, Default)]
pub(super) struct Had {
    /// Parts of their form.
    form: BTreeSet<String>,
    /// Migrations that were filled in them.
    filled: BTreeSet<String>,
}

/// The part of a text with the schema that an upgrade was started on.
fn started_on(what: &str) -> &str {
    what.rsplit("was started on ").next().unwrap_or_default()
}

impl Database {
    /// Keeps a copy of it as it is.
    ///
    /// # Errors
    /// What the system or the server says.
    pub(crate) fn keep_copy(&mut self) -> io::Result<()> {
        if !self.is_away() {
            self.engine.keep_copy()?;
            self.kept = Some(self.rows.clone());
        }
        Ok(())
    }

    /// An upgrade is started on what is there now, which may be a copy.
    pub(crate) fn is_started_on(&mut self) {
        self.in_use = true;
    }

    /// An upgrade ended: what is there is no older copy any more, unless it took its place after this time. Where the upgrade
    /// is not completed and `leaves` instances at a version, or services that return to it, it is older still if it never
    /// had what that version needs: nothing that such an upgrade does gives it that.
    pub(crate) async fn upgrade_ended(&mut self, at: u64, leaves: Option<u32>) {
        let came_later = self.replaced_at.is_some_and(|replaced| replaced > at);
        let still_lacks = match leaves.filter(|_| self.older) {
            Some(version) => self.never_had(version).await,
            None => false,
        };
        self.older &= came_later || still_lacks;
        if !self.older {
            self.had = Had::default();
        }
    }

    /// Whether it lacked, when it took its place, and lacks now a column that a version uses, or rows of that version or an
    /// earlier one which were filled in a database before it.
    async fn never_had(&mut self, version: u32) -> bool {
        let (now, first) = (self.has().await, &self.had_at_first);
        let lacks_column = |column: &String| !first.form.contains(column) && !now.form.contains(column);
        let last = format!("{version:04}_change");
        let lacks_rows = |migration: &String| {
            *migration <= last && !first.filled.contains(migration) && !now.filled.contains(migration)
        };
        self.used(version).iter().any(lacks_column) || self.had.filled.iter().any(lacks_rows)
    }

    /// What it has; nothing where it cannot be reached.
    async fn has(&mut self) -> Had {
        let form = self.form().await.unwrap_or_default().into_iter().collect();
        Had { form, filled: self.filled().await.unwrap_or_default() }
    }

    /// Puts the copy in its place; whether there was one. Of what was there, people keep what they use: not a copy that
    /// nothing was started on and that nothing went on with.
    ///
    /// # Errors
    /// What the system or the server says.
    pub(crate) async fn put_copy_back(&mut self, now: u64) -> io::Result<bool> {
        let Some(rows) = self.kept.clone().filter(|_| !self.is_away()) else { return Ok(false) };
        let keeps = !self.older || self.in_use || self.has_gone_on().await;
        let kept = self.as_kept(self.had.clone()).await;
        let mut had = self.had.clone();
        had.form.extend(self.form().await.unwrap_or_default());
        had.filled.extend(self.filled().await.unwrap_or_default());
        had.filled.extend(self.unfilled.iter().cloned());
        if keeps {
            self.set_newest_aside(false)?;
        }
        self.engine.put_copy(keeps)?;
        if keeps {
            self.newest = Some(kept);
        }
        self.in_use = false;
        self.unfilled.clear();
        self.history = History::default();
        (self.rows, self.older, self.replaced_at) = (rows, true, Some(now));
        self.had = had;
        self.had_at_first = self.has().await;
        self.steps_at_first = self.steps().await.unwrap_or_default();
        Ok(true)
    }

    /// Nothing looks any more for the one that the copy replaced, unless a restored store names its schema.
    ///
    /// # Errors
    /// What the system or the server says.
    pub(crate) fn stays_older(&mut self) -> io::Result<()> {
        self.set_newest_aside(true)
    }

    /// Keeps the one that the copy replaced with those that were replaced before.
    fn set_newest_aside(&mut self, is_left: bool) -> io::Result<()> {
        if let Some(newest) = self.newest.take() {
            let number = self.next_number();
            self.engine.set_newest_aside(number)?;
            self.replaced.insert(number, Kept { is_left, ..newest });
        }
        Ok(())
    }

    /// Puts the one back that the copy replaced, and keeps the copy. Where the copy went on meanwhile, it is the older
    /// one; whether there was one. It stays aside where an upgrade has ended on the copy.
    ///
    /// # Errors
    /// What the system or the server says.
    pub(crate) async fn put_newest_back(&mut self, now: u64) -> io::Result<bool> {
        // While it is away, nothing is put in its place; the file is still there afterwards.
        if self.is_away() {
            return Ok(false);
        }
        if !self.older {
            self.set_newest_aside(true)?;
        }
        let Some(newest) = self.newest.take() else { return Ok(false) };
        let number = self.next_number();
        let replaced = self.as_kept(Had::default()).await;
        self.replaced.insert(number, replaced);
        self.take_place(|engine| engine.put_newest(number), newest, now).await?;
        Ok(true)
    }

    /// Finds the one that an upgrade was started on: the one that the copy replaced, or else a copy, where the store was
    /// lost meanwhile and the upgrade was started again on the copy. Of several, the one whose schema a text names; whether
    /// there was one. Another upgrade may have been started on what is there: it stays aside.
    ///
    /// # Errors
    /// What the system or the server says.
    pub(crate) async fn put_right_one_back(&mut self, what: &str, now: u64) -> io::Result<bool> {
        if self.put_newest_back(now).await? {
            return Ok(true);
        }
        if self.is_away() {
            return Ok(false);
        }
        let is_named = |kept: &Kept| {
            kept.schema.as_ref().is_some_and(|schema| started_on(what).contains(schema.as_str()))
        };
        let last = |is: &dyn Fn(&Kept) -> bool| self.replaced.iter().rev().find(|(_, kept)| is(kept));
        let found = last(&is_named).or_else(|| last(&|kept: &Kept| !kept.is_left));
        let Some(number) = found.map(|(number, _)| *number) else { return Ok(false) };
        // Chosen first: it must not be the number of the one that is put back.
        let aside = self.next_number();
        let Some(replaced) = self.replaced.remove(&number) else { return Ok(false) };
        let current = self.as_kept(self.had.clone()).await;
        self.replaced.insert(aside, Kept { is_left: true, ..current });
        self.take_place(|engine| engine.put_replaced(number, aside), replaced, now).await?;
        Ok(true)
    }

    /// One that was there before takes its place. It is older where it lacks a part of what is there now, or of what it
    /// lacked when it was replaced itself.
    async fn take_place(
        &mut self,
        take: impl FnOnce(&mut dyn Engine) -> io::Result<()>,
        kept: Kept,
        now: u64,
    ) -> io::Result<()> {
        let Kept { rows, mut had, unfilled, .. } = kept;
        had.form.extend(self.form().await.unwrap_or_default());
        had.filled.extend(self.filled().await.unwrap_or_default());
        take(self.engine.as_mut())?;
        self.history = History::default();
        (self.rows, self.replaced_at) = (rows, Some(now));
        self.had_at_first = self.has().await;
        self.older = had.form.iter().any(|what| !self.had_at_first.form.contains(what));
        self.unfilled = unfilled;
        self.unfilled.append(&mut had.filled);
        self.had = if self.older { had } else { Had::default() };
        self.steps_at_first = self.steps().await.unwrap_or_default();
        Ok(())
    }

    /// The number under which the next one is kept.
    fn next_number(&self) -> usize {
        self.replaced.last_key_value().map_or(0, |(number, _)| number + 1)
    }

    /// What is kept of it once another one takes its place.
    async fn as_kept(&mut self, had: Had) -> Kept {
        let (rows, unfilled) = (self.rows.clone(), self.unfilled.clone());
        let (schema, steps) = (self.schema_id().await, self.contract_steps().await);
        Kept { rows, had, unfilled, schema, contract_steps: steps.unwrap_or(0), is_left: false }
    }

    /// Whether more was contracted in the one that the copy replaced than in the copy.
    pub(crate) async fn is_newest_contracted(&mut self) -> bool {
        let Some(steps) = self.newest.as_ref().map(|newest| newest.contract_steps) else { return false };
        steps > self.contract_steps().await.unwrap_or(0)
    }

    /// Whether a text says that an upgrade was started on the schema that it holds.
    pub(crate) async fn is_named_in(&mut self, what: &str) -> bool {
        self.schema_id().await.is_some_and(|id| started_on(what).contains(&id))
    }

    /// The identity of the schema that it holds, once it has one.
    async fn schema_id(&mut self) -> Option<String> {
        let id = self.texts("tidegate_schema", ("schema_id", "schema_id")).await.ok()?;
        Some(id.into_iter().next()?.0)
    }

    /// Whether the engine has done anything in it since it took its place: an upgrade or a person went on with it.
    async fn has_gone_on(&mut self) -> bool {
        self.steps().await.is_some_and(|steps| steps != self.steps_at_first)
    }

    /// The steps in the engine's history, each with its state; none where there is no such history.
    async fn steps(&mut self) -> Option<BTreeMap<String, Option<String>>> {
        let found = self.texts("tidegate_history", ("CAST(seq AS TEXT)", "state")).await.ok()?;
        Some(found.into_iter().collect())
    }
}
