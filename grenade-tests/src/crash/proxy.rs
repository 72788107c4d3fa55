//! A proxy between one process and etcd: it passes everything on as it is, and reports each write to the reaper: each
//! transaction that puts or deletes, and each lease that is granted or revoked.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use etcd_client::proto::{PbTxnRequest, PbTxnResponse};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tidegate_proto::Prefix;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::codegen::Service;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};

use crate::crash::{Reaper, step};
use crate::world::WorldError;

/// The length of what precedes a message on the wire: a flag and four bytes of length.
const FRAME: usize = 5;
/// What a killed process would be answered if it could still receive it, and how much later.
const DEAD: (&str, Duration) = ("this process was killed", Duration::from_secs(5));

/// A proxy of one process; it ends with this value.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    _end: DropGuard,
}

#[derive(Clone)]
struct Line {
    process: String,
    etcd: Channel,
    reaper: Reaper,
}

impl Proxy {
    /// Before `etcd` (a URL), for the process of this name.
    ///
    /// # Errors
    /// When it cannot listen, or `etcd` is no URL.
    pub async fn start(process: &str, etcd: &str, reaper: &Reaper) -> Result<Self, WorldError> {
        let failed =
            |source| WorldError::Process { tried: "start", name: format!("proxy of {process}"), source };
        let endpoint = Endpoint::from_shared(etcd.to_owned());
        let etcd = endpoint.map_err(|e| failed(std::io::Error::other(e)))?.tcp_nodelay(true).connect_lazy();
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let line = Line { process: process.to_owned(), etcd, reaper: reaper.clone() };
        let routes = Routes::from(axum::Router::new().fallback(pass).with_state(line));
        let end = CancellationToken::new();
        let served = Server::builder().tcp_nodelay(true).add_routes(routes);
        let served = served.serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(end.clone().run_until_cancelled_owned(served));
        Ok(Self { address, _end: end.drop_guard() })
    }

    /// The process' address of etcd.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn pass(State(line): State<Line>, request: Request) -> Response {
    let answer = match request.uri().path() {
        "/etcdserverpb.KV/Txn" => line.transaction(request).await,
        "/etcdserverpb.KV/Put" => line.write("put", request, |_| true).await,
        "/etcdserverpb.KV/DeleteRange" => line.write("delete", request, |_| true).await,
        "/etcdserverpb.Lease/LeaseGrant" => line.write("lease granted", request, |_| true).await,
        "/etcdserverpb.Lease/LeaseRevoke" => line.write("lease revoked", request, |_| true).await,
        _ => line.forward(request).await,
    };
    answer.unwrap_or_else(|status| status.into_http())
}

impl Line {
    async fn transaction(self, request: Request) -> Result<Response, Status> {
        let (head, body) = request.into_parts();
        let bytes = body.collect().await.map_err(unavailable)?.to_bytes();
        let message = bytes.get(FRAME..).unwrap_or_default();
        let transaction = PbTxnRequest::decode(message).map_err(unavailable)?;
        let request = Request::from_parts(head, Body::new(Full::new(bytes)));
        match step::of(&transaction, &Prefix::default()) {
            None => self.forward(request).await,
            Some(kind) => self.write(&kind, request, held).await,
        }
    }

    /// Passes on a write; `took_place` says from a good answer whether it did.
    async fn write(
        self,
        kind: &str,
        request: Request,
        took_place: fn(&[u8]) -> bool,
    ) -> Result<Response, Status> {
        let Some(act) = self.reaper.begins(&self.process, kind).await else { return killed().await };
        let (head, body) = self.clone().forward(request).await?.into_parts();
        // The whole answer: only then is it known what became of the write.
        let whole = body.collect().await.map_err(unavailable)?;
        let trailers = whole.trailers().cloned();
        let bytes = whole.to_bytes();
        let refused = Status::from_header_map(&head.headers)
            .or_else(|| trailers.as_ref().and_then(Status::from_header_map))
            .is_some_and(|status| status.code() != Code::Ok);
        if !refused && took_place(&bytes) && act.done().await {
            return killed().await;
        }
        let body = Full::new(bytes).with_trailers(std::future::ready(trailers.map(Ok)));
        Ok(Response::from_parts(head, Body::new(body)))
    }

    async fn forward(mut self, request: Request) -> Result<Response, Status> {
        std::future::poll_fn(|context| self.etcd.poll_ready(context)).await.map_err(unavailable)?;
        let answer = self.etcd.call(request.map(tonic::body::Body::new)).await.map_err(unavailable)?;
        Ok(answer.map(Body::new))
    }
}

/// Whether a transaction's preconditions held.
fn held(answer: &[u8]) -> bool {
    PbTxnResponse::decode(answer.get(FRAME..).unwrap_or_default()).is_ok_and(|answer| answer.succeeded)
}

async fn killed() -> Result<Response, Status> {
    tokio::time::sleep(DEAD.1).await;
    Err(Status::unavailable(DEAD.0))
}

fn unavailable(error: impl std::error::Error) -> Status {
    Status::unavailable(error.to_string())
}
