//! Hostile requests of the etcd protocol, as bytes behind HTTP/2: a method and one message.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tidegate_embedded_etcd::Embedded;
use tidegate_fuzz::{Border, Counting, Form, Limits, Shape, measure};
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many requests one store gets: what they leave in it must not count as their own memory.
const REQUESTS: u32 = 500;

/// How long a stream is read that has no end of its own.
const STREAM: Duration = Duration::from_millis(1);

/// A store on one thread, so that all it allocates is counted.
struct Server {
    runtime: Runtime,
    store: RefCell<Embedded>,
    requests: Cell<u32>,
}

impl Server {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = RefCell::new(runtime.block_on(filled()));
        Self { runtime, store, requests: Cell::new(0) }
    }

    /// Answers a call: a line with the method, and its message; of a stream, each field is a request.
    fn answer(&self, call: &[u8]) {
        let Some(at) = call.iter().position(|b| *b == b'\n') else { return };
        let Ok(uri) = http::Uri::try_from(&call[..at]) else { return };
        let message = &call[at + 1..];
        let is_stream = uri.path().ends_with("/Watch") || uri.path().ends_with("KeepAlive");
        let frames = if is_stream { requests(message) } else { vec![framed(message)] };
        let frames = stream::iter(frames.into_iter().map(|frame| Ok::<_, tonic::Status>(Frame::data(frame))));
        // A client that streams goes on listening after its last request.
        let body = if is_stream {
            Body::new(StreamBody::new(frames.chain(stream::pending())))
        } else {
            Body::new(StreamBody::new(frames))
        };
        let request = http::Request::post(uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)
            .unwrap();
        let mut channel = self.store.borrow().channel();
        self.runtime.block_on(async {
            std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
            let response = channel.call(request).await.unwrap();
            // A stream may go on for as long as its client listens.
            let _ = tokio::time::timeout(STREAM, response.into_body().collect()).await;
        });
    }

    /// Answers a call, by a new store now and then.
    fn answer_in_new_store(&self, call: &[u8]) {
        if self.requests.replace(self.requests.get() + 1).is_multiple_of(REQUESTS) {
            let old = self.store.replace(self.runtime.block_on(filled()));
            self.runtime.block_on(old.close());
        }
        self.answer(call);
        // It still answers every other client.
        let store = self.store.borrow().clone();
        self.runtime.block_on(async {
            let mut client = store.client().await.unwrap();
            client.get("/a/1", None).await.unwrap();
        });
    }
}

/// A message as it is framed on the wire.
fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

/// The requests of a stream: each follows a tag and its length. What is no such series is one request.
fn requests(mut series: &[u8]) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while let [10, length, rest @ ..] = series
        && let Some((request, after)) = rest.split_at_checked(usize::from(*length))
    {
        frames.push(framed(request));
        series = after;
    }
    if !series.is_empty() {
        frames.push(framed(series));
    }
    frames
}

async fn filled() -> Embedded {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let lease = etcd_client::LeaseGrantOptions::new().with_id(7);
    client.lease_grant(600, Some(lease)).await.unwrap();
    for n in 0..20 {
        client.put(format!("/a/{n}"), "value", None).await.unwrap();
    }
    store
}

fn border() -> Border {
    // What a store holds is part of an answer; each operation of two bytes is a message of some hundred.
    Border::new(env!("CARGO_MANIFEST_DIR"), "etcd", Form::Call).within(Limits {
        base: 8 << 20,
        per_byte: 512,
        turnover: 4,
    })
}

#[test]
fn hostile_etcd_request_is_answered_or_refused() {
    let server = Server::new();
    border().holds(|call| server.answer_in_new_store(call));
}

#[test]
fn request_beyond_etcds_limit_is_not_read() {
    let server = Server::new();
    let call = [b"/etcdserverpb.KV/Txn\n".to_vec(), b"\x0a\x00".repeat(4 << 20)].concat();
    let ((), usage) = measure(|| server.answer(&call));
    // Twice as the call, which is made here and taken over by the server.
    let allowed = 4 * call.len() as u64;
    assert!(usage.peak < allowed, "{} bytes were held, {allowed} are allowed", usage.peak);
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field with a length.
fn field(number: usize, value: &[u8]) -> Vec<u8> {
    [varint((number << 3) | 2), varint(value.len()), value.to_vec()].concat()
}

/// A transaction whose success has these operations, each with its number among the kinds of operation.
fn transaction(operations: impl IntoIterator<Item = (usize, Vec<u8>)>) -> Vec<u8> {
    operations.into_iter().flat_map(|(kind, operation)| field(2, &field(kind, &operation))).collect()
}

const PUT: usize = 2;
const DELETE: usize = 3;
const TXN: usize = 4;

/// Nested transactions; the widths of all levels add up to what is allowed: more than 70,000 operations would be.
fn nested(bytes: usize, operation: impl Fn(usize) -> (usize, Vec<u8>)) -> Vec<u8> {
    const WIDTH: usize = 36;
    let each = (bytes / WIDTH / WIDTH / 14).clamp(1, 56);
    let leaf = |n: usize| (TXN, transaction((0..each).map(|m| operation(n * each + m))));
    let inner = |n: usize| (TXN, transaction((0..WIDTH).map(|m| leaf(n * WIDTH + m))));
    [b"/etcdserverpb.KV/Txn\n".to_vec(), transaction((0..WIDTH).map(inner))].concat()
}

#[test]
fn etcd_request_is_answered_in_linear_time() {
    let server = Server::new();
    let put = |n: usize| (PUT, field(1, format!("p{n}").as_bytes()));
    let call = |method: &str, bytes: usize, message: &[u8]| {
        [format!("/etcdserverpb.{method}\n").into_bytes(), message.repeat(bytes / message.len())].concat()
    };
    let shapes = [
        Shape::made("puts", move |bytes| nested(bytes, put)),
        Shape::made("puts beside deletes", move |bytes| {
            nested(bytes, |n| {
                if n.is_multiple_of(2) { put(n) } else { (DELETE, field(1, format!("d{n}").as_bytes())) }
            })
        }),
        Shape::made("puts beside deleted ranges", move |bytes| {
            let range = |n: usize| {
                [field(1, format!("d{n}").as_bytes()), field(2, format!("d{n}a").as_bytes())].concat()
            };
            nested(bytes, move |n| if n.is_multiple_of(2) { put(n) } else { (DELETE, range(n)) })
        }),
        Shape::made("empty compares", move |bytes| call("KV/Txn", bytes, b"\x0a\x00")),
        Shape::made("empty operations", move |bytes| call("KV/Txn", bytes, b"\x12\x00")),
        Shape::made("one field again and again", move |bytes| call("KV/Put", bytes, b"\x0a\x01k")),
        Shape::made("filters of a watch", move |bytes| {
            let create = [field(1, b"/a"), vec![5 << 3 | 2]].concat();
            let filters = vec![1; bytes];
            let create = [create, varint(filters.len()), filters].concat();
            [b"/etcdserverpb.Watch/Watch\n".to_vec(), field(1, &create)].concat()
        }),
    ];
    border().grows_linearly(20_000, &shapes, |call| server.answer(call));
}
