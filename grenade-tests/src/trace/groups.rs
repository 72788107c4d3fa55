//! The history of metadata groups (rule 0): generations only rise, each document that a group names is there, an update
//! exposes one batch after the other as it was drawn, and its outcome decides which document is served to all.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_proto::key::Subject;
use tidegate_proto::metadata::document_digest;
use tidegate_proto::record::group::{
    DocumentVersion, ExposedPage, Group, GroupUpdate, UpdateOutcome, page_of,
};
use tidegate_proto::{Digest, GroupName, Key, MetadataGeneration, Value};

use super::revision::{Revision, Written};
use super::rules::Broken;

/// Groups at one revision.
#[derive(Default)]
struct Seen {
    groups: BTreeMap<GroupName, Group>,
    documents: BTreeMap<(GroupName, MetadataGeneration), Digest>,
    pages: BTreeMap<(GroupName, u32), ExposedPage>,
}

/// Judges a history, but for what its coordinators did not write.
pub(super) fn judge(revisions: &[Revision], is_foreign: impl Fn(i64) -> bool) -> Vec<Broken> {
    let (mut seen, mut broken) = (Seen::default(), Vec::new());
    for revision in revisions {
        let written = revision.writes.iter().filter(|written| written.gone || written.put.is_some());
        let names: BTreeSet<GroupName> =
            written.filter_map(|written| group_of(&written.key)).cloned().collect();
        let had: Vec<(GroupName, Option<Group>)> =
            names.into_iter().map(|name| (name.clone(), seen.groups.get(&name).cloned())).collect();
        revision.writes.iter().for_each(|written| seen.take_in(written));
        if is_foreign(revision.number) {
            continue;
        }
        let found = had.iter().filter_map(|(name, had)| {
            let what = seen.change(name, had.as_ref(), revision).or_else(|| seen.lacks(name))?;
            Some(Broken { at: revision.number, rule: 0, what: format!("metadata group {name}: {what}") })
        });
        broken.extend(found);
    }
    broken
}

/// The group that a key belongs to. Signals are words of instances.
fn group_of(key: &Key) -> Option<&GroupName> {
    match key {
        Key::Group(name) | Key::Members(name) | Key::Document(name, _) | Key::Exposed(name, _) => Some(name),
        _ => None,
    }
}

impl Seen {
    /// What cannot be read counts as unchanged.
    fn take_in(&mut self, written: &Written) {
        match (&written.key, written.value()) {
            (Key::Group(name), Some(Value::Group(group))) => {
                self.groups.insert(name.clone(), group.body.clone());
            }
            (Key::Document(name, generation), Some(Value::Document(document))) => {
                let digest = document_digest(&document.body.document);
                self.documents.insert((name.clone(), *generation), digest);
            }
            (Key::Exposed(name, number), Some(Value::Exposed(page))) => {
                self.pages.insert((name.clone(), *number), page.body.clone());
            }
            (Key::Group(name), None) if written.gone => drop(self.groups.remove(name)),
            (Key::Document(name, generation), None) if written.gone => {
                self.documents.remove(&(name.clone(), *generation));
            }
            (Key::Exposed(name, number), None) if written.gone => {
                self.pages.remove(&(name.clone(), *number));
            }
            _ => {}
        }
    }

    /// What is wrong with how a group changed.
    fn change(&self, name: &GroupName, had: Option<&Group>, revision: &Revision) -> Option<&'static str> {
        let Some(is) = self.groups.get(name) else { return Some("it is gone, or was never made") };
        if !revision.writes.iter().any(|written| written.key == Key::Group(name.clone())) {
            return Some("a record of it changed, and it did not");
        }
        let has_event = revision
            .writes
            .iter()
            .any(|written| matches!(&written.key, Key::Event(Subject::Group(of), _) if of == name));
        let only_counts = had.is_some_and(|had| counted(had, is));
        let good = [
            (has_event || only_counts, "no event says why it changed"),
            (had.is_none_or(|had| had.latest <= is.latest), "its latest generation fell"),
            (is_next(had, is, revision), "no update led to its documents, or nothing says whose"),
        ];
        good.into_iter().find(|(is_good, _)| !is_good).map(|(_, what)| what)
    }

    /// What a group names and is not there.
    fn lacks(&self, name: &GroupName) -> Option<&'static str> {
        let group = self.groups.get(name)?;
        let held = |generation| self.documents.get(&(name.clone(), generation));
        let is_held = |version: &DocumentVersion| held(version.generation) == Some(&version.digest);
        let mut named = group.current.iter().chain(group.update.as_ref().map(|update| &update.to));
        if !named.all(is_held) || group.kept.is_some_and(|kept| held(kept).is_none()) {
            return Some("a document that it names is not there");
        }
        let update = group.update.as_ref()?;
        (!self.is_drawn(name, update)).then_some("the batches of its update are not those that were drawn")
    }

    /// Whether the pages of an update are there, with as many instances and batches as were drawn, each on its page.
    fn is_drawn(&self, name: &GroupName, update: &GroupUpdate) -> bool {
        let pages: Vec<&ExposedPage> = (0..update.pages)
            .filter_map(|number| self.pages.get(&(name.clone(), number)))
            .filter(|page| page.generation == update.to.generation)
            .collect();
        let members =
            || (0..).zip(&pages).flat_map(|(number, page)| page.members.iter().map(move |of| (number, of)));
        let batches: BTreeSet<u32> = members().map(|(_, (_, batch))| *batch).collect();
        usize::try_from(update.pages).is_ok_and(|count| count == pages.len())
            && usize::try_from(update.drawn).is_ok_and(|drawn| drawn == members().count())
            && members().all(|(number, (node, _))| page_of(node, update.pages) == number)
            && batches.into_iter().eq(0..update.batches)
    }
}

/// Whether nothing but the time that a batch has been exposed has changed; it only rises.
fn counted(had: &Group, is: &Group) -> bool {
    let waited = |group: &Group| group.update.as_ref().map(|update| update.waited_ms);
    let mut same = is.clone();
    if let (Some(update), Some(before)) = (&mut same.update, waited(had)) {
        update.waited_ms = before;
    }
    same == *had && waited(had) <= waited(is)
}

/// Whether this state of a group follows that one.
fn is_next(had: Option<&Group>, is: &Group, revision: &Revision) -> bool {
    let latest = had.map(|had| had.latest);
    let current = had.and_then(|had| had.current);
    let kept = had.and_then(|had| had.kept);
    let rises = latest.is_none_or(|latest| latest < is.latest);
    let former = current.map(|current| current.generation);
    let ends_as = |generation, outcome: &dyn Fn(UpdateOutcome) -> bool| {
        let last = is.last.as_ref();
        last.is_some_and(|last| {
            last.generation == generation && outcome(last.outcome) && revision.names(&last.who)
        })
    };
    match (had.and_then(|had| had.update.as_ref()), &is.update) {
        (None, Some(update)) => {
            let begins = rises && update.to.generation == is.latest && update.batch == 0;
            begins && current == is.current && revision.names(&update.by)
        }
        (Some(before), Some(update)) => {
            let exposes = update.batch == before.batch + 1 && update.batch < update.batches;
            let same =
                GroupUpdate { batch: before.batch, waited_ms: before.waited_ms, ..update.clone() } == *before;
            let stays = !rises && is.current == current && is.kept == kept;
            same && stays && (update.batch == before.batch || exposes)
        }
        (Some(before), None) => {
            let finishes = is.current == Some(before.to) && is.kept == former;
            let returns = is.current == current && is.kept == Some(before.to.generation);
            let is_so = |outcome| if outcome == UpdateOutcome::Finished { finishes } else { returns };
            !rises && ends_as(before.to.generation, &is_so)
        }
        (None, None) if rises => {
            let at_once = is.current.is_some_and(|to| to.generation == is.latest) && is.kept == former;
            at_once && ends_as(is.latest, &|outcome| outcome == UpdateOutcome::Finished)
        }
        (None, None) => is.current == current && is.kept == kept,
    }
}

#[cfg(test)]
mod tests;
