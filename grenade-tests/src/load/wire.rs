//! One HTTP request on a connection of its own, sent once.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::load::step::File;

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: usize = 4 << 20;

/// A request's body.
pub type OutBody = UnsyncBoxBody<Bytes, Infallible>;

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Which service version gave it, where it says so.
    pub version: Option<u32>,
    /// Which node gave it, where it says so.
    pub node: String,
    /// When the head of the answer was there.
    pub first: Instant,
    /// The body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// The connection was refused or could not be made.
    #[error("could not connect: {0}")]
    Connect(#[source] std::io::Error),
    /// The connection ended in the midst of it.
    #[error("connection ended: {0}")]
    Reset(#[source] hyper::Error),
    /// The body of the answer ended before its time or is too large.
    #[error("answer broken off: {0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// No body.
pub fn nothing() -> OutBody {
    Empty::new().boxed_unsync()
}

/// A JSON body.
pub fn json(value: &serde_json::Value) -> OutBody {
    Full::new(Bytes::from(value.to_string())).boxed_unsync()
}

/// A file, piece by piece.
pub fn slowly(file: &File) -> OutBody {
    let (piece, every) = (Bytes::from(file.piece()), file.every);
    let pieces = stream::unfold((0, file.pieces), move |(sent, all)| {
        let piece = piece.clone();
        async move {
            if sent == all {
                return None;
            }
            if sent > 0 {
                tokio::time::sleep(every).await;
            }
            Some((Ok::<_, Infallible>(Frame::data(piece)), (sent + 1, all)))
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Sends one request and reads its answer to the end.
///
/// # Errors
/// When the connection cannot be made, is reset, or the answer is broken off.
pub async fn send(target: SocketAddr, method: Method, path: &str, body: OutBody) -> Result<Answer, NoAnswer> {
    let stream = TcpStream::connect(target).await.map_err(NoAnswer::Connect)?;
    // Pieces of an upload are small writes: waiting for more would only delay them.
    stream.set_nodelay(true).map_err(NoAnswer::Connect)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(NoAnswer::Reset)?;
    let driver = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, target.to_string())
        .header(header::CONNECTION, "close")
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)
        .expect("the load's own paths are valid URIs");
    let response = sender.send_request(request).await.map_err(NoAnswer::Reset)?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let (version, node) = (
        header("x-pantry-version").and_then(|version| version.parse().ok()),
        header("x-pantry-node").unwrap_or_default().to_owned(),
    );
    let (status, first) = (response.status().as_u16(), Instant::now());
    let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await.map_err(NoAnswer::Body)?;
    driver.abort();
    Ok(Answer { status, version, node, first, body: body.to_bytes() })
}
