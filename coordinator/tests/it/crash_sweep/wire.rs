//! What lies between a coordinator and its store: it numbers the transactions that the coordinator sends, and fails
//! at one of them as a crash or a network does. A line that was cut stays cut, also for streams that were open.

use etcd_client::proto::{PbTxnOpRequest, PbTxnRequest};
use etcd_client::{Channel, Client};
use futures::StreamExt;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use prost::Message;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tidegate_proto::Prefix;
use tidegate_store::Store;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Bytes, Service, StdError};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

/// What happens to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The coordinator ends before it is sent.
    CutBefore,
    /// It is carried out, and the coordinator ends before it knows.
    CutAfter,
    /// It never arrives, and the coordinator lives on.
    RequestLost,
    /// It is carried out, its answer is lost, and the coordinator lives on.
    ReplyLost,
}

/// Every fault.
pub(super) const FAULTS: [Fault; 4] =
    [Fault::CutBefore, Fault::CutAfter, Fault::RequestLost, Fault::ReplyLost];

/// The wire of one coordinator.
#[derive(Clone)]
pub(super) struct Wire {
    inner: Channel,
    point: Option<(usize, Fault)>,
    sent: Arc<Mutex<Vec<String>>>,
    cut: CancellationToken,
}

impl Wire {
    /// Over `inner`, failing at the transaction of this number, counted from 0.
    pub(super) fn over(inner: Channel, point: Option<(usize, Fault)>) -> Self {
        Self { inner, point, sent: Arc::default(), cut: CancellationToken::new() }
    }

    /// A store at the end of it.
    pub(super) async fn store(&self) -> Store {
        let channel = Channel::Custom(BoxCloneSyncService::new(self.clone()));
        Store::over(Client::from_channel(channel, None).await.unwrap(), Prefix::default())
    }

    /// The keys of each transaction that was sent, in order.
    pub(super) fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }

    /// Whether the point was reached.
    pub(super) fn is_hit(&self) -> bool {
        self.point.is_some_and(|(point, _)| self.sent.lock().unwrap().len() > point)
    }

    /// Waits until it is cut.
    pub(super) async fn was_cut(&self) {
        self.cut.cancelled().await;
    }

    /// Counts a transaction; what happens to it.
    fn note(&self, keys: String) -> Option<Fault> {
        let mut sent = self.sent.lock().unwrap();
        let number = sent.len();
        sent.push(keys);
        self.point.filter(|(point, _)| *point == number).map(|(_, fault)| fault)
    }

    async fn transaction(self, request: Request<Body>) -> Result<Response<Body>, StdError> {
        let (head, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let fault = self.note(keys_of(&bytes));
        if fault == Some(Fault::CutBefore) {
            self.cut.cancel();
        }
        if matches!(fault, Some(Fault::CutBefore | Fault::RequestLost)) {
            return Err(broken());
        }
        let request = Request::from_parts(head, Body::new(Full::new(bytes)));
        let answered = self.inner.clone().oneshot(request).await?;
        // Only what was answered is known to be durable.
        let (head, body) = answered.into_parts();
        let answer = body.collect().await?;
        if fault == Some(Fault::CutAfter) {
            self.cut.cancel();
        }
        match fault {
            None => Ok(Response::from_parts(head, Body::new(answer.map_err(|never| match never {})))),
            Some(_) => Err(broken()),
        }
    }

    async fn other(self, request: Request<Body>) -> Result<Response<Body>, StdError> {
        let request = request.map(|body| self.cuttable(body));
        let answered = self.inner.clone().oneshot(request).await?;
        Ok(answered.map(|body| self.cuttable(body)))
    }

    /// A stream that ends when the wire is cut.
    fn cuttable(&self, body: Body) -> Body {
        Body::new(StreamBody::new(BodyStream::new(body).take_until(self.cut.clone().cancelled_owned())))
    }
}

impl Service<Request<Body>> for Wire {
    type Response = Response<Body>;
    type Error = StdError;
    type Future = BoxFuture<Response<Body>, StdError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.cut.is_cancelled() {
            return Box::pin(async { Err(broken()) });
        }
        match request.uri().path() {
            "/etcdserverpb.KV/Txn" => Box::pin(self.clone().transaction(request)),
            _ => Box::pin(self.clone().other(request)),
        }
    }
}

fn broken() -> StdError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

/// What a transaction would write, from its message: one gRPC frame of five bytes and the message.
fn keys_of(bytes: &Bytes) -> String {
    let request = PbTxnRequest::decode(bytes.slice(5..)).expect("it is a transaction");
    let key = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("/tidegate/", "");
    let keys = request.success.iter().filter_map(|op| match op.request.as_ref()? {
        PbTxnOpRequest::RequestPut(put) => Some(key(&put.key)),
        PbTxnOpRequest::RequestDeleteRange(delete) => Some(format!("-{}", key(&delete.key))),
        _ => None,
    });
    keys.collect::<Vec<_>>().join(" ")
}
