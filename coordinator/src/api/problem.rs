//! What HTTP answers when something is not done: problem details (RFC 9457) with a fitting status, a machine word and a
//! human sentence. And what a caller gave, read so that whatever is wrong with it is told in that form.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::time::Duration;
use tonic::{Code, Status};

/// The media type of problem details.
const MEDIA_TYPE: &str = "application/problem+json";

/// How long a caller may take to send a body.
const BODY_TIME: Duration = Duration::from_secs(15);

/// Why something was not done. Nothing was changed, except where the word is `outcome-unknown`.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    word: &'static str,
    message: String,
}

impl Problem {
    /// With a machine word.
    pub fn new(status: StatusCode, word: &'static str, message: String) -> Self {
        Self { status, word, message }
    }

    /// What was asked makes no sense by itself.
    pub fn invalid(message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, word: "invalid", message }
    }

    /// A query that cannot be read.
    pub(super) fn no_query(why: QueryRejection) -> Self {
        Self::invalid(format!("{}; nothing was changed", why.body_text()))
    }

    /// This coordinator is at fault.
    pub fn internal(message: String) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, word: "internal", message }
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let (code, word) = match status.code() {
            Code::InvalidArgument => (StatusCode::BAD_REQUEST, "invalid"),
            Code::ResourceExhausted => (StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
            Code::NotFound => (StatusCode::NOT_FOUND, "not-found"),
            Code::FailedPrecondition => (StatusCode::CONFLICT, "refused"),
            Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Code::PermissionDenied => (StatusCode::FORBIDDEN, "forbidden"),
            Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Code::Unknown => (StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self { status: code, word, message: status.message().to_owned() }
    }
}

impl Problem {
    /// As RFC 9457 has it.
    pub(super) fn details(&self) -> Json {
        json!({
            "type": format!("urn:tidegate:problem:{}", self.word),
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.message,
            // As before there were problem details.
            "error": self.word,
            "message": self.message,
        })
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let details = self.details().to_string();
        (self.status, [(header::CONTENT_TYPE, MEDIA_TYPE)], details).into_response()
    }
}

/// There is no such path.
pub(super) async fn no_route(uri: Uri) -> Problem {
    let message = format!(
        "there is no {}: /management/api/v2/openapi.json and /v1/openapi.json describe what there is",
        uri.path()
    );
    Problem::new(StatusCode::NOT_FOUND, "not-found", message)
}

/// The path is there, and not with this method; the header `Allow` names those that are.
pub(super) async fn no_method(method: Method, uri: Uri) -> Problem {
    let message = format!("{} cannot be asked with {method}: the header Allow names the methods", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", message)
}

/// What a caller gave: a query, and a body.
pub(super) struct Given<Q> {
    query: Result<Q, QueryRejection>,
    /// None = it did not come in time.
    body: Option<Result<Bytes, BytesRejection>>,
}

impl<Q: DeserializeOwned + Send, S: Send + Sync> FromRequest<S> for Given<Q> {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let (mut parts, body) = request.into_parts();
        let query = Query::from_request_parts(&mut parts, state).await.map(|Query(query)| query);
        let reading = Bytes::from_request(Request::from_parts(parts, body), state);
        let body = tokio::time::timeout(BODY_TIME, reading).await.ok();
        Ok(Self { query, body })
    }
}

impl<Q> Given<Q> {
    /// The query.
    pub(super) fn query(self) -> Result<Q, Problem> {
        self.query.map_err(Problem::no_query)
    }

    /// Both, the body as text.
    pub(super) fn text(self) -> Result<(Q, String), Problem> {
        let late = || {
            let message = format!("the body did not come within {BODY_TIME:?}; nothing was changed");
            Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message)
        };
        let bytes = self.body.ok_or_else(late)?.map_err(|e| Problem {
            status: e.status(),
            word: if e.status() == StatusCode::PAYLOAD_TOO_LARGE { "too-large" } else { "invalid" },
            message: format!(
                "the body was not read: {}; at most {} bytes are allowed, and nothing was changed",
                e.body_text(),
                super::rpc::MAX_BODY
            ),
        })?;
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|_| Problem::invalid("the body is not UTF-8; nothing was changed".to_owned()))?;
        Ok((self.query.map_err(Problem::no_query)?, text))
    }
}
