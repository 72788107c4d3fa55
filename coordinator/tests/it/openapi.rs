//! A door of HTTP whose every answer is checked against the OpenAPI document that it serves.

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode, header};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use tidegate_coordinator::api;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::door::{Peer, Shown};
use tidegate_coordinator::grpc::{self, Peers};
use tidegate_coordinator::guard::{By, Guard, Principal};
use tidegate_proto::record::token::Role;
use tower::ServiceExt;

/// A door, and which of its operations were asked.
pub(crate) struct Door {
    router: Router,
    /// What every path of its document begins with.
    base: &'static str,
    /// Whether the operations of a path of it are asked here.
    part: fn(&str) -> bool,
    document: Json,
    asked: Mutex<BTreeSet<String>>,
}

pub(crate) struct Answer {
    pub status: StatusCode,
    pub etag: Option<String>,
    pub location: Option<String>,
    pub warning: Option<String>,
    pub media: Option<String>,
    pub body: Json,
}

impl Door {
    /// The HTTP listener of a coordinator with every rpc, called as CI calls it.
    pub(crate) async fn of(context: &Context, base: &'static str, part: fn(&str) -> bool) -> Self {
        // That route asks the guard itself: the call comes from this machine.
        let guard = Guard::new(context.mirror.clone(), None);
        let peer = Peer { address: ([127, 0, 0, 1], 1).into(), shown: Shown::Nothing };
        let start = api::start::route(context.clone(), guard).layer(Extension(ConnectInfo(peer)));
        let principal = Principal { name: "ci".to_owned(), role: Role::Release, by: By::Place };
        let rpcs = api::rpcs(grpc::services(context, &Peers::default())).layer(Extension(principal));
        let router = rpcs.merge(start);
        let mut door = Self { router, base, part, document: Json::Null, asked: Mutex::default() };
        door.document = door.send("GET", &format!("{base}/openapi.json"), None).await.body;
        door
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<String>) -> Answer {
        self.send_knowing(method, path, body, None).await
    }

    /// With the ETag of what is known already.
    pub(crate) async fn send_knowing(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        etag: Option<&str>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(etag) = etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let request = request.body(body.map_or_else(Body::empty, Body::from)).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let header = |name| response.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
        let (etag, location) = (header(header::ETAG), header(header::LOCATION));
        let (warning, media) = (header(header::WARNING), header(header::CONTENT_TYPE));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = match media.as_deref() {
            Some(LINES) => bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(read).collect(),
            _ if bytes.is_empty() => Json::Null,
            _ => read(&bytes),
        };
        let answer = Answer { status, etag, location, warning, media, body };
        if !self.document.is_null() {
            self.is_true(method, path, &answer);
        }
        answer
    }

    /// Whether the document foretold this answer.
    fn is_true(&self, method: &str, path: &str, answer: &Answer) {
        let path = path.split('?').next().unwrap().strip_prefix(self.base).unwrap();
        let (template, operations) = self
            .document
            .get("paths")
            .and_then(Json::as_object)
            .unwrap()
            .iter()
            .filter(|(template, _)| matches(template, path))
            // What is spelt out goes before a parameter.
            .min_by_key(|(template, _)| template.matches('{').count())
            .unwrap_or_else(|| panic!("{path} is not in the document"));
        let operation = &operations[method.to_lowercase()];
        assert!(operation.is_object(), "{method} {template} is not in the document");
        self.asked.lock().unwrap().insert(operation["operationId"].as_str().unwrap().to_owned());
        let responses = &operation["responses"];
        let reported = responses.get(answer.status.as_str()).or_else(|| responses.get("default"));
        let reported = self.deref(
            reported.unwrap_or_else(|| panic!("{method} {template}: {} is not described", answer.status)),
        );
        let schema = &reported["content"][answer.media.as_deref().unwrap_or("none")]["schema"];
        if schema.is_null() {
            assert!(answer.body.is_null(), "{method} {template}: {} has no body", answer.status);
            return;
        }
        // The schema's references are to the whole document.
        let whole = json!({ "components": self.document["components"], "allOf": [schema] });
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        let values = match answer.media.as_deref() {
            Some(LINES) => answer.body.as_array().unwrap().as_slice(),
            _ => std::slice::from_ref(&answer.body),
        };
        for value in values {
            if let Err(error) = validator.validate(value) {
                panic!("{method} {template} {}: {error} in {value:#}", answer.status);
            }
        }
    }

    fn deref<'a>(&'a self, value: &'a Json) -> &'a Json {
        match value.get("$ref").and_then(Json::as_str) {
            Some(path) => self.document.pointer(path.strip_prefix('#').unwrap()).unwrap(),
            None => value,
        }
    }

    /// Whether every operation of its part of the document was asked.
    pub(crate) fn was_asked_everything(&self) {
        let paths = self.document["paths"].as_object().unwrap().iter();
        let reported: BTreeSet<String> = paths
            .filter(|(path, _)| (self.part)(path))
            .flat_map(|(_, operations)| operations.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap().to_owned())
            .collect();
        let asked = self.asked.lock().unwrap();
        let missing: Vec<&String> = reported.difference(&asked).collect();
        assert!(missing.is_empty(), "not asked: {missing:?}");
    }
}

/// An answer of several messages.
const LINES: &str = "application/x-ndjson";

fn read(bytes: &[u8]) -> Json {
    serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(bytes)))
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len() && template.iter().zip(&path).all(|(t, p)| t.starts_with('{') || t == p)
}
