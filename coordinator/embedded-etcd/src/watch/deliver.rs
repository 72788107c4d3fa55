//! Reads what one watch has not seen from the history and makes the messages of it, a bounded piece at a time.
//!
//! # Invariants
//! * The events of one revision are never spread over two messages, unless the watch asked for fragments.
//! * A message's header names the revision of its last event: everything up to it has been sent.

use etcd_client::proto::{PbEvent, PbWatchResponse};
use prost::Message;

use crate::{
    engine::{Engine, State},
    kv::{Change, KeyRange},
};

/// Most revisions in one message of a watch that catches up: etcd's number.
const MAX_REVISIONS: usize = 1000;

/// A message of a watch that catches up is closed when it is larger than this, in bytes: a quarter of what clients
/// take, so that even with one more revision of the largest request it fits.
const FULL: usize = 1 << 20;

/// The size in bytes above which a message is cut into fragments, where they are asked for: etcd's number.
const FRAGMENT: usize = (3 << 19) + (512 << 10);

/// What a client asked of a watch.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) id: i64,
    pub(crate) range: KeyRange,
    pub(crate) prev_kv: bool,
    pub(crate) puts: bool,
    pub(crate) deletes: bool,
    pub(crate) fragment: bool,
    pub(crate) progress: bool,
}

/// The next piece of a watch's past.
pub(crate) enum Piece {
    /// Messages, none if nothing concerned the watch, and the first revision that was not looked at.
    Messages { messages: Vec<PbWatchResponse>, next: i64 },
    /// The watch is so far behind that what it missed is forgotten; the compacted revision.
    Compacted(i64),
}

/// Reads from revision `from` up to `last` at most.
pub(crate) fn read(engine: &Engine, subscription: &Subscription, from: i64, last: i64) -> Piece {
    let collected = engine.peek(|state| {
        if state.kv.remembers(from) {
            Ok(collect(state, subscription, from, last))
        } else {
            Err(state.kv.compacted())
        }
    });
    match collected {
        Err(compacted) => Piece::Compacted(compacted),
        Ok((events, next)) => Piece::Messages { messages: messages(engine, subscription, events), next },
    }
}

fn collect(state: &State, subscription: &Subscription, from: i64, last: i64) -> (Vec<PbEvent>, i64) {
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut notified = 0;
    for revision in state.kv.revisions(from, last) {
        let before = events.len();
        for change in &revision.changes {
            if subscription.wants(change) {
                let event = event(state, subscription, change, revision.number);
                bytes += event.encoded_len();
                events.push(event);
            }
        }
        notified += usize::from(events.len() > before);
        if notified >= MAX_REVISIONS || bytes >= FULL {
            return (events, revision.number + 1);
        }
    }
    (events, last + 1)
}

impl Subscription {
    fn wants(&self, change: &Change) -> bool {
        let kind = match change {
            Change::Put(_) => self.puts,
            Change::Delete { .. } => self.deletes,
        };
        kind && self.range.contains(change.key())
    }
}

/// The previous state is that at the revision before, as etcd has it; a key that was just made has none.
fn event(state: &State, subscription: &Subscription, change: &Change, revision: i64) -> PbEvent {
    let mut event = change.event(revision);
    let created = matches!(change, Change::Put(kv) if kv.create_revision == kv.mod_revision);
    if subscription.prev_kv && !created {
        event.prev_kv = state.kv.at(change.key(), revision - 1).map(|kv| kv.as_ref().clone());
    }
    event
}

fn messages(engine: &Engine, subscription: &Subscription, events: Vec<PbEvent>) -> Vec<PbWatchResponse> {
    let Some(last) = events.last().and_then(|event| event.kv.as_ref()) else { return Vec::new() };
    let whole = PbWatchResponse {
        header: Some(engine.header(last.mod_revision)),
        watch_id: subscription.id,
        events,
        ..PbWatchResponse::default()
    };
    if subscription.fragment && whole.encoded_len() >= FRAGMENT { fragments(whole) } else { vec![whole] }
}

/// Cuts a message so that each part is below the limit, or holds a single event; all but the last say that more follows.
fn fragments(whole: PbWatchResponse) -> Vec<PbWatchResponse> {
    let mut parts: Vec<PbWatchResponse> = Vec::new();
    let mut bytes = FRAGMENT;
    let empty = PbWatchResponse { events: Vec::new(), ..whole.clone() };
    for event in whole.events {
        // A field number and a length of up to three bytes precede each event.
        let size = event.encoded_len() + 5;
        if bytes + size >= FRAGMENT {
            parts.push(PbWatchResponse { fragment: true, ..empty.clone() });
            bytes = empty.encoded_len() + 2;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.events.push(event);
        }
    }
    if let Some(part) = parts.last_mut() {
        part.fragment = false;
    }
    parts
}
