//! The answer of the health check, byte for byte as OpenStack's middleware gives it (without its detailed mode). Only the
//! existence of the file counts, not its content.

use super::negotiate::{Form, form};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

/// Answers one request.
pub(crate) fn answer(disabled: bool, method: &Method, headers: &HeaderMap) -> Response {
    let reason = if disabled { "DISABLED BY FILE" } else { "OK" };
    let (status, kind, body) = match (method, disabled) {
        (&Method::HEAD, true) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, String::new()),
        (&Method::HEAD, false) => (StatusCode::NO_CONTENT, TEXT, String::new()),
        _ => {
            let status = if disabled { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            let (kind, body) = body(form(headers), reason);
            (status, kind, body)
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

const TEXT: &str = "text/plain; charset=UTF-8";

fn body(form: Form, reason: &str) -> (&'static str, String) {
    match form {
        Form::Text => (TEXT, reason.to_owned()),
        Form::Html => ("text/html; charset=UTF-8", HTML.replace("@REASON@", reason)),
        Form::Json => ("application/json", JSON.replace("@REASON@", reason)),
    }
}

const JSON: &str = "{\n    \"detailed\": false,\n    \"reasons\": [\n        \"@REASON@\"\n    ]\n}";

/// The blank lines are those that the middleware's template leaves.
const HTML: &str = "<HTML>\n<HEAD><TITLE>Healthcheck Status</TITLE></HEAD>\n<BODY>\n\n\
    <H2>Result of 1 checks:</H2>\n<TABLE bgcolor=\"#ffffff\" border=\"1\">\n<TBODY>\n<TR>\n\n<TH>\nReason\n</TH>\n\
    </TR>\n<TR>\n\n    <TD>@REASON@</TD>\n\n</TR>\n</TBODY>\n</TABLE>\n<HR></HR>\n\n</BODY>\n</HTML>";

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn ask(disabled: bool, method: Method, accept: &str) -> (u16, String, String) {
        let mut headers = HeaderMap::new();
        headers.insert("accept", accept.parse().unwrap());
        let response = answer(disabled, &method, &headers);
        let kind = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, kind, String::from_utf8(bytes.into()).unwrap())
    }

    #[tokio::test]
    async fn each_case_of_the_middleware() {
        let text = "text/plain; charset=UTF-8".to_owned();
        assert_eq!(ask(false, Method::GET, "text/plain").await, (200, text.clone(), "OK".to_owned()));
        assert_eq!(ask(true, Method::GET, "*/*").await, (503, text.clone(), "DISABLED BY FILE".to_owned()));
        assert_eq!(ask(false, Method::HEAD, "text/html").await, (204, text.clone(), String::new()));
        assert_eq!(ask(true, Method::HEAD, "text/html").await, (503, text, String::new()));
        let (status, kind, body) = ask(true, Method::GET, "application/json").await;
        assert_eq!((status, kind.as_str()), (503, "application/json"));
        assert_eq!(
            body,
            "{\n    \"detailed\": false,\n    \"reasons\": [\n        \"DISABLED BY FILE\"\n    ]\n}"
        );
        let (status, kind, body) = ask(true, Method::GET, "text/html").await;
        assert_eq!((status, kind.as_str()), (503, "text/html; charset=UTF-8"));
        // 239 bytes for "OK", as the middleware's own documentation shows.
        assert_eq!(body.len(), 239 - "OK".len() + "DISABLED BY FILE".len(), "{body}");
        assert!(body.contains("<TD>DISABLED BY FILE</TD>") && body.contains("Result of 1 checks:"), "{body}");
    }
}
