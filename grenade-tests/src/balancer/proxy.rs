//! One request through the balancer: picks a server, opens a connection of its own to it, streams both bodies.
//!
//! Never sends a request twice: what a server did with it is unknown once it was sent.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::balancer::server::{Servers, Session};
use crate::guarded::Guarded;

/// How long a connection to a server may take: longer than two attempts that a full queue of the server lets pass, which
/// the system repeats after one second and after three.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a server may take to begin its answer, its request's body included.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Headers that concern one connection only (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Names the server that answered.
pub const SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// Passes one request on. What cannot be passed on is answered here: 503 when no server is up or none listens, 502 when
/// it did not answer in HTTP, 504 when it took too long.
pub async fn pass_on(
    request: Request<Incoming>,
    from: SocketAddr,
    servers: Arc<Servers>,
) -> Result<Answer, Infallible> {
    let Some(session) = servers.pick() else {
        return Ok(own_answer(StatusCode::SERVICE_UNAVAILABLE, "no server is up"));
    };
    let address = session.address().address;
    let stream = match tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Ok(unreachable(&session, &error.to_string())),
        Err(_) => return Ok(unreachable(&session, &format!("no connection within {CONNECT_LIMIT:?}"))),
    };
    // Pieces of an upload are small writes: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(ANSWER_LIMIT, exchange(stream, outgoing(request, from))).await {
        Ok(Ok(response)) => Ok(incoming(response, session)),
        Ok(Err(error)) => {
            tracing::warn!(server = session.address().name, %error, "the server did not answer");
            let why = format!("the server ended the connection without an answer: {error}");
            Ok(instead_of(&session, StatusCode::BAD_GATEWAY, why))
        }
        Err(_) => Ok(instead_of(&session, StatusCode::GATEWAY_TIMEOUT, "the server took too long")),
    }
}

async fn exchange(stream: TcpStream, request: Request<Incoming>) -> Result<Response<Incoming>, hyper::Error> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The connection lives as long as the request and the answer's body do; hyper ends it when both are gone.
    tokio::spawn(async move {
        if let Err(e) = connection.await {
            tracing::debug!(error = %e, "a connection to a server ended");
        }
    });
    sender.send_request(request).await
}

fn outgoing(request: Request<Incoming>, from: SocketAddr) -> Request<Incoming> {
    let (mut parts, body) = request.into_parts();
    drop_hop_by_hop(&mut parts.headers);
    if let Ok(ip) = HeaderValue::from_str(&from.ip().to_string()) {
        parts.headers.append("x-forwarded-for", ip);
    }
    parts.version = http::Version::HTTP_11;
    Request::from_parts(parts, body)
}

fn incoming(response: Response<Incoming>, session: Session) -> Answer {
    let (mut parts, body) = response.into_parts();
    drop_hop_by_hop(&mut parts.headers);
    if let Ok(name) = HeaderValue::from_str(&session.address().name) {
        parts.headers.insert(SERVED_BY, name);
    }
    Response::from_parts(parts, Guarded::new(body, session).boxed())
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

fn unreachable(session: &Session, why: &str) -> Answer {
    let why = format!("the server could not be reached: {why}");
    instead_of(session, StatusCode::SERVICE_UNAVAILABLE, why)
}

/// An answer in the place of a server that gave none; it names the server.
fn instead_of(session: &Session, status: StatusCode, sentence: impl Into<Bytes>) -> Answer {
    let mut answer = own_answer(status, sentence);
    if let Ok(name) = HeaderValue::from_str(&session.address().name) {
        answer.headers_mut().insert(SERVED_BY, name);
    }
    answer
}

fn own_answer(status: StatusCode, sentence: impl Into<Bytes>) -> Answer {
    let body = Full::new(sentence.into()).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
