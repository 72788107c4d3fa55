//! The task of a watch: list, open the stream, pass on what comes, and begin again whenever it breaks.

mod content;

use super::seen::Seen;
use super::state::Position;
use crate::StoreError;
use crate::dial;
use crate::error::{self, Cause, Meaning};
use crate::retry::Retry;
use crate::scope::Range;
use crate::store::{Fall, Reader};
use etcd_client::{Error as ClientError, WatchOptions, WatchResponse};
use std::time::Duration;
use tidegate_proto::{Revision, mutant};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

/// A stream that is silent for this long is asked for its progress, and dropped when nothing comes for as long again: a
/// watch that hangs looks like a fleet at rest.
const SILENCE: Duration = Duration::from_secs(10);

/// After an outage nothing more of what was missed is awaited once a stream is silent for this long: what is missing may be
/// of other keys, and not every store answers a request for progress. etcd sends what was missed within 100 ms.
const SETTLED: Duration = Duration::from_secs(2);

/// The longest wait between two tries to come back.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Why a session over one stream ended.
enum End {
    /// The reader is gone.
    Unread,
    /// The revisions asked for are gone, or one message would be too large: list again.
    Behind,
    /// The stream broke.
    Broken(String),
    /// The store wants a new token first.
    Unauthenticated(String),
}

pub(super) struct Watcher {
    store: Reader,
    position: Position,
    sender: mpsc::Sender<Seen>,
    /// Whether all that was sent is still valid, so that a stream may resume from it.
    resumable: bool,
    /// Whether it has yet to be asked if the store has the last events.
    unconfirmed: bool,
    /// When the store was last found behind what was seen of it, by any call over the same connection.
    falls: watch::Receiver<Fall>,
    lost: bool,
    /// Where the store was when the stream was opened after an outage, until what was missed up to there is sent.
    missing: Option<Revision>,
}

impl Watcher {
    pub(super) fn new(
        store: Reader,
        listed: Vec<Range>,
        watched: Vec<Range>,
        sender: mpsc::Sender<Seen>,
    ) -> Self {
        let (position, falls) = (Position::new(listed, watched), store.falls());
        Self {
            store,
            position,
            sender,
            resumable: false,
            unconfirmed: false,
            falls,
            lost: false,
            missing: None,
        }
    }

    /// Ends when the reader is gone.
    pub(super) async fn run(mut self) {
        let mut retry = Retry::forever(LONGEST_WAIT);
        loop {
            let why = match self.session(&mut retry).await {
                End::Unread => return,
                End::Behind => {
                    self.resumable = false;
                    continue;
                }
                End::Broken(why) => why,
                End::Unauthenticated(why) => {
                    self.store.renew_token().await;
                    why
                }
            };
            tracing::debug!(%why, "a watch broke");
            if !std::mem::replace(&mut self.lost, true)
                && !self.deliver(Seen::Lost { since: Instant::now(), why }).await
            {
                return;
            }
            tokio::select! {
                _ = retry.wait() => {}
                () = self.sender.closed() => return,
            }
        }
    }

    async fn session(&mut self, retry: &mut Retry) -> End {
        match self.run_session(retry).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn run_session(&mut self, retry: &mut Retry) -> Result<std::convert::Infallible, End> {
        if self.falls.has_changed().unwrap_or(false) {
            return Err(self.fell_elsewhere().await);
        }
        self.find_place().await?;
        let mut stream = self.open().await?;
        let mut asked = false;
        loop {
            let limit = if self.missing.is_some() { SETTLED } else { SILENCE };
            let message = tokio::select! {
                biased;
                Ok(()) = self.falls.changed() => return Err(self.fell_elsewhere().await),
                message = timeout(limit, stream.message()) => message,
            };
            let message = match message {
                Ok(message) => message.map_err(end_of)?,
                Err(_) if self.missing.is_some() => {
                    self.regain().await?;
                    continue;
                }
                Err(_) if asked => return Err(End::Broken(format!("silent for {:?}", 2 * SILENCE))),
                Err(_) => {
                    asked = true;
                    stream.request_progress().await.map_err(end_of)?;
                    continue;
                }
            };
            asked = false;
            let message = message.ok_or_else(|| End::Broken("the store ended the stream".to_owned()))?;
            self.take_in(&message).await?;
            if message.created() && self.missing.is_some() {
                stream.request_progress().await.map_err(end_of)?;
            }
            // Not before: a watch that is refused is opened first and cancelled then.
            retry.reset();
        }
    }

    /// Finds where to resume: after the last reported event, if the store may still be the one that reported it; else from a
    /// list. Whether it is that store is asked once the stream is open.
    async fn find_place(&mut self) -> Result<(), End> {
        (self.unconfirmed, self.missing) = (false, None);
        if self.resumable {
            let reached = self.reached();
            let found = self.how_far().await?;
            if self.is_behind(found, reached) {
                self.restored(reached, found).await?;
            } else {
                self.unconfirmed = self.position.has_marks();
                if self.position.go_on_from_mark() {
                    return Ok(());
                }
            }
        }
        let reached = self.reached();
        let snapshot = self.store.list_ranges(self.position.listed()).await;
        let snapshot = snapshot.map_err(|error| broken("list", &error))?;
        if self.is_behind(snapshot.revision, reached) {
            self.restored(reached, snapshot.revision).await?;
        }
        self.position.was_listed(snapshot.revision);
        self.resumable = true;
        self.send(Seen::Listed(snapshot)).await?;
        self.regain().await
    }

    /// How far the store surely is, by any answer over this connection: what it answers to a question that is asked now is not
    /// below that. Nothing where the reader has seen nothing.
    fn reached(&self) -> Revision {
        let seen = self.position.seen();
        if seen.exists() { seen.max(self.store.highest_seen()) } else { seen }
    }

    /// Whether an answer is below what the store had reached when it was asked. Where another call has found that meanwhile,
    /// only what this watch has seen counts.
    fn is_behind(&self, found: Revision, reached: Revision) -> bool {
        found < reached.min(self.reached())
    }

    /// How far the store is. Linearizable, so no member that lags behind can look like a restored store; and of a key that the
    /// reader may read, whatever little that is.
    async fn how_far(&self) -> Result<Revision, End> {
        let key = self.position.watched.first().map_or("", |(range, _)| range.start());
        let answer = self.store.get_raw(key, None).await;
        let (_, found) = answer.map_err(|error| broken("see how far the store is", &error))?;
        Ok(found)
    }

    /// A stream is open, at a store that was at a revision. Another one may have taken the store's place since the place to
    /// resume was found: it would send nothing before it is as far as the former one was, and never what it has below that.
    /// So the last events are compared only now: what takes the store's place from now on ends the stream. A member that
    /// lags is behind as well, so the store is asked how far it is. Returns how far that is.
    async fn confirm(&mut self, opened_at: Option<Revision>) -> Result<Revision, End> {
        let compares = std::mem::take(&mut self.unconfirmed);
        let reached = self.reached();
        let found = match opened_at.filter(|at| *at >= reached) {
            Some(revision) if !compares => return Ok(revision),
            Some(revision) => revision,
            None => self.how_far().await?,
        };
        if self.is_behind(found, reached) {
            self.restored(reached, found).await?;
            return Err(End::Behind);
        }
        match self.has_same_content().await? {
            Some(false) => {
                self.restored(self.position.seen(), found).await?;
                Err(End::Behind)
            }
            None if compares => Err(End::Behind),
            // Of what was listed there may be no event to compare.
            Some(true) | None => Ok(found),
        }
    }

    /// A message without events came from a store at this revision, and an answer may have named a later one. A member that
    /// lags catches up. A store that was restored without what it had answered may not, and its stream would not show it.
    async fn look_behind(&mut self, at: Revision) -> Result<(), End> {
        let reached = self.reached();
        if at >= reached {
            return Ok(());
        }
        let found = self.how_far().await?;
        if self.is_behind(found, reached) {
            self.restored(reached, found).await?;
            return Err(End::Behind);
        }
        Ok(())
    }

    /// Another call found the store behind what it had answered. What this watch has seen may all be there, and what others
    /// were answered is lost all the same.
    async fn fell_elsewhere(&mut self) -> End {
        let fall = *self.falls.borrow_and_update();
        if !self.position.seen().exists() {
            return End::Behind;
        }
        match self.report(fall).await {
            Ok(()) => End::Behind,
            Err(end) => end,
        }
    }

    async fn restored(&mut self, seen: Revision, found: Revision) -> Result<(), End> {
        let fall = Fall { seen, found };
        // Another call may have found the same meanwhile.
        if !self.falls.has_changed().unwrap_or(false) {
            self.store.fell_back(fall);
        }
        // This watch lists again now.
        self.falls.mark_unchanged();
        self.report(fall).await
    }

    async fn report(&mut self, Fall { seen, found }: Fall) -> Result<(), End> {
        tracing::error!(%seen, %found, "the store is behind what was seen of it; it was restored or replaced");
        self.position.fell_back();
        // That the store is back is reported by the list.
        (self.resumable, self.unconfirmed, self.lost) = (false, false, false);
        self.send(Seen::Restored { seen, found }).await
    }

    /// Reports the end of an outage once what was missed up to the opening of the stream is sent.
    async fn caught_up(&mut self) -> Result<(), End> {
        match self.missing {
            Some(until) if self.position.seen() >= until => self.regain().await,
            _ => Ok(()),
        }
    }

    /// Reports the end of an outage, which lets a reader decide from what it has: not before it is known to be of this store,
    /// and to be no older than the outage.
    async fn regain(&mut self) -> Result<(), End> {
        self.missing = None;
        if std::mem::take(&mut self.lost) { self.send(Seen::Regained).await } else { Ok(()) }
    }

    /// One stream, with a watch for each range, numbered by its place from 1.
    async fn open(&mut self) -> Result<etcd_client::WatchStream, End> {
        let mut client = self.store.watch_client();
        let mut ranges = self.position.watched.iter().enumerate();
        let Some((_, (first, next))) = ranges.next() else {
            // Nothing is watched: the list is final.
            self.sender.closed().await;
            return Err(End::Unread);
        };
        let opened = client.watch(first.start(), Some(options(0, first, *next)));
        let mut stream = dial::limited(opened).await.map_err(end_of)?;
        for (place, (range, next)) in ranges {
            stream.watch(range.start(), Some(options(place, range, *next))).await.map_err(end_of)?;
        }
        Ok(stream)
    }

    async fn take_in(&mut self, message: &WatchResponse) -> Result<(), End> {
        if message.canceled() {
            // The client has no error for it: a watch that fell behind a compaction just ends so.
            return Err(match message.cancel_reason() {
                _ if message.compact_revision() > 0 => End::Behind,
                why if why.contains("auth token") => End::Unauthenticated(why.to_owned()),
                why => End::Broken(format!("the store ended the watch: {why}")),
            });
        }
        let header = message.header().map(|header| Revision(header.revision()));
        if let Some(revision) = header {
            self.store.saw(revision);
        }
        if message.created() {
            let found = self.confirm(header).await?;
            self.missing = self.lost.then_some(found);
            return self.caught_up().await;
        }
        let place = usize::try_from(message.watch_id() - 1).ok();
        if let Some(place) = place.filter(|_| !message.events().is_empty()) {
            for seen in self.position.take_in(place, self.store.prefix(), message.events()) {
                self.send(seen).await?;
            }
            return self.caught_up().await;
        }
        let Some(revision) = header else { return Ok(()) };
        self.look_behind(revision).await?;
        if self.is_progress(message, place) { self.progress(revision).await } else { Ok(()) }
    }

    /// An empty message says how far the store is. That of one watch comes in its order; that of the whole stream only
    /// from a store that orders them.
    fn is_progress(&self, message: &WatchResponse, place: Option<usize>) -> bool {
        let whole = match place {
            Some(_) => self.position.watched.len() == 1,
            None => self.store.orders_progress(),
        };
        whole && !message.created()
    }

    async fn progress(&mut self, revision: Revision) -> Result<(), End> {
        if revision <= self.position.seen() {
            return Ok(());
        }
        self.position.reached(revision);
        self.send(Seen::Progress { revision }).await?;
        self.caught_up().await
    }

    async fn send(&self, seen: Seen) -> Result<(), End> {
        if self.deliver(seen).await { Ok(()) } else { Err(End::Unread) }
    }

    async fn deliver(&self, seen: Seen) -> bool {
        self.sender.send(seen).await.is_ok()
    }
}

fn options(place: usize, range: &Range, next: Revision) -> WatchOptions {
    let id = i64::try_from(place).unwrap_or(i64::MAX - 1) + 1;
    // No fragments: each message has whole revisions, so each revision can be passed on at once.
    WatchOptions::new()
        .with_range(range.end())
        .with_start_revision(if mutant::is("watch-begins-at-the-present") { 0 } else { next.0 })
        .with_watch_id(id)
        .with_progress_notify()
}

fn end_of(error: ClientError) -> End {
    match error::meaning(&error) {
        Meaning::Compacted | Meaning::TooLarge => End::Behind,
        Meaning::Authentication => End::Unauthenticated(Cause::of(&error).to_string()),
        _ => End::Broken(Cause::of(&error).to_string()),
    }
}

fn broken(attempt: &str, error: &StoreError) -> End {
    let why = match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    tracing::debug!(attempt, %why, "a watch could not go on");
    End::Broken(why)
}
