//! What HTTP shows of an answer.

use super::super::etag;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost_reflect::{DynamicMessage, ReflectMessage, SerializeOptions};
use serde_json::json;
use std::convert::Infallible;
use tidegate_proto::verb::{Route, Shows};
use tidegate_proto::wire::v1::{JsonReply, ReleaseReply};
use tonic::{Status, Streaming};

pub(super) const RELEASES: &str = "/management/api/v2/compute_releases";

pub(super) fn whole(route: &Route, message: &DynamicMessage, asked: &HeaderMap) -> Result<Response, Problem> {
    let reply = || message.transcode_to::<ReleaseReply>().map_err(|e| Problem::internal(e.to_string()));
    match route.shows {
        Shows::Message => {
            let text = text(message)?;
            let etag = etag::of(&text);
            let answer = json_text(StatusCode::OK, text);
            Ok(match route.has_body() {
                // It may hold the secret of a new token.
                true => ([(header::CACHE_CONTROL, "no-store")], answer).into_response(),
                false => etag::conditional(asked, &etag, answer),
            })
        }
        Shows::Created => {
            let reply = reply()?;
            let status = if reply.changed { StatusCode::OK } else { StatusCode::NOT_MODIFIED };
            Ok(release(status, reply))
        }
        Shows::Released => {
            let reply = reply()?;
            let etag = etag::of(&reply.release);
            let answer = release(StatusCode::OK, reply);
            Ok(if route.has_body() { answer } else { etag::conditional(asked, &etag, answer) })
        }
        Shows::Done => {
            let ReleaseReply { stream, changed, what, warnings, .. } = reply()?;
            let text = json!({ "stream": stream, "changed": changed, "what": what }).to_string();
            let mut response = json_text(StatusCode::OK, text);
            warn(response.headers_mut(), &warnings);
            Ok(response)
        }
    }
}

/// A stream of messages: each is a line. Where it breaks off, the last line is the problem.
pub(super) fn lines(messages: Streaming<DynamicMessage>) -> Response {
    let line = |message: Result<DynamicMessage, Status>| {
        let text = message
            .map_err(|status| Problem::from(status).details())
            .and_then(|message| text(&message).map_err(|e| e.details()));
        Ok::<_, Infallible>(format!("{}\n", text.unwrap_or_else(|problem| problem.to_string())))
    };
    let lines = Body::from_stream(messages.map(line));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response()
}

/// A message as JSON; of one that holds a JSON text, that text.
fn text(message: &DynamicMessage) -> Result<String, Problem> {
    if message.descriptor().full_name() == "tidegate.v1.JsonReply" {
        let reply = message.transcode_to::<JsonReply>().map_err(|e| Problem::internal(e.to_string()))?;
        return Ok(reply.json);
    }
    let mut text = Vec::new();
    // Fields with default values are shown too: a client need not know the defaults.
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    message
        .serialize_with_options(&mut serde_json::Serializer::new(&mut text), &options)
        .map_err(|e| Problem::internal(e.to_string()))?;
    String::from_utf8(text).map_err(|e| Problem::internal(e.to_string()))
}

pub(in super::super) fn json_text(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A release, with what a cache recognises it by: everything that is said of it, its status too.
fn release(status: StatusCode, reply: ReleaseReply) -> Response {
    let etag = etag::of(&reply.release);
    let location = format!("{RELEASES}/{}?stream={}", reply.revision, reply.stream);
    let mut response = match status {
        StatusCode::NOT_MODIFIED => status.into_response(),
        _ => json_text(status, reply.release),
    };
    let headers = response.headers_mut();
    warn(headers, &reply.warnings);
    for (name, value) in [(header::ETAG, etag), (header::LOCATION, location)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

/// A header for each warning; 199 is one of any kind, for people (RFC 7234).
fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("199 tidegate {}", quoted(warning))) {
            headers.append(header::WARNING, value);
        }
    }
}

/// What is percent-encoded in a header, besides all that is not ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The text as a quoted string of HTTP. A header is ASCII: what is not printable there, and `%`, is percent-encoded UTF-8.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('"', r#"\""#);
    format!("\"{}\"", utf8_percent_encode(&escaped, ENCODED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_outside_ascii_is_percent_encoded() {
        let warnings = ["max_wäl \"is\" 5 % \\ of\nall", "plain"].map(str::to_owned).to_vec();
        let response = release(StatusCode::OK, ReleaseReply { warnings, ..ReleaseReply::default() });
        let shown = response.headers().get_all(header::WARNING).iter();
        let shown: Vec<&str> = shown.map(|value| value.to_str().unwrap()).collect();
        let escaped = r#"199 tidegate "max_w%C3%A4l \"is\" 5 %25 \\ of%0Aall""#;
        assert_eq!(shown, [escaped, r#"199 tidegate "plain""#]);
    }
}
