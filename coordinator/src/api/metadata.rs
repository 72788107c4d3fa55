//! Metadata groups over HTTP, as instances and those who set their documents ask. Only translates: each route is the gRPC
//! method of its name, which does it here or forwards it to the leader.

use super::etag;
use super::problem::{Given, Problem};
use super::releases::{MAX_BODY, asked, json_text};
use crate::grpc::MetadataService;
use crate::guard::Principal;
use crate::operation::metadata::view::Served;
use axum::extract::{DefaultBodyLimit, Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use tidegate_proto::wire::v1::metadata_server::Metadata;
use tidegate_proto::wire::v1::{
    CancelMetadataRequest, ExplainGroupRequest, InstanceMetadataRequest, JsonReply, ListGroupsRequest,
    MetadataReply, SetMetadataRequest, ShowGroupRequest, TellMetadataRequest,
};

const OPENAPI: &str = include_str!("metadata.openapi.yaml");

type Answer = Result<Response, Problem>;
type Door = State<MetadataService>;
type Who = Extension<Principal>;

/// The routes.
pub fn routes(service: MetadataService) -> Router {
    Router::new()
        .route("/v1/groups", get(list))
        .route("/v1/groups/{group}", get(show))
        .route("/v1/groups/{group}/metadata", put(set))
        .route("/v1/groups/{group}/cancel", post(cancel))
        .route("/v1/groups/{group}/explain", get(explain))
        .route("/v1/groups/{group}/instances/{instance}/metadata", get(served))
        .route("/v1/groups/{group}/instances/{instance}/signal", post(signal))
        .route("/v1/openapi.json", get(openapi))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(service)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    success: bool,
    #[serde(default)]
    generation: u64,
    #[serde(default)]
    failure: String,
    #[serde(default)]
    why: String,
}

/// No query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn told(answer: Result<tonic::Response<JsonReply>, tonic::Status>) -> Answer {
    Ok(json_text(StatusCode::OK, answer?.into_inner().json))
}

/// What was done.
fn done(reply: MetadataReply) -> Response {
    let MetadataReply { group, generation, changed, what, .. } = reply;
    Json(json!({ "group": group, "generation": generation, "changed": changed, "what": what }))
        .into_response()
}

async fn list(State(door): Door, Extension(who): Who, given: Given<Nothing>) -> Answer {
    given.query()?;
    told(door.list_groups(asked(who, ListGroupsRequest {})).await)
}

async fn show(
    State(door): Door,
    Extension(who): Who,
    Path(group): Path<String>,
    given: Given<Nothing>,
) -> Answer {
    given.query()?;
    told(door.show_group(asked(who, ShowGroupRequest { group })).await)
}

async fn set(State(door): Door, Extension(who): Who, Path(group): Path<String>, given: Given<Why>) -> Answer {
    let (Why { why }, body) = given.text()?;
    let message = SetMetadataRequest { group, body, who: String::new(), why };
    Ok(done(door.set_metadata(asked(who, message)).await?.into_inner()))
}

async fn cancel(
    State(door): Door,
    Extension(who): Who,
    Path(group): Path<String>,
    given: Given<Nothing>,
) -> Answer {
    let (_, Why { why }) = given.json("the wish")?;
    let message = CancelMetadataRequest { group, who: String::new(), why };
    Ok(done(door.cancel_metadata(asked(who, message)).await?.into_inner()))
}

async fn explain(
    State(door): Door,
    Extension(who): Who,
    Path(group): Path<String>,
    given: Given<Nothing>,
) -> Answer {
    given.query()?;
    told(door.explain_group(asked(who, ExplainGroupRequest { group })).await)
}

/// What an instance is served, with what it recognises it by: whoever asks again with that is told when it has changed.
async fn served(
    State(door): Door,
    Extension(who): Who,
    Path((group, instance)): Path<(String, String)>,
    headers: HeaderMap,
    given: Given<Nothing>,
) -> Answer {
    given.query()?;
    let message = InstanceMetadataRequest { group, instance };
    let text = door.instance_metadata(asked(who, message)).await?.into_inner().json;
    let served: Served = serde_json::from_str(&text).map_err(|e| Problem::internal(e.to_string()))?;
    // While an update runs, whether the instance is asked how it fared belongs to the answer.
    let etag = format!("\"{}{}\"", served.generation, if served.exposed { "-exposed" } else { "" });
    Ok(etag::conditional(&headers, &etag, json_text(StatusCode::OK, text)))
}

async fn signal(
    State(door): Door,
    Extension(who): Who,
    Path((group, instance)): Path<(String, String)>,
    given: Given<Nothing>,
) -> Answer {
    let (_, Word { success, generation, failure, why }) = given.json("the word")?;
    let message =
        TellMetadataRequest { group, instance, generation, success, failure, why, who: String::new() };
    Ok(done(door.tell_metadata(asked(who, message)).await?.into_inner()))
}

/// The description of all this, for machines.
async fn openapi() -> Answer {
    let document: serde_json::Value =
        serde_saphyr::from_str(OPENAPI).map_err(|e| Problem::internal(e.to_string()))?;
    Ok(Json(document).into_response())
}
