//! What etcd does, as facts about any store behind a client: written once, and held against every form of the
//! embedded store and against a real etcd. The facts are those that Tidegate rests on.
//!
//! The store must be fresh: some facts are about its first revision, and the last ones compact it.

mod keys;
mod leases;
mod transactions;
mod watches;

use std::time::Duration;

use etcd_client::{Client, Error, Event, EventType, WatchResponse, WatchStream};

/// How long anything that must happen may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Every fact, in turn, each below a prefix of its own.
pub(crate) async fn hold(client: &mut Client) {
    keys::of_a_fresh_store(client).await;
    keys::versions_and_revisions(client).await;
    keys::ranges(client).await;
    keys::orders_and_limits(client).await;
    keys::filters(client).await;
    keys::puts_that_keep(client).await;
    keys::past_and_future(client).await;
    keys::bad_requests(client).await;
    transactions::compares_over_ranges(client).await;
    transactions::compares_over_nothing(client).await;
    transactions::writes_are_seen_within(client).await;
    transactions::nested(client).await;
    transactions::limits(client).await;
    transactions::all_or_nothing(client).await;
    watches::replay(client).await;
    watches::live(client).await;
    watches::filters_and_previous(client).await;
    watches::many_on_one_stream(client).await;
    watches::progress(client).await;
    watches::fragments(client).await;
    leases::grant_and_list(client).await;
    leases::keys_go_with_their_lease(client).await;
    leases::keep_alive_is_silent(client).await;
    leases::expiry(client).await;
    watches::compacted(client).await;
    keys::compacted(client).await;
}

/// The code and text with which a request was refused.
pub(crate) fn refusal<T>(result: Result<T, Error>) -> (tonic::Code, String) {
    match result {
        Ok(_) => (tonic::Code::Ok, String::new()),
        Err(Error::GRpcStatus(status)) => (status.code(), status.message().to_owned()),
        Err(other) => panic!("expected an answer of the server, got {other}"),
    }
}

/// The next message of a watch stream.
pub(crate) async fn next(stream: &mut WatchStream) -> WatchResponse {
    tokio::time::timeout(LIMIT, stream.message())
        .await
        .expect("no message within the limit")
        .expect("the stream failed")
        .expect("the stream ended")
}

/// Messages of one watch until so many events have come: the events, and how many each message held.
pub(crate) async fn events(stream: &mut WatchStream, count: usize) -> (Vec<String>, Vec<usize>) {
    let (mut reported, mut sizes) = (Vec::new(), Vec::new());
    while reported.len() < count {
        let message = next(stream).await;
        assert!(!message.canceled(), "canceled after {reported:?}");
        sizes.push(message.events().len());
        reported.extend(message.events().iter().map(text));
    }
    (reported, sizes)
}

/// One event as text: `+key=value` or `-key`, and the previous state in brackets if there is one.
pub(crate) fn text(event: &Event) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let kv = event.kv().expect("an event has a key");
    let before = event.prev_kv().map(|kv| format!(" [{}]", text(kv.value()))).unwrap_or_default();
    match event.event_type() {
        EventType::Put => format!("+{}={}{before}", text(kv.key()), text(kv.value())),
        EventType::Delete => format!("-{}{before}", text(kv.key())),
    }
}
