//! What a cache recognises an answer by (RFC 9110, 8.8.3 and 13.1.2): two answers have the same tag exactly when they say the
//! same, the status of a release included. A create that wrote nothing answers 304 too: `rpc/answer.rs`.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_proto::Digest;

/// The tag of a text.
pub(super) fn of(text: &str) -> String {
    format!("\"{}\"", Digest::of(text.as_bytes()))
}

/// The answer with its tag; 304 without a body where the caller knows it already.
pub(super) fn conditional(asked: &HeaderMap, etag: &str, answer: Response) -> Response {
    let mut response = match knows(asked, etag) {
        true => {
            let mut unchanged = StatusCode::NOT_MODIFIED.into_response();
            *unchanged.headers_mut() = answer.headers().clone();
            unchanged.headers_mut().remove(header::CONTENT_TYPE);
            unchanged.headers_mut().remove(header::CONTENT_LENGTH);
            unchanged
        }
        false => answer,
    };
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// Whether `If-None-Match` names the tag; weak and strong are the same here.
fn knows(asked: &HeaderMap, etag: &str) -> bool {
    let listed = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = listed.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_weak_and_strong_tags_is_recognised() {
        let knows = |value: &'static str| {
            let mut asked = HeaderMap::new();
            asked.insert(header::IF_NONE_MATCH, HeaderValue::from_static(value));
            knows(&asked, "\"b\"")
        };
        assert!(["\"b\"", "W/\"b\"", "\"a\", \"b\"", "*"].into_iter().all(knows));
        assert!(!["\"a\"", "b", "", "\"bb\""].into_iter().any(knows));
        assert!(!super::knows(&HeaderMap::new(), "\"b\""));
    }
}
