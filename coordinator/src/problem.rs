//! What HTTP answers when something is not done: problem details (RFC 9457) with a fitting status, a machine word and a
//! human sentence.

use axum::extract::rejection::{QueryRejection, RawPathParamsRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use tonic::{Code, Status};

/// The media type of problem details.
const MEDIA_TYPE: &str = "application/problem+json";

/// Why something was not done. Nothing was changed, except where the word is `outcome-unknown`.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    word: &'static str,
    message: String,
}

impl Problem {
    /// With a machine word.
    pub(crate) fn new(status: StatusCode, word: &'static str, message: String) -> Self {
        Self { status, word, message }
    }

    /// What was asked makes no sense by itself.
    pub(crate) fn invalid(message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, word: "invalid", message }
    }

    /// A path that cannot be read.
    pub(crate) fn no_path(why: RawPathParamsRejection) -> Self {
        Self::invalid(format!("the path cannot be read: {}; nothing was changed", why.body_text()))
    }

    /// A query that cannot be read.
    pub(crate) fn no_query(why: QueryRejection) -> Self {
        Self::invalid(format!("{}; nothing was changed", why.body_text()))
    }

    /// This coordinator is at fault.
    pub(crate) fn internal(message: String) -> Self {
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
    pub(crate) fn details(&self) -> Json {
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
