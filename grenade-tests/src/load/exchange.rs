//! One request, and what its answer must be. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use serde_json::{Map, Value};

use crate::load::findings::Findings;
use crate::load::template::{Pattern, Template};
use crate::load::wire::{self, Outgoing, json, nothing};
use crate::load::written;

/// A request with what its answer must be.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Its method.
    pub method: Method,
    /// Its path.
    path: Template,
    /// Its headers.
    headers: Vec<(HeaderName, Template)>,
    /// Its body.
    body: Body,
    /// How long its answer is read.
    slow_read: Duration,
    /// Which statuses are right; empty: 200 to 299.
    pub status: Vec<u16>,
    /// What its JSON body must hold.
    pub json: Vec<(String, Pattern)>,
    /// What its body must contain.
    pub contains: Option<Template>,
    /// What is taken from its answer.
    pub keep: BTreeMap<String, String>,
}

/// What is sent.
#[derive(Debug, Clone)]
enum Body {
    /// Nothing.
    None,
    /// JSON.
    Json(Pattern),
    /// So many bytes, over so long a time.
    Slow(u64, Duration),
}

impl Exchange {
    /// Settles one; what is wrong goes to `findings`.
    pub fn settled(
        field: &str,
        request: written::Request,
        expect: written::Expect,
        keep: BTreeMap<String, String>,
        findings: &mut Findings,
    ) -> Option<Self> {
        let at = |part: &str| format!("{field}.{part}");
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| {
            format!(
                "`{}` is no HTTP method; one word is, such as GET, POST, PUT, PATCH or DELETE",
                request.method
            )
        });
        let method = findings.good(&at("request.method"), method)?;
        let path = findings.good(&at("request.path"), Template::parse(&request.path))?;
        if !request.path.starts_with('/') {
            findings.add(&at("request.path"), format!("`{}` does not begin with `/`", request.path));
        }
        let headers = request.headers.iter().filter_map(|(name, text)| {
            let named = name.parse().map_err(|_| format!("`{name}` is no name of a header"));
            let field = at("request.headers");
            Some((findings.good(&field, named)?, findings.good(&field, Template::parse(text))?))
        });
        let headers = headers.collect();
        let body = body(&at("request"), request.json.as_ref(), request.upload, findings)?;
        for pointer in keep.values() {
            is_pointer(&at("keep"), pointer, findings);
        }
        let json = expect.json.iter().filter_map(|(pointer, value)| {
            let field = at("expect.json");
            is_pointer(&field, pointer, findings);
            Some((pointer.clone(), findings.good(&field, Pattern::parse(value))?))
        });
        let json = json.collect();
        let contains = match &expect.contains {
            Some(text) => Some(findings.good(&at("expect.contains"), Template::parse(text))?),
            None => None,
        };
        let slow_read = Duration::from_millis(request.slow_read.map_or(0, tidegate_proto::Span::as_millis));
        Some(Self { method, path, headers, body, slow_read, status: expect.status, json, contains, keep })
    }

    /// Every name that it reads.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        let body = match &self.body {
            Body::Json(pattern) => pattern.variables(),
            Body::None | Body::Slow(..) => Vec::new(),
        };
        let headers = self.headers.iter().flat_map(|(_, text)| text.variables());
        let expected = self.json.iter().flat_map(|(_, pattern)| pattern.variables());
        let contained = self.contains.iter().flat_map(Template::variables);
        self.path.variables().chain(headers).chain(body).chain(expected).chain(contained)
    }

    /// How long it takes without any fault of the service.
    pub fn own_length(&self) -> Duration {
        match self.body {
            Body::Slow(_, over) => over + self.slow_read,
            Body::None | Body::Json(_) => self.slow_read,
        }
    }

    /// What is sent, with these variables.
    ///
    /// # Errors
    /// The variable that has no value, or the text that is no header.
    pub fn outgoing(&self, variables: &Map<String, Value>) -> Result<Outgoing, String> {
        let value = |name: &str| variables.get(name).cloned();
        let missing = |name: String| format!("`{{{name}}}` has no value yet");
        let mut headers = Vec::new();
        for (name, text) in &self.headers {
            let text = text.fill(&value).map_err(missing)?;
            let text = HeaderValue::from_str(&text).map_err(|_| format!("`{text}` is no header"))?;
            headers.push((name.clone(), text));
        }
        let body = match &self.body {
            Body::None => nothing(),
            Body::Json(pattern) => {
                headers.push((http::header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
                json(&pattern.fill(&value).map_err(missing)?)
            }
            Body::Slow(bytes, over) => {
                headers.push((http::header::CONTENT_LENGTH, HeaderValue::from(*bytes)));
                wire::slow(*bytes, *over)
            }
        };
        let path = self.path.fill(&value).map_err(missing)?;
        Ok(Outgoing { method: self.method.clone(), path, headers, body, slow_read: self.slow_read })
    }
}

fn body(
    field: &str,
    json: Option<&Value>,
    upload: Option<written::Upload>,
    findings: &mut Findings,
) -> Option<Body> {
    match (json, upload) {
        (Some(_), Some(_)) => {
            findings.add(field, "has both `json` and `upload`");
            None
        }
        (Some(json), None) => {
            Some(Body::Json(findings.good(&format!("{field}.json"), Pattern::parse(json))?))
        }
        (None, Some(upload)) => {
            Some(Body::Slow(upload.bytes, Duration::from_millis(upload.over.as_millis())))
        }
        (None, None) => Some(Body::None),
    }
}

/// A JSON pointer (RFC 6901).
pub fn is_pointer(field: &str, pointer: &str, findings: &mut Findings) {
    if !(pointer.is_empty() || pointer.starts_with('/')) {
        findings.add(field, format!("`{pointer}` is no JSON pointer; `/name` is one"));
    }
}
