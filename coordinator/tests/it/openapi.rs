//! A door of HTTP whose every answer is checked against the OpenAPI document that it serves.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use tidegate_coordinator::guard::{By, Principal};
use tidegate_proto::record::token::Role;
use tower::ServiceExt;

/// A door, and which of its operations were asked.
pub struct Door {
    router: Router,
    /// What every path of its document begins with.
    base: &'static str,
    document: Json,
    asked: Mutex<BTreeSet<String>>,
}

pub struct Answer {
    pub status: StatusCode,
    pub etag: Option<String>,
    pub location: Option<String>,
    pub warning: Option<String>,
    pub media: Option<String>,
    pub body: Json,
}

impl Door {
    /// The door of these routes, as CI knocks at it.
    pub async fn of(routes: Router, base: &'static str) -> Self {
        let principal = Principal { name: "ci".to_owned(), role: Role::Release, by: By::Place };
        let router = routes.layer(Extension(principal));
        let mut door = Self { router, base, document: Json::Null, asked: Mutex::default() };
        door.document = door.send("GET", &format!("{base}/openapi.json"), None).await.body;
        door
    }

    pub async fn send(&self, method: &str, path: &str, body: Option<String>) -> Answer {
        self.send_knowing(method, path, body, None).await
    }

    /// With the ETag of what is known already.
    pub async fn send_knowing(
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
        let body = if bytes.is_empty() { Json::Null } else { serde_json::from_slice(&bytes).unwrap() };
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
        let told = responses.get(answer.status.as_str()).or_else(|| responses.get("default"));
        let told = self
            .deref(told.unwrap_or_else(|| panic!("{method} {template}: {} is not told of", answer.status)));
        let schema = &told["content"][answer.media.as_deref().unwrap_or("none")]["schema"];
        if schema.is_null() {
            assert!(answer.body.is_null(), "{method} {template}: {} has no body", answer.status);
            return;
        }
        // The schema's references are to the whole document.
        let whole = json!({ "components": self.document["components"], "allOf": [schema] });
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        if let Err(error) = validator.validate(&answer.body) {
            panic!("{method} {template} {}: {error} in {:#}", answer.status, answer.body);
        }
    }

    fn deref<'a>(&'a self, value: &'a Json) -> &'a Json {
        match value.get("$ref").and_then(Json::as_str) {
            Some(path) => self.document.pointer(path.strip_prefix('#').unwrap()).unwrap(),
            None => value,
        }
    }

    /// Whether every operation of the document was asked.
    pub fn was_asked_everything(&self) {
        let paths = self.document["paths"].as_object().unwrap().values();
        let told: BTreeSet<String> = paths
            .flat_map(|operations| operations.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(*self.asked.lock().unwrap(), told, "every operation was asked");
    }
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len() && template.iter().zip(&path).all(|(t, p)| t.starts_with('{') || t == p)
}
