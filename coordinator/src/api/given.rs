//! What a caller gave, read so that each error in it is answered as a problem.

use crate::problem::Problem;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::{Method, StatusCode, Uri};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The largest body, in bytes: a manifest has at most half of that in its canonical form.
pub(super) const MAX_BODY: usize = 1024 * 1024;

/// How long a caller may take to send a body.
const BODY_TIME: Duration = Duration::from_secs(15);

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
    pub(super) fn query(self) -> Result<Q, Problem> {
        self.query.map_err(Problem::no_query)
    }

    /// Both, the body as text.
    pub(super) fn text(self) -> Result<(Q, String), Problem> {
        let late = || {
            let message = format!("the body did not come within {BODY_TIME:?}; nothing was changed");
            Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message)
        };
        let bytes = self.body.ok_or_else(late)?.map_err(|e| {
            let word = if e.status() == StatusCode::PAYLOAD_TOO_LARGE { "too-large" } else { "invalid" };
            let message = format!(
                "the body was not read: {}; at most {MAX_BODY} bytes are allowed, and nothing was changed",
                e.body_text()
            );
            Problem::new(e.status(), word, message)
        })?;
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|_| Problem::invalid("the body is not UTF-8; nothing was changed".to_owned()))?;
        Ok((self.query.map_err(Problem::no_query)?, text))
    }
}
