//! One watch stream of one client: takes its requests, and sends each of its watches their events.
//!
//! A stream is one task. It reads history at the pace at which its client takes messages, so that a client that does
//! not read delays only its own few messages here.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use etcd_client::proto::{PbWatchRequest, PbWatchRequestUnion, PbWatchResponse};
use futures::Stream;
use tokio::{
    sync::{Notify, mpsc},
    time::MissedTickBehavior,
};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::deliver::{self, Piece, Subscription};
use crate::{engine::Engine, kv::KeyRange, refusal::Refusal};

/// How often a watch that asked for progress gets it while nothing else is sent: etcd's interval.
const PROGRESS: Duration = Duration::from_secs(600);

/// The watch id of an answer that concerns the stream and not one watch.
const WHOLE_STREAM: i64 = -1;

/// Watch filters, by etcd's numbers.
const NO_PUT: i32 = 0;
const NO_DELETE: i32 = 1;

/// Where a stream's messages go.
pub(crate) type Outbox = mpsc::Sender<Result<PbWatchResponse, Status>>;

struct Session {
    engine: Arc<Engine>,
    outbox: Outbox,
    stream: u64,
    watches: BTreeMap<i64, Subscription>,
    next_id: i64,
    /// Watches with unsent revisions, and the span of these.
    backlog: VecDeque<(i64, i64, i64)>,
    /// Whether the client asked for the revision that was sent last.
    progress_asked: bool,
    /// Watches that were sent something since the last progress interval.
    notified: HashSet<i64>,
}

/// The client no longer listens.
struct Gone;

impl Drop for Session {
    fn drop(&mut self) {
        self.engine.durable().hub().close_stream(self.stream);
    }
}

/// Serves a stream until the client ends it, or `stop` does.
pub(crate) async fn run(
    engine: Arc<Engine>,
    mut requests: impl Stream<Item = Result<PbWatchRequest, Status>> + Unpin,
    outbox: Outbox,
    stop: CancellationToken,
) {
    let (mut session, wake) = Session::open(engine, outbox);
    let mut progress = tokio::time::interval(PROGRESS);
    progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
    progress.reset();
    // The client's end and the store's are waited for once, not once for each message.
    let outbox = session.outbox.clone();
    let (mut stopped, mut left) = (pin!(stop.cancelled()), pin!(outbox.closed()));
    loop {
        let done = tokio::select! {
            biased;
            () = &mut stopped => {
                // A client that takes nothing is not waited for.
                drop(session.outbox.try_send(Err(Refusal::Stopped.into())));
                return;
            }
            () = &mut left => return,
            // A stream without messages looks like a store without changes, so it ends with an error and its client asks again.
            fault = session.engine.durable().faulty() => {
                drop(session.outbox.try_send(Err(fault.refusal().into())));
                return;
            }
            request = requests.next() => match request {
                Some(Ok(request)) => session.take(request).await,
                Some(Err(_)) | None => return,
            },
            _ = progress.tick() => session.send_progress_of_watches().await,
            () = std::future::ready(()), if !session.backlog.is_empty() => session.send_next().await,
            () = wake.notified() => session.take_news().await,
        };
        if done.is_err() {
            return;
        }
    }
}

impl Session {
    /// A stream without watches, and what wakes it.
    fn open(engine: Arc<Engine>, outbox: Outbox) -> (Self, Arc<Notify>) {
        let (stream, wake) = engine.durable().hub().open_stream();
        let (watches, backlog, notified) = (BTreeMap::new(), VecDeque::new(), HashSet::new());
        let session =
            Self { engine, outbox, stream, watches, next_id: 0, backlog, progress_asked: false, notified };
        (session, wake)
    }

    async fn send(&self, message: PbWatchResponse) -> Result<(), Gone> {
        self.outbox.send(Ok(message)).await.map_err(|_| Gone)
    }

    async fn take(&mut self, request: PbWatchRequest) -> Result<(), Gone> {
        match request.request_union {
            Some(PbWatchRequestUnion::CreateRequest(create)) => {
                let filters = create.filters;
                let subscription = Subscription {
                    id: create.watch_id,
                    range: watched_range(&create.key, &create.range_end),
                    prev_kv: create.prev_kv,
                    puts: !filters.contains(&NO_PUT),
                    deletes: !filters.contains(&NO_DELETE),
                    fragment: create.fragment,
                    progress: create.progress_notify,
                };
                self.create(subscription, create.start_revision).await
            }
            Some(PbWatchRequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id).await,
            Some(PbWatchRequestUnion::ProgressRequest(_)) => {
                self.progress_asked = true;
                self.take_news().await
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, mut subscription: Subscription, start: i64) -> Result<(), Gone> {
        let refused = if subscription.range.is_empty() {
            Some("mvcc: watcher range is empty")
        } else if subscription.id != 0 && self.watches.contains_key(&subscription.id) {
            Some("mvcc: duplicate watch ID provided on the WatchStream")
        } else {
            None
        };
        let hub = self.engine.durable().hub();
        if let Some(reason) = refused {
            return self
                .send(PbWatchResponse {
                    header: Some(self.engine.header(hub.published())),
                    watch_id: WHOLE_STREAM,
                    created: true,
                    canceled: true,
                    cancel_reason: reason.to_owned(),
                    ..PbWatchResponse::default()
                })
                .await;
        }
        if subscription.id == 0 {
            while self.watches.contains_key(&self.next_id) {
                self.next_id += 1;
            }
            subscription.id = self.next_id;
            self.next_id += 1;
        }
        let id = subscription.id;
        let compacted = self.engine.peek(|state| state.kv.compacted());
        let published = hub.add(self.stream, id, subscription.range.clone(), start);
        self.watches.insert(id, subscription);
        self.send(PbWatchResponse {
            header: Some(self.engine.header(published)),
            watch_id: id,
            created: true,
            ..PbWatchResponse::default()
        })
        .await?;
        if start > 0 && start < compacted { self.end_compacted(id, compacted).await } else { Ok(()) }
    }

    async fn cancel(&mut self, id: i64) -> Result<(), Gone> {
        if self.watches.remove(&id).is_none() {
            return Ok(());
        }
        self.forget(id);
        self.send(PbWatchResponse {
            header: Some(self.engine.header(self.engine.durable().hub().published())),
            watch_id: id,
            canceled: true,
            ..PbWatchResponse::default()
        })
        .await
    }

    fn forget(&mut self, id: i64) {
        self.engine.durable().hub().remove(self.stream, id);
        self.backlog.retain(|(waiting, _, _)| *waiting != id);
        self.notified.remove(&id);
    }

    /// Takes up what was published since; when all of it is sent, answers a request for progress.
    async fn take_news(&mut self) -> Result<(), Gone> {
        let (ready, published) = self.engine.durable().hub().take_ready(self.stream);
        for (id, from) in ready {
            match self.backlog.iter_mut().find(|(waiting, _, _)| *waiting == id) {
                // Queued behind the watch's earlier revisions; nothing between concerns it.
                Some((_, _, last)) => *last = published,
                None => self.backlog.push_back((id, from, published)),
            }
        }
        if self.backlog.is_empty() && std::mem::take(&mut self.progress_asked) {
            return self.send_progress(WHOLE_STREAM, published).await;
        }
        Ok(())
    }

    /// Sends one watch one piece of its backlog, and puts it behind the others.
    async fn send_next(&mut self) -> Result<(), Gone> {
        if let Some((id, from, last)) = self.backlog.pop_front()
            && let Some(subscription) = self.watches.get(&id)
        {
            match deliver::read(&self.engine, subscription, from, last) {
                Piece::Compacted(revision) => self.end_compacted(id, revision).await?,
                Piece::Messages { messages, next } => {
                    if next <= last {
                        self.backlog.push_back((id, next, last));
                    }
                    for message in messages {
                        self.notified.insert(id);
                        self.send(message).await?;
                    }
                }
            }
        }
        if self.backlog.is_empty() { self.take_news().await } else { Ok(()) }
    }

    async fn end_compacted(&mut self, id: i64, compact_revision: i64) -> Result<(), Gone> {
        self.watches.remove(&id);
        self.forget(id);
        self.send(PbWatchResponse {
            header: Some(self.engine.header(self.engine.durable().hub().published())),
            watch_id: id,
            canceled: true,
            compact_revision,
            ..PbWatchResponse::default()
        })
        .await
    }

    async fn send_progress(&self, id: i64, revision: i64) -> Result<(), Gone> {
        self.send(PbWatchResponse {
            header: Some(self.engine.header(revision)),
            watch_id: id,
            ..PbWatchResponse::default()
        })
        .await
    }

    /// Sends progress to the watches that asked for it, and were sent nothing for an interval.
    async fn send_progress_of_watches(&mut self) -> Result<(), Gone> {
        let notified = std::mem::take(&mut self.notified);
        // Before the news is taken up: what is published after that is not sent yet, and a client skips what it gets later.
        let published = self.engine.durable().hub().published();
        self.take_news().await?;
        if !self.backlog.is_empty() {
            return Ok(());
        }
        let quiet: Vec<i64> = self
            .watches
            .values()
            .filter(|subscription| subscription.progress && !notified.contains(&subscription.id))
            .map(|subscription| subscription.id)
            .collect();
        for id in quiet {
            self.send_progress(id, published).await?;
        }
        Ok(())
    }
}

/// An empty key means the first possible one, as in etcd.
fn watched_range(key: &[u8], range_end: &[u8]) -> KeyRange {
    KeyRange::new(if key.is_empty() { b"\0" } else { key }, range_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Embedded;

    #[tokio::test]
    async fn progress_of_a_watch_does_not_overtake_its_events() {
        let store = Embedded::in_memory();
        let mut client = store.client().await.unwrap();
        let engine = Arc::clone(store.engine());
        let (outbox, mut messages) = mpsc::channel(1);
        let (mut session, _) = Session::open(engine, outbox);
        session.progress_asked = true;
        let subscription = Subscription {
            id: 1,
            range: watched_range(b"key", b""),
            prev_kv: false,
            puts: true,
            deletes: true,
            fragment: false,
            progress: true,
        };
        assert!(session.create(subscription, 0).await.is_ok());
        // The message of the creation fills the channel: the answer to the client's own request waits while the key is put.
        let (sent, (made, reached)) = tokio::join!(session.send_progress_of_watches(), async {
            let made = client.put("key", "", None).await.unwrap().header().unwrap().revision();
            let mut reached = Vec::new();
            for _ in 0..3 {
                let message = messages.recv().await.unwrap().unwrap();
                reached.push((message.watch_id, message.header.unwrap().revision));
            }
            (made, reached)
        });
        assert!(sent.is_ok());
        assert_eq!(reached, [(1, made - 1), (WHOLE_STREAM, made - 1), (1, made - 1)]);
    }
}
