//! HTTP as a client of the service speaks it: over fresh connections and kept ones, each request sent once.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The largest answer that is kept; more of it is read and counted.
const LARGEST: usize = 4 << 20;
/// A kept connection that was idle for longer is not used again: servers end such.
const IDLE: Duration = Duration::from_secs(4);
/// A body is made piece by piece.
const LARGEST_PIECE: u64 = 64 << 10;
/// Pieces of a slow body are sent so far apart.
const PIECE_EVERY: Duration = Duration::from_millis(50);

/// A request's body.
pub type OutBody = UnsyncBoxBody<Bytes, Infallible>;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// The connection was refused or could not be made.
    #[error("could not connect: {0}")]
    Connect(#[source] std::io::Error),
    /// The connection ended in the midst of it.
    #[error("connection ended: {0}")]
    Reset(#[source] hyper::Error),
    /// The body of the answer ended before its time.
    #[error("answer broken off: {0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is to be sent.
#[derive(Debug)]
pub struct Outgoing {
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub path: String,
    /// Its headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Its body.
    pub body: OutBody,
    /// How long the body of the answer is left unread.
    pub slow_read: Duration,
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// When its head was there.
    pub first: Instant,
}

impl Answer {
    /// A header, where it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// No body.
pub fn nothing() -> OutBody {
    Empty::new().boxed_unsync()
}

/// A JSON body.
pub fn json(value: &serde_json::Value) -> OutBody {
    Full::new(Bytes::from(value.to_string())).boxed_unsync()
}

/// Sends one request over a connection of its own.
///
/// # Errors
/// When the connection cannot be made, is reset, or the answer is broken off.
pub async fn send(to: SocketAddr, method: Method, path: &str, body: OutBody) -> Result<Answer, NoAnswer> {
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let outgoing =
        Outgoing { method, path: path.to_owned(), headers: vec![json], body, slow_read: Duration::ZERO };
    Client::default().send(to, outgoing, false).await.1
}

/// So many bytes, sent over so long a time.
pub fn slow(bytes: u64, over: Duration) -> OutBody {
    let in_time = (over.as_millis() / PIECE_EVERY.as_millis()).clamp(1, 10_000) as u64;
    let pieces = in_time.max(bytes.div_ceil(LARGEST_PIECE));
    let body = stream::unfold(0, move |sent| async move {
        if sent == pieces {
            return None;
        }
        if sent > 0 {
            tokio::time::sleep(over / u32::try_from(pieces).unwrap_or(u32::MAX)).await;
        }
        let (from, to) = (bytes * sent / pieces, bytes * (sent + 1) / pieces);
        let piece = vec![b'.'; usize::try_from(to - from).unwrap_or(0)];
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(piece))), sent + 1))
    });
    StreamBody::new(body).boxed_unsync()
}

/// A connection to a service. Who sends a request drives it: a task of its own for each connection would cost a wake-up from
/// thread to thread with each request and each answer.
#[derive(Debug)]
struct Wire {
    sender: SendRequest<OutBody>,
    connection: Connection<TokioIo<TcpStream>, OutBody>,
}

impl Wire {
    async fn connect(to: SocketAddr) -> Result<Self, NoAnswer> {
        let stream = TcpStream::connect(to).await.map_err(NoAnswer::Connect)?;
        stream.set_nodelay(true).map_err(NoAnswer::Connect)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(NoAnswer::Reset)?;
        Ok(Self { sender, connection })
    }

    /// Whether the server has not ended it meanwhile.
    fn is_open(&mut self) -> bool {
        (&mut self.connection).now_or_never().is_none() && self.sender.is_ready()
    }

    /// Sends a request, and reads the whole answer.
    async fn exchange(&mut self, request: Request<OutBody>, slow_read: Duration) -> Result<Answer, NoAnswer> {
        let mut answer = std::pin::pin!(whole(self.sender.send_request(request), slow_read));
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                // What ends it is what the answer says, where none came.
                _ = &mut self.connection, if is_open => is_open = false,
                answer = &mut answer => return answer,
            }
        }
    }
}

/// Waits for an answer and reads all of it.
async fn whole(
    answer: impl Future<Output = hyper::Result<Response<Incoming>>>,
    slow_read: Duration,
) -> Result<Answer, NoAnswer> {
    let response = answer.await.map_err(NoAnswer::Reset)?;
    let first = Instant::now();
    let (head, mut body) = response.into_parts();
    if !slow_read.is_zero() {
        // What does not fit into the sockets' buffers stays with the server meanwhile.
        tokio::time::sleep(slow_read).await;
    }
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| NoAnswer::Body(Box::new(e)))?;
        if let Some(data) = frame.data_ref() {
            let room = LARGEST.saturating_sub(whole.len());
            whole.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: whole.into(), first })
}

/// The connections that are kept to an address, each since when: those that were used last are at the end, and are used
/// first.
type Idle = VecDeque<(Wire, Instant)>;

/// The connections that are kept, by address.
#[derive(Debug, Default)]
pub struct Client {
    kept: Mutex<HashMap<SocketAddr, Idle>>,
}

impl Client {
    /// Sends one request; over a kept connection if `keep` and there is one. Answers whether there was.
    ///
    /// # Errors
    /// When the connection cannot be made, is reset, or the answer is broken off.
    pub async fn send(
        &self,
        to: SocketAddr,
        outgoing: Outgoing,
        keep: bool,
    ) -> (bool, Result<Answer, NoAnswer>) {
        let kept = if keep { self.take(to) } else { None };
        let was_kept = kept.is_some();
        let wire = match kept {
            Some(wire) => wire,
            None => match Wire::connect(to).await {
                Ok(wire) => wire,
                Err(none) => return (false, Err(none)),
            },
        };
        (was_kept, self.exchange(to, wire, outgoing, keep).await)
    }

    async fn exchange(
        &self,
        to: SocketAddr,
        mut wire: Wire,
        outgoing: Outgoing,
        keep: bool,
    ) -> Result<Answer, NoAnswer> {
        let mut request = Request::builder()
            .method(outgoing.method)
            .uri(outgoing.path)
            .header(header::HOST, to.to_string());
        if !keep {
            request = request.header(header::CONNECTION, "close");
        }
        for (name, value) in outgoing.headers {
            request = request.header(name, value);
        }
        let request = request.body(outgoing.body).map_err(|e| NoAnswer::Body(Box::new(e)))?;
        let answer = wire.exchange(request, outgoing.slow_read).await?;
        if keep {
            self.put(to, wire);
        }
        Ok(answer)
    }

    fn take(&self, to: SocketAddr) -> Option<Wire> {
        let mut all = self.kept();
        let idle = all.get_mut(&to)?;
        // No task drives an idle connection: what the server has ended stays open here until it is dropped.
        while idle.pop_front_if(|(_, since)| since.elapsed() >= IDLE).is_some() {}
        while let Some((mut wire, _)) = idle.pop_back() {
            if wire.is_open() {
                return Some(wire);
            }
        }
        None
    }

    fn put(&self, to: SocketAddr, wire: Wire) {
        self.kept().entry(to).or_default().push_back((wire, Instant::now()));
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<SocketAddr, Idle>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
