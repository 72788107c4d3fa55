//! What is written once, or changes in one way only: manifests, tags and documents, the waves of a roll, failed and skipped
//! instances, tokens, and tasks with their results (rule 0), what belongs to release streams (rule 7), and what a contracted
//! schema requires (rule 1).

use std::collections::{BTreeMap, BTreeSet};

use tidegate_proto::compute::canonical;
use tidegate_proto::record::exception::Exception;
use tidegate_proto::record::release::{ComputeRelease, TagRecord};
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::task::{Outcome, Task, TaskResult};
use tidegate_proto::record::token::Token;
use tidegate_proto::record::upgrade::{Division, Phase};
use tidegate_proto::record::waves::WavePage;
use tidegate_proto::{Digest, Key, ReleaseTag, ServiceName, ServiceVersion, StreamName, UpgradeId, Value};

use super::revision::{Revision, Written};
use super::rules::Broken;

/// The rule that is broken, and what was found.
type Found = (u8, String);

/// The last readable record under each of these keys.
#[derive(Default)]
struct Held(BTreeMap<Key, Value>);

/// Judges a history, but for what its coordinators and agents did not write.
pub(super) fn judge(revisions: &[Revision], is_foreign: impl Fn(i64) -> bool) -> Vec<Broken> {
    let (mut held, mut broken) = (Held::default(), Vec::new());
    for revision in revisions {
        let is_judged = !is_foreign(revision.number);
        let mut found: Vec<Found> = Vec::new();
        if is_judged {
            found.extend(revision.writes.iter().filter_map(|written| held.change(written, revision)));
        }
        let fresh = held.take_in(revision);
        if is_judged {
            found.extend(held.streams(revision, &fresh));
            found.extend(held.waves_agree(revision));
            found.extend(held.windows_bear(revision));
        }
        broken.extend(found.into_iter().map(|(rule, what)| Broken { at: revision.number, rule, what }));
    }
    broken
}

impl Held {
    /// Takes in a revision; the keys that were not there before.
    fn take_in(&mut self, revision: &Revision) -> BTreeSet<Key> {
        let mut fresh = BTreeSet::new();
        for Written { key, put, gone } in revision.writes.iter().filter(|written| is_lasting(&written.key)) {
            let Some(put) = put else {
                // What cannot be read is there all the same.
                if *gone {
                    self.0.remove(key);
                }
                continue;
            };
            if self.0.insert(key.clone(), put.value.clone()).is_none() {
                fresh.insert(key.clone());
            }
        }
        fresh
    }

    /// What is wrong with how a record changes.
    fn change(&self, written: &Written, revision: &Revision) -> Option<Found> {
        let (key, had) = (&written.key, self.0.get(&written.key));
        let is = match &written.put {
            Some(put) => Some(&put.value),
            // It cannot be read.
            None if !written.gone => return None,
            None => None,
        };
        let wrong = |rule, is_good: bool, what: &str| (!is_good).then(|| (rule, format!("{key} {what}")));
        match (key, had, is) {
            (Key::Manifest(digest), _, Some(Value::Manifest(manifest))) => {
                let is_of_it = Digest::of(canonical(&manifest.body.manifest).as_bytes()) == *digest;
                wrong(7, is_of_it, "holds another manifest")
            }
            (Key::Manifest(_) | Key::ReleaseTag(..), _, None) => wrong(7, false, "was removed"),
            (Key::ReleaseTag(..), Some(Value::ReleaseTag(had)), Some(Value::ReleaseTag(is))) => {
                let rises = is.body.version == had.body.version && is.body.revision >= had.body.revision;
                wrong(7, rises, "names another version or an earlier revision")
            }
            (Key::Document(..), Some(had), Some(is)) => wrong(0, had == is, "was changed"),
            (Key::Schema(_), _, None) => wrong(1, false, "was removed"),
            (Key::Schema(_), had, Some(Value::Schema(is))) => {
                let had = had.and_then(as_schema).map(|had| &had.contracted);
                wrong(
                    1,
                    is_next_schema(had, &is.body, revision),
                    "requires less, or more outside migrate and contract",
                )
            }
            (Key::Exception(id, _), had, is) => {
                let skipped = |value: Option<&Value>| value.and_then(as_exception)?.skipped.clone();
                let (had, is) = (skipped(had), skipped(is));
                let is_named = is == had || is.is_none_or(|by| revision.names(&by.who));
                let with_record = revision.writes.iter().any(|one| one.key == Key::Upgrade(id.clone()));
                wrong(0, is_named && with_record, "was written alone, or no event names who skipped it")
            }
            (Key::Token(_), _, None) => wrong(0, false, "was removed"),
            (Key::Token(_), had, Some(Value::Token(is))) => {
                let had = had.and_then(as_token);
                wrong(0, is_next_token(had, &is.body, revision), "was changed, or nothing says by whom")
            }
            (Key::Task(node, id), None, Some(Value::Task(is))) => {
                let has_result = self.0.contains_key(&Key::TaskResult(node.clone(), id.clone()));
                wrong(0, !has_result && is.body.settled.is_none(), "was ordered with an outcome")
            }
            (Key::Task(..), Some(Value::Task(had)), Some(Value::Task(is))) => {
                wrong(0, is_settled(&had.body, &is.body, revision), "was changed, or nothing says by whom")
            }
            (Key::Task(node, id), Some(Value::Task(had)), None) => {
                let result = Key::TaskResult(node.clone(), id.clone());
                let goes = revision.writes.iter().any(|written| written.key == result && written.gone);
                let has_ended = self
                    .result(&result)
                    .is_none_or(|result| goes && (had.body.settled.is_some() || is_outcome(&result.outcome)));
                wrong(0, has_ended, "was removed while it may run, or without its result")
            }
            (Key::TaskResult(node, id), None, Some(_)) => {
                let is_ordered = self.0.contains_key(&Key::Task(node.clone(), id.clone()));
                wrong(0, is_ordered, "is the result of no task")
            }
            (Key::TaskResult(..), Some(Value::TaskResult(had)), Some(Value::TaskResult(is))) => {
                wrong(0, ends(&had.body, &is.body), "was changed after it had ended, or by another agent")
            }
            (Key::TaskResult(node, id), Some(_), None) => {
                let task = Key::Task(node.clone(), id.clone());
                let goes = revision.writes.iter().any(|written| written.key == task && written.gone);
                wrong(0, goes || !self.0.contains_key(&task), "was removed before its task")
            }
            _ => None,
        }
    }

    fn result(&self, key: &Key) -> Option<&TaskResult> {
        match self.0.get(key)? {
            Value::TaskResult(result) => Some(&result.body),
            _ => None,
        }
    }

    /// A release is made with its manifest and its tag, and a tag names the release that it was written for.
    fn streams(&self, revision: &Revision, fresh: &BTreeSet<Key>) -> Vec<Found> {
        let mut found = Vec::new();
        for Written { key, put, .. } in &revision.writes {
            match (key, put.as_ref().map(|put| &put.value)) {
                (Key::Release(stream, number), Some(Value::Release(release))) if fresh.contains(key) => {
                    if !self.0.contains_key(&Key::Manifest(release.body.manifest)) {
                        found.push((7, format!("{key} was made without its manifest")));
                    }
                    let tag = self.tag(stream, &release.body.tag);
                    if tag.is_none_or(|tag| tag.revision != *number) {
                        found.push((7, format!("{key} was made, and its tag names {tag:?}")));
                    }
                }
                (Key::ReleaseTag(stream, tag), Some(Value::ReleaseTag(named))) => {
                    let release = self.release(&Key::Release(stream.clone(), named.body.revision));
                    let is_it = |release: &ComputeRelease| {
                        release.tag == *tag && release.version == named.body.version
                    };
                    if !release.is_some_and(is_it) {
                        found.push((
                            7,
                            format!("{key} names {}, which is no such release", named.body.revision),
                        ));
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn tag(&self, stream: &StreamName, tag: &ReleaseTag) -> Option<&TagRecord> {
        match self.0.get(&Key::ReleaseTag(stream.clone(), tag.clone()))? {
            Value::ReleaseTag(tag) => Some(&tag.body),
            _ => None,
        }
    }

    fn release(&self, key: &Key) -> Option<&ComputeRelease> {
        match self.0.get(key)? {
            Value::Release(release) => Some(&release.body),
            _ => None,
        }
    }

    /// Once an upgrade has waves, its pages are those that its record counts, with each node once. They change only together
    /// with the record: a roll of more than ten pages, which may be drawn again in several commits, is in no history that is
    /// judged.
    fn waves_agree(&self, revision: &Revision) -> Vec<Found> {
        let of = |written: &Written| match &written.key {
            Key::Upgrade(id) | Key::Waves(id, _) => Some(id.clone()),
            _ => None,
        };
        let ids: BTreeSet<UpgradeId> = revision.writes.iter().filter_map(of).collect();
        let wrong = ids.into_iter().filter_map(|id| {
            let Value::Upgrade(upgrade) = self.0.get(&Key::Upgrade(id.clone()))? else { return None };
            let division = upgrade.body.waves.as_ref()?;
            let is_alone = !revision.writes.iter().any(|written| written.key == Key::Upgrade(id.clone()));
            let is_good = !is_alone && agrees(division, &self.pages(&id));
            (!is_good).then(|| (0, format!("the waves of {id} are not those that it began to roll with")))
        });
        wrong.collect()
    }

    /// No window admits what a contracted schema excludes, nor says less of it.
    fn windows_bear(&self, revision: &Revision) -> Vec<Found> {
        let wrong = revision.writes.iter().filter_map(|written| {
            let (Key::Window(service), Some(Value::Window(window))) = (&written.key, written.value()) else {
                return None;
            };
            let schemas = self.0.values().filter_map(as_schema);
            let requires = schemas.filter_map(|schema| schema.contracted.get(service)).max()?;
            let says = window.body.contracted;
            let is_good = window.body.floor >= *requires && says.is_none_or(|says| says >= *requires);
            (!is_good).then(|| {
                let (floor, service) = (window.body.floor, service.as_str());
                let what = format!(
                    "the window of {service} has the floor {floor} and names {says:?}, and a contracted schema requires {requires}"
                );
                (1, what)
            })
        });
        wrong.collect()
    }

    fn pages(&self, id: &UpgradeId) -> Vec<&WavePage> {
        let all = Key::Waves(id.clone(), 0)..=Key::Waves(id.clone(), u32::MAX);
        let pages = self.0.range(all).filter_map(|(_, value)| match value {
            Value::Waves(page) => Some(&page.body),
            _ => None,
        });
        pages.collect()
    }
}

/// Whether a record under such a key is judged here, or needed for it.
fn is_lasting(key: &Key) -> bool {
    matches!(
        key,
        Key::Manifest(_)
            | Key::ReleaseTag(..)
            | Key::Release(..)
            | Key::Document(..)
            | Key::Upgrade(_)
            | Key::Waves(..)
            | Key::Exception(..)
            | Key::Schema(_)
            | Key::Token(_)
            | Key::Task(..)
            | Key::TaskResult(..)
    )
}

fn as_token(value: &Value) -> Option<&Token> {
    match value {
        Value::Token(token) => Some(&token.body),
        _ => None,
    }
}

fn as_schema(value: &Value) -> Option<&Schema> {
    match value {
        Value::Schema(schema) => Some(&schema.body),
        _ => None,
    }
}

fn as_exception(value: &Value) -> Option<&Exception> {
    match value {
        Value::Exception(exception) => Some(&exception.body),
        _ => None,
    }
}

/// What a schema requires for good never falls. It rises as its upgrade enters contract, or migrate where the rows that are
/// filled cannot be read below it.
fn is_next_schema(
    had: Option<&BTreeMap<ServiceName, ServiceVersion>>,
    is: &Schema,
    revision: &Revision,
) -> bool {
    let none = BTreeMap::new();
    let had = had.unwrap_or(&none);
    let enters = |written: &Written| match (&written.key, written.value()) {
        (Key::Upgrade(id), Some(Value::Upgrade(upgrade))) => {
            *id == is.upgrade && matches!(upgrade.body.phase, Phase::Migrate | Phase::Contract { .. })
        }
        _ => false,
    };
    let falls = had.iter().any(|(service, version)| is.contracted.get(service) < Some(version));
    !falls && (*had == is.contracted || revision.writes.iter().any(enters))
}

/// A token begins as a good one, and may be revoked once; each time an event says by whom.
fn is_next_token(had: Option<&Token>, is: &Token, revision: &Revision) -> bool {
    match (had, &is.revoked) {
        (None, None) => revision.names(&is.by),
        (Some(had), Some(revoked)) => {
            let same = Token { revoked: None, ..is.clone() } == *had;
            same && revision.names(&revoked.by)
        }
        _ => false,
    }
}

/// Whether a person's word about its end is all that was added to a task.
fn is_settled(had: &Task, is: &Task, revision: &Revision) -> bool {
    let who = is.settled.as_ref().map(|settled| settled.who.as_str());
    Task { settled: None, ..is.clone() } == *had && who.is_some_and(|who| revision.names(who))
}

fn is_outcome(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Succeeded | Outcome::Failed { .. })
}

/// Whether the agent that had claimed a task says how it ended.
fn ends(had: &TaskResult, is: &TaskResult) -> bool {
    let nonce = |of: &TaskResult| of.by.as_ref().map(|by| by.nonce.clone());
    had.outcome == Outcome::Claimed && is.outcome != Outcome::Claimed && nonce(had) == nonce(is)
}

/// Whether there are as many pages and members of each wave as an upgrade counts, and each node once.
fn agrees(division: &Division, pages: &[&WavePage]) -> bool {
    let members = || pages.iter().flat_map(|page| &page.members);
    let nodes: BTreeSet<_> = members().map(|(node, _)| node).collect();
    let mut sizes: BTreeMap<u32, u32> =
        (0..).zip(&division.sizes).map(|(wave, size)| (wave, *size)).collect();
    for (_, wave) in members() {
        let left = sizes.get(wave).copied().unwrap_or(0);
        sizes.insert(*wave, left.wrapping_sub(1));
    }
    usize::try_from(division.pages).is_ok_and(|count| count == pages.len())
        && nodes.len() == members().count()
        && sizes.values().all(|left| *left == 0)
}

#[cfg(test)]
mod tests;
