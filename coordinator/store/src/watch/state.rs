//! How far a watch has come, in each of its ranges, and what the store's messages become. Opens no connection.

use super::seen::{Change, Seen};
use crate::entry;
use crate::scope::Range;
use etcd_client::{Event, EventType};
use std::collections::VecDeque;
use tidegate_proto::{Prefix, Revision, mutant};

/// How many revisions are remembered to know a history again. An agent may say the same once more at the same revision of a
/// restored store, so that the last event alone does not show what else was lost.
const MARKS: usize = 16;

/// How far a watch has come.
pub(super) struct Position {
    /// What the reader asked for.
    listed: Vec<Range>,
    /// What the store watches, each with the first revision that is not sent yet.
    pub(super) watched: Vec<(Range, Revision)>,
    /// The highest revision that was sent, in any range. A stream that resumes may begin below it.
    sent: Revision,
    /// The revision of the last list.
    listed_at: Revision,
    /// An event of each of the last revisions of the one range, where there is but one; the newest last.
    marks: VecDeque<Mark>,
}

/// An event by which a history is known again: a store that was restored has another at that revision, however far it has
/// come since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) key: String,
    pub(super) at: Revision,
    /// None where the key was removed.
    pub(super) value: Option<Vec<u8>>,
    /// Whether the key was made by this event: an older copy of the store has nothing there.
    is_new: bool,
}

impl Mark {
    fn of(event: &Event) -> Option<Self> {
        let kv = event.kv()?;
        let value = (event.event_type() == EventType::Put).then(|| kv.value().to_vec());
        let is_new = kv.create_revision() == kv.mod_revision();
        Some(Self { key: kv.key_str().ok()?.to_owned(), at: Revision(kv.mod_revision()), value, is_new })
    }
}

impl Position {
    pub(super) fn new(listed: Vec<Range>, watched: Vec<Range>) -> Self {
        let watched = watched.into_iter().map(|range| (range, Revision(0))).collect();
        Self { listed, watched, sent: Revision(0), listed_at: Revision(0), marks: VecDeque::new() }
    }

    /// Events of the last revisions, the newest first, of a watch over one range.
    pub(super) fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().rev()
    }

    /// Whether there is an event by which the history can be known again.
    pub(super) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// The history is followed from the newest mark on, where it is the one that the marks are of. False where there is no
    /// mark since the last list: what was listed after it may be of another history, and is listed again.
    pub(super) fn go_on_from_mark(&mut self) -> bool {
        let newest = self.marks.back().filter(|mark| mark.at >= self.listed_at);
        let (Some(mark), [(_, next)]) = (newest, &mut self.watched[..]) else { return false };
        let late = i64::from(mutant::is("watch-resumes-one-revision-late"));
        *next = Revision(mark.at.0 + 1 + late);
        true
    }

    pub(super) fn listed(&self) -> &[Range] {
        &self.listed
    }

    /// The highest revision that was sent, in any range.
    pub(super) fn seen(&self) -> Revision {
        self.sent
    }

    /// Everything was listed at this revision.
    pub(super) fn was_listed(&mut self, revision: Revision) {
        self.listed_at = revision;
        self.reached(revision);
    }

    /// Everything up to this revision is sent, in all ranges.
    pub(super) fn reached(&mut self, revision: Revision) {
        for (_, next) in &mut self.watched {
            next.0 = next.0.max(revision.0 + 1);
        }
        self.sent = self.sent.max(revision);
    }

    /// A store that fell back counts from there.
    pub(super) fn fell_back(&mut self) {
        self.watched.iter_mut().for_each(|(_, next)| *next = Revision(0));
        (self.sent, self.listed_at) = (Revision(0), Revision(0));
        self.marks.clear();
    }

    /// An event of each revision: the last one of a key that was there before, else the last.
    fn remember(&mut self, events: &[Event]) {
        for mark in events.iter().filter_map(Mark::of) {
            // What comes once more is remembered already.
            if self.marks.back().is_some_and(|last| last.at > mark.at) {
                continue;
            }
            match self.marks.back_mut().filter(|last| last.at == mark.at) {
                Some(last) if mark.is_new && !last.is_new => {}
                Some(last) => *last = mark,
                None => self.marks.push_back(mark),
            }
        }
        while self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }

    /// What one message of a range becomes: an item for each revision, without what was sent already.
    pub(super) fn take_in(&mut self, place: usize, prefix: &Prefix, events: &[Event]) -> Vec<Seen> {
        if self.watched.len() == 1 {
            self.remember(events);
        }
        let Some((_, next)) = self.watched.get_mut(place) else { return Vec::new() };
        let mut seen: Vec<Seen> = Vec::new();
        let mut last = *next;
        for event in events {
            let Some(kv) = event.kv().filter(|kv| kv.mod_revision() >= next.0) else { continue };
            let revision = Revision(kv.mod_revision());
            last = last.max(Revision(revision.0 + 1));
            if !self.listed.iter().any(|range| range.holds(kv.key())) {
                continue;
            }
            let change = read(prefix, event.event_type(), kv, revision);
            match seen.last_mut() {
                Some(Seen::Changed { revision: at, changes }) if *at == revision => changes.push(change),
                _ => seen.push(Seen::Changed { revision, changes: vec![change] }),
            }
        }
        *next = last;
        self.sent = self.sent.max(Revision(last.0 - 1));
        seen
    }
}

fn read(prefix: &Prefix, kind: EventType, kv: &etcd_client::KeyValue, revision: Revision) -> Change {
    let read = match kind {
        EventType::Put => entry::read(prefix, kv).map(Change::Put),
        EventType::Delete => entry::read_key(prefix, kv.key()).map(|key| Change::Gone { key, revision }),
    };
    read.unwrap_or_else(|(key, why)| Change::Foreign { key, why, revision })
}
