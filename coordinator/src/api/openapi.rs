//! The description of HTTP for machines, made from what the rpcs declare of themselves: OpenAPI 3.1, one document for
//! each base path.

mod schemas;

use super::rpc::free;
use axum::routing::get;
use axum::{Json as Answer, Router};
use prost_reflect::FieldDescriptor;
use schemas::Schemas;
use serde_json::{Map, Value as Json, json};
use std::sync::LazyLock;
use tidegate_proto::record::token::Role;
use tidegate_proto::verb::{Route, Shows, VERBS, Verb, comment, is_required, schema_of};

/// A base path, with what is said of it.
struct Api {
    base: &'static str,
    title: &'static str,
    version: &'static str,
    description: &'static str,
}

const RELEASES: Api = Api {
    base: "/management/api/v2",
    title: "Tidegate compute releases",
    version: "2",
    description: "Compute releases of one prefix (a region or an environment). Any coordinator may be asked: a follower answers questions from what it sees and forwards the rest to the leader. A request that changes something may be repeated: what is so already is not done again. Roles: see `tidegate token create --help`. From the coordinator's own machine reading needs no token.",
};

const FLEET: Api = Api {
    base: "/v1",
    title: "Tidegate upgrades, fleet, tasks, tokens and metadata groups",
    version: "1",
    description: "Any coordinator may be asked: a follower answers questions from what it sees and forwards the rest to the leader. Every field of an answer is shown, but an optional one that is absent. An answer of several messages has one on each line (application/x-ndjson); where it breaks off, the last line is the problem. Roles: see `tidegate token create --help`. From the coordinator's own machine reading needs no token.",
};

static DOCUMENTS: LazyLock<[(Api, Json); 2]> = LazyLock::new(|| {
    [RELEASES, FLEET].map(|api| {
        let document = document(&api);
        (api, document)
    })
});

/// The routes of the descriptions themselves.
pub(super) fn routes() -> Router {
    let serves = |router: Router, (api, document): &'static (Api, Json)| {
        router.route(&format!("{}/openapi.json", api.base), get(move || async move { Answer(document) }))
    };
    DOCUMENTS.iter().fold(Router::new(), serves)
}

fn document(api: &Api) -> Json {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for (verb, route) in VERBS.iter().flat_map(|verb| verb.routes.iter().map(move |route| (verb, route))) {
        let Some(path) = route.path.strip_prefix(api.base) else { continue };
        let operation = operation(verb, route, &mut schemas);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[route.method.to_lowercase()] = operation;
    }
    paths.insert("/openapi.json".to_owned(), itself());
    json!({
        "openapi": "3.1.0",
        "info": {"title": api.title, "version": api.version, "description": api.description},
        "servers": [{"url": api.base}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {"Unchanged": unchanged(), "Identical": identical(), "Problem": problem()},
            "schemas": schemas.all(),
        },
    })
}

fn operation(verb: &Verb, route: &Route, schemas: &mut Schemas) -> Json {
    let mut operation = json!({
        "operationId": route.id,
        "summary": comment(&verb.method.parent_file(), verb.method.path()),
        "x-role": verb.needs.word(),
    });
    // Who is on the coordinator's own machine may look without a token.
    if verb.needs == Role::Read {
        operation["security"] = json!([{}, {"bearer": []}]);
    }
    let parameters = parameters(verb, route);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if route.has_body()
        && let Some(body) = body(verb, route, schemas)
    {
        operation["requestBody"] = body;
    }
    let mut responses = json!({"200": answer(verb, route, schemas)});
    let has_etag = !route.has_body() && route.method == "GET" && !verb.method.is_server_streaming();
    if has_etag {
        responses["304"] = json!({"$ref": "#/components/responses/Unchanged"});
    }
    if route.shows == Shows::Created {
        responses["304"] = json!({"$ref": "#/components/responses/Identical"});
    }
    responses["default"] = json!({"$ref": "#/components/responses/Problem"});
    operation["responses"] = responses;
    operation
}

fn parameters(verb: &Verb, route: &Route) -> Vec<Json> {
    let input = verb.method.input();
    let in_path = route.in_path().filter_map(|name| input.get_field_by_name(name));
    let in_path = in_path.map(|field| parameter("path", &field, true));
    let whole_body = route.has_body() && route.body.is_none();
    let in_query = free(verb, route).filter(|_| !whole_body);
    in_path.chain(in_query.map(|field| parameter("query", &field, is_required(&field)))).collect()
}

fn parameter(place: &str, field: &FieldDescriptor, required: bool) -> Json {
    let mut schema = schemas::of_scalar(field);
    if place == "path" && schema["type"] == "integer" {
        schema["minimum"] = json!(1);
    }
    if field.is_list() {
        schema = json!({"type": "array", "items": schema});
    }
    let mut parameter = json!({"name": field.name(), "in": place, "required": required, "schema": schema});
    let said = comment(&field.parent_message().parent_file(), field.path());
    if !said.is_empty() {
        parameter["description"] = said.into();
    }
    parameter
}

fn body(verb: &Verb, route: &Route, schemas: &mut Schemas) -> Option<Json> {
    let (schema, required) = match &route.body {
        Some(field) => {
            let schema = match schema_of(field) {
                Some(name) => schemas.asked(&name),
                None => schemas.of_field(field),
            };
            (schema, true)
        }
        None => {
            let fields: Vec<FieldDescriptor> = free(verb, route).collect();
            let required: Vec<String> = fields
                .iter()
                .filter(|field| is_required(field))
                .map(|field| field.name().to_owned())
                .collect();
            if fields.is_empty() {
                return None;
            }
            let properties: Map<String, Json> =
                fields.iter().map(|field| (field.name().to_owned(), schemas.described(field))).collect();
            let mut schema =
                json!({"type": "object", "additionalProperties": false, "properties": properties});
            let any = !required.is_empty();
            if any {
                schema["required"] = required.into();
            }
            (schema, any)
        }
    };
    Some(json!({"required": required, "content": {"application/json": {"schema": schema}}}))
}

fn answer(verb: &Verb, route: &Route, schemas: &mut Schemas) -> Json {
    let etag = json!({"schema": {"type": "string"}});
    let warning = json!({
        "description": "A warning: a setting or a tag that is not known. There may be several. What is not printable ASCII, and `%`, is percent-encoded (UTF-8).",
        "schema": {"type": "string"},
    });
    let of = |media: &str, schema: Json, headers: Json| {
        let mut answer = json!({"description": "The answer.", "content": {media: {"schema": schema}}});
        if headers != json!({}) {
            answer["headers"] = headers;
        }
        answer
    };
    match route.shows {
        Shows::Released | Shows::Created => {
            let headers = json!({
                "ETag": etag,
                "Location": {"schema": {"type": "string"}},
                "Warning": warning,
            });
            of("application/json", schemas.answered("Release"), headers)
        }
        Shows::Done => {
            let schema = json!({
                "type": "object",
                "required": ["stream", "changed", "what"],
                "properties": {
                    "stream": {"type": "string"},
                    "changed": {"type": "boolean", "description": "False = it was so already."},
                    "what": {"type": "string", "description": "What was done, in a sentence."},
                },
            });
            of("application/json", schema, json!({"Warning": warning}))
        }
        Shows::Message if verb.method.is_server_streaming() => {
            of("application/x-ndjson", schemas.of_message(&verb.method.output()), json!({}))
        }
        Shows::Message => {
            let schema = match verb.answer.strip_suffix("[]") {
                _ if verb.answer.is_empty() => schemas.of_message(&verb.method.output()),
                Some(item) => json!({"type": "array", "items": schemas.answered(item)}),
                None => schemas.answered(&verb.answer),
            };
            let headers = if route.method == "GET" { json!({"ETag": etag}) } else { json!({}) };
            of("application/json", schema, headers)
        }
    }
}

fn itself() -> Json {
    json!({"get": {
        "operationId": "openapi",
        "summary": "This document.",
        "security": [],
        "responses": {"200": {
            "description": "OpenAPI 3.1.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }},
    }})
}

fn unchanged() -> Json {
    json!({
        "description": "It is what If-None-Match named.",
        "headers": {"ETag": {"schema": {"type": "string"}}},
    })
}

fn identical() -> Json {
    json!({
        "description": "The latest release says the same already; Location names it. After a rollback the latest is the one that went back.",
        "headers": {"ETag": {"schema": {"type": "string"}}, "Location": {"schema": {"type": "string"}}},
    })
}

fn problem() -> Json {
    json!({
        "description": "It was not done (RFC 9457). Nothing was changed, except where error is outcome-unknown: then it was sent, and whether it was carried out is not known; look before you ask again. error and message are type and detail in the form of earlier versions.",
        "content": {"application/problem+json": {"schema": {
            "type": "object",
            "additionalProperties": false,
            "required": ["type", "title", "status", "detail", "error", "message"],
            "properties": {
                "type": {"type": "string", "pattern": "^urn:tidegate:problem:[a-z-]+$"},
                "title": {"type": "string"},
                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                "detail": {"type": "string"},
                "error": {"enum": [
                    "invalid", "not-found", "method-not-allowed", "refused", "unauthenticated", "forbidden",
                    "unavailable", "outcome-unknown", "too-large", "too-slow", "internal",
                ]},
                "message": {"type": "string"},
            },
        }}},
    })
}
