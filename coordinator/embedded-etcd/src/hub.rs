//! Who watches what. A commit only marks the watches that it concerns with its revision and wakes their streams; the
//! events themselves are read from the history by each stream in its own time. So a slow watcher costs one number,
//! whatever it misses, and never holds a writer up.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    kv::{KeyRange, Revision},
    mutant,
};

/// A watch: the stream that it belongs to and its id there.
type WatchKey = (u64, i64);

#[derive(Debug)]
struct Registered {
    range: KeyRange,
    /// No revision below this one concerns the watch.
    from: i64,
    /// The first revision that concerns it and that its stream has not taken up.
    pending: Option<i64>,
}

#[derive(Debug)]
struct Stream {
    wake: Arc<Notify>,
    watches: HashMap<i64, Registered>,
    ready: VecDeque<i64>,
}

#[derive(Debug, Default)]
struct Board {
    published: i64,
    next_stream: u64,
    streams: HashMap<u64, Stream>,
    single: HashMap<Vec<u8>, Vec<WatchKey>>,
    ranges: BTreeMap<WatchKey, KeyRange>,
}

/// The watches of all streams, and the last revision that they may see.
#[derive(Debug)]
pub(crate) struct Hub {
    board: Mutex<Board>,
}

/// A watch with news: its id and the first revision to read from.
pub(crate) type Ready = (i64, i64);

impl Hub {
    pub(crate) fn new(published: i64) -> Self {
        Self { board: Mutex::new(Board { published, ..Board::default() }) }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // No function of this file can panic half way through a change of the board.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last revision that watches may see.
    pub(crate) fn published(&self) -> i64 {
        self.board().published
    }

    /// Makes revisions visible, in order, and wakes the streams that they concern.
    pub(crate) fn publish<'a>(&self, revisions: impl IntoIterator<Item = &'a Arc<Revision>>) {
        let mut board = self.board();
        for revision in revisions {
            board.published = board.published.max(revision.number);
            for change in &revision.changes {
                board.mark(change.key(), revision.number);
            }
        }
    }

    /// Opens a stream: a set of watches that wake the same task.
    pub(crate) fn open_stream(&self) -> (u64, Arc<Notify>) {
        let mut board = self.board();
        let id = board.next_stream;
        board.next_stream += 1;
        let wake = Arc::new(Notify::new());
        board
            .streams
            .insert(id, Stream { wake: wake.clone(), watches: HashMap::new(), ready: VecDeque::new() });
        (id, wake)
    }

    /// Closes a stream with all of its watches.
    pub(crate) fn close_stream(&self, stream: u64) {
        let mut board = self.board();
        let watches = board.streams.remove(&stream).map(|stream| stream.watches).unwrap_or_default();
        for (id, watch) in watches {
            board.forget((stream, id), &watch.range);
        }
    }

    /// Adds a watch from revision `start` on; 0 or less means from the next one. Answers the revision that is
    /// visible at that moment.
    pub(crate) fn add(&self, stream: u64, id: i64, range: KeyRange, start: i64) -> i64 {
        let mut board = self.board();
        let published = board.published;
        match range.single() {
            Some(key) => board.single.entry(key.to_vec()).or_default().push((stream, id)),
            None => drop(board.ranges.insert((stream, id), range.clone())),
        }
        let from = if start <= 0 { published + 1 } else { start };
        if let Some(stream) = board.streams.get_mut(&stream) {
            let last = published - i64::from(mutant::is("single-missed-revision-is-not-reported"));
            let pending = (from <= last).then_some(from);
            if pending.is_some() {
                stream.ready.push_back(id);
                stream.wake.notify_one();
            }
            stream.watches.insert(id, Registered { range, from, pending });
        }
        published
    }

    /// Removes a watch.
    pub(crate) fn remove(&self, stream: u64, id: i64) {
        let mut board = self.board();
        let watch = board.streams.get_mut(&stream).and_then(|stream| stream.watches.remove(&id));
        if let Some(watch) = watch {
            board.forget((stream, id), &watch.range);
        }
    }

    /// Takes the watches that have news, and the revision up to which they have it. None means that the stream
    /// has taken up everything up to that revision.
    pub(crate) fn take_ready(&self, stream: u64) -> (Vec<Ready>, i64) {
        let mut board = self.board();
        let published = board.published;
        let Some(stream) = board.streams.get_mut(&stream) else { return (Vec::new(), published) };
        let mut ready = Vec::new();
        while let Some(id) = stream.ready.pop_front() {
            let pending = stream.watches.get_mut(&id).and_then(|watch| watch.pending.take());
            ready.extend(pending.map(|from| (id, from)));
        }
        (ready, published)
    }
}

impl Board {
    fn mark(&mut self, key: &[u8], revision: i64) {
        let single = self.single.get(key).into_iter().flatten();
        let ranges = self.ranges.iter().filter(|(_, range)| range.contains(key)).map(|(watch, _)| watch);
        for (stream, id) in single.chain(ranges) {
            let Some(stream) = self.streams.get_mut(stream) else { continue };
            let Some(watch) = stream.watches.get_mut(id) else { continue };
            if revision >= watch.from && watch.pending.is_none() {
                watch.pending = Some(revision);
                stream.ready.push_back(*id);
                stream.wake.notify_one();
            }
        }
    }

    fn forget(&mut self, watch: WatchKey, range: &KeyRange) {
        self.ranges.remove(&watch);
        let Some(key) = range.single() else { return };
        if let Some(watches) = self.single.get_mut(key) {
            watches.retain(|other| *other != watch);
            if watches.is_empty() {
                self.single.remove(key);
            }
        }
    }
}
