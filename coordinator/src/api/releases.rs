//! Compute releases over HTTP, as those who release them and start computes ask. Only translates: each route is the
//! gRPC method of its name, which does it here or forwards it to the leader.

use super::etag;
use super::problem::{Given, Problem};
use crate::grpc::ReleasesService;
use crate::guard::Principal;
use axum::extract::{DefaultBodyLimit, Extension, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_proto::wire::v1::releases_server::Releases;
use tidegate_proto::wire::v1::{
    ApproveReleaseRequest, ConfigureStreamRequest, CreateReleaseRequest, ExplainReleaseRequest,
    GetReleaseRequest, JsonReply, ListReleasesRequest, ListStreamsRequest, PinComputeRequest,
    PromoteReleaseRequest, ReleaseReply, ReleaseSettingsRequest, RetryReleaseRequest, RollBackReleaseRequest,
    ShowStreamRequest, TellAvailableRequest, TellEvidenceRequest, TellRunningRequest, TellSignalRequest,
    UnpinComputeRequest,
};
use tonic::Request;

/// A path of this API.
macro_rules! v2 {
    ($path:literal) => {
        concat!("/management/api/v2", $path)
    };
}

/// The largest body, in bytes: a manifest has at most half of that in its canonical form.
pub const MAX_BODY: usize = 1024 * 1024;

/// Where releases are.
pub const RELEASES: &str = v2!("/compute_releases");

/// Where a compute asks what to start with; its route is in a file of its own.
pub const START: &str = v2!("/compute_releases/start");

const OPENAPI: &str = include_str!("openapi.yaml");

type Answer = Result<Response, Problem>;
type Door = State<ReleasesService>;
type Who = Extension<Principal>;

/// The routes.
pub fn routes(service: ReleasesService) -> Router {
    Router::new()
        .route(v2!("/compute_releases"), post(create).get(list))
        .route(v2!("/compute_releases/rollback"), post(roll_back))
        .route(v2!("/compute_releases/deployed"), get(deployed))
        .route(v2!("/compute_releases/running"), put(running))
        .route(v2!("/compute_releases/pins/{compute}"), put(pin).delete(unpin))
        .route(v2!("/compute_releases/by_tag/{tag}"), get(by_tag))
        .route(v2!("/compute_releases/by_tag/{tag}/settings"), get(settings_by_tag))
        .route(v2!("/compute_releases/{revision}"), get(by_revision))
        .route(v2!("/compute_releases/{revision}/settings"), get(settings))
        .route(v2!("/compute_releases/{revision}/explain"), get(explain))
        .route(v2!("/compute_releases/{revision}/approve"), post(approve))
        .route(v2!("/compute_releases/{revision}/promote"), post(promote))
        .route(v2!("/compute_releases/{revision}/retry"), post(retry))
        .route(v2!("/compute_releases/{revision}/available"), put(available))
        .route(v2!("/compute_releases/{revision}/signals/{compute}"), put(signal))
        .route(v2!("/streams"), get(streams))
        .route(v2!("/streams/{stream}"), get(show_stream).put(configure))
        .route(v2!("/streams/{stream}/active"), get(active))
        .route(v2!("/evidence/{compute_tag}/{storage_tag}"), put(evidence))
        .route(v2!("/openapi.json"), get(openapi))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(service)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InStream {
    #[serde(default)]
    stream: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfPage {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    before: u64,
    #[serde(default)]
    limit: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSettings {
    #[serde(default)]
    stream: String,
    pg_version: u32,
    #[serde(default = "primary")]
    role: String,
    #[serde(default)]
    compute_id: String,
    /// JSON objects of settings.
    #[serde(default)]
    overrides: String,
    #[serde(default)]
    dynamic: String,
}

fn primary() -> String {
    "primary".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Back {
    revision: u64,
    #[serde(default)]
    why: String,
    #[serde(default)]
    prewarm: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Note {
    #[serde(default)]
    note: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Promotion {
    /// A share of starts. A `null` is refused, because it is no request for all of them.
    #[serde(default, deserialize_with = "given_number")]
    fraction: Option<serde_json::Number>,
    /// All starts.
    #[serde(default)]
    deploy: bool,
    #[serde(default)]
    why: String,
}

/// A field that is a number where it is given.
fn given_number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<serde_json::Number>, D::Error> {
    serde_json::Number::deserialize(from).map(Some)
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Again {
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Availability {
    available: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    success: bool,
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnRelease {
    revision: u64,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finding {
    verdict: String,
    #[serde(default)]
    note: String,
}

/// A request in the name of whoever calls.
pub(super) fn asked<T>(principal: Principal, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(principal);
    request
}

pub(super) fn json_text(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn told(answer: Result<tonic::Response<JsonReply>, tonic::Status>) -> Answer {
    Ok(json_text(StatusCode::OK, answer?.into_inner().json))
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
    // 199: a warning of any kind, for people (RFC 7234).
    for warning in reply.warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("199 tidegate {warning:?}")) {
            headers.append(header::WARNING, value);
        }
    }
    for (name, value) in [(header::ETAG, etag), (header::LOCATION, location)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

/// What was done, for a wish that concerns no one release.
fn done(reply: ReleaseReply) -> Response {
    Json(json!({ "stream": reply.stream, "changed": reply.changed, "what": reply.what })).into_response()
}

async fn create(State(door): Door, Extension(who): Who, given: Given<InStream>) -> Answer {
    let (of, body) = given.text()?;
    let message = CreateReleaseRequest { stream: of.stream, body, who: String::new() };
    let reply = door.create_release(asked(who, message)).await?.into_inner();
    let status = if reply.changed { StatusCode::OK } else { StatusCode::NOT_MODIFIED };
    Ok(release(status, reply))
}

async fn roll_back(State(door): Door, Extension(who): Who, given: Given<InStream>) -> Answer {
    let (of, Back { revision, why, prewarm }) = given.json("the rollback")?;
    let no_prewarm = prewarm == Some(false);
    let message = RollBackReleaseRequest { stream: of.stream, revision, who: String::new(), why, no_prewarm };
    Ok(release(StatusCode::OK, door.roll_back_release(asked(who, message)).await?.into_inner()))
}

async fn list(State(door): Door, Extension(who): Who, given: Given<OfPage>) -> Answer {
    let OfPage { stream, before, limit } = given.query()?;
    told(door.list_releases(asked(who, ListReleasesRequest { stream, before, limit })).await)
}

async fn find(
    door: ReleasesService,
    who: Principal,
    headers: &HeaderMap,
    message: GetReleaseRequest,
) -> Answer {
    let reply = door.get_release(asked(who, message)).await?.into_inner();
    let etag = etag::of(&reply.release);
    Ok(etag::conditional(headers, &etag, release(StatusCode::OK, reply)))
}

async fn deployed(
    State(door): Door,
    Extension(who): Who,
    headers: HeaderMap,
    given: Given<InStream>,
) -> Answer {
    let stream = given.query()?.stream;
    find(door, who, &headers, GetReleaseRequest { stream, ..GetReleaseRequest::default() }).await
}

async fn by_tag(
    State(door): Door,
    Extension(who): Who,
    Path(tag): Path<String>,
    headers: HeaderMap,
    given: Given<InStream>,
) -> Answer {
    let stream = given.query()?.stream;
    find(door, who, &headers, GetReleaseRequest { stream, revision: 0, tag }).await
}

async fn by_revision(
    State(door): Door,
    Extension(who): Who,
    Path(revision): Path<String>,
    headers: HeaderMap,
    given: Given<InStream>,
) -> Answer {
    let (stream, revision) = (given.query()?.stream, number(&revision)?);
    find(door, who, &headers, GetReleaseRequest { stream, revision, tag: String::new() }).await
}

/// A revision in a path.
fn number(text: &str) -> Result<u64, Problem> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
        Problem::invalid(format!("{text:?} is not a revision: a whole number from 1 on is allowed"))
    })
}

async fn resolve(
    door: ReleasesService,
    who: Principal,
    of: OfSettings,
    revision: u64,
    tag: String,
) -> Answer {
    let message = ReleaseSettingsRequest {
        stream: of.stream,
        revision,
        tag,
        compute: of.compute_id,
        pg_version: of.pg_version,
        role: of.role,
        overrides: of.overrides,
        dynamic: of.dynamic,
    };
    told(door.release_settings(asked(who, message)).await)
}

async fn settings(
    State(door): Door,
    Extension(who): Who,
    Path(revision): Path<String>,
    given: Given<OfSettings>,
) -> Answer {
    resolve(door, who, given.query()?, number(&revision)?, String::new()).await
}

async fn settings_by_tag(
    State(door): Door,
    Extension(who): Who,
    Path(tag): Path<String>,
    given: Given<OfSettings>,
) -> Answer {
    resolve(door, who, given.query()?, 0, tag).await
}

async fn explain(
    State(door): Door,
    Extension(who): Who,
    Path(revision): Path<String>,
    given: Given<InStream>,
) -> Answer {
    let (stream, revision) = (given.query()?.stream, number(&revision)?);
    told(door.explain_release(asked(who, ExplainReleaseRequest { stream, revision })).await)
}

async fn approve(
    State(door): Door,
    Extension(who): Who,
    Path(revision): Path<String>,
    given: Given<InStream>,
) -> Answer {
    let revision = number(&revision)?;
    let (of, Note { note }) = given.json_or_default("the approval")?;
    let message = ApproveReleaseRequest { stream: of.stream, revision, who: String::new(), note };
    Ok(release(StatusCode::OK, door.approve_release(asked(who, message)).await?.into_inner()))
}

async fn promote(
    State(door): Door,
    Extension(who): Who,
    Path(revision): Path<String>,
    given: Given<InStream>,
) -> Answer {
    let revision = number(&revision)?;
    let (of, Promotion { fraction, deploy, why }) = given.json_or_default("the promotion")?;
    let fraction = fraction.map(|share| share.to_string()).unwrap_or_default();
    let message =
        PromoteReleaseRequest { stream: of.stream, revision, fraction, who: String::new(), why, deploy };
    Ok(release(StatusCode::OK, door.promote_release(asked(who, message)).await?.into_inner()))
}

async fn retry(
    State(door): Door,
    Extension(who): Who,
    Path(revision): Path<String>,
    given: Given<InStream>,
) -> Answer {
    let revision = number(&revision)?;
    let (of, Again { why }) = given.json_or_default("the wish")?;
    let message = RetryReleaseRequest { stream: of.stream, revision, who: String::new(), why };
    Ok(release(StatusCode::OK, door.retry_release(asked(who, message)).await?.into_inner()))
}

async fn available(
    State(door): Door,
    Extension(who): Who,
    Path(revision): Path<String>,
    given: Given<InStream>,
) -> Answer {
    let revision = number(&revision)?;
    let (of, Availability { available }) = given.json("the word")?;
    let message =
        TellAvailableRequest { stream: of.stream, revision, answers: available, who: String::new() };
    Ok(release(StatusCode::OK, door.tell_available(asked(who, message)).await?.into_inner()))
}

async fn signal(
    State(door): Door,
    Extension(who): Who,
    Path((revision, compute)): Path<(String, String)>,
    given: Given<InStream>,
) -> Answer {
    let revision = number(&revision)?;
    let (of, Word { success, why }) = given.json("the word")?;
    let message =
        TellSignalRequest { stream: of.stream, revision, compute, success, why, who: String::new() };
    Ok(done(door.tell_signal(asked(who, message)).await?.into_inner()))
}

async fn running(State(door): Door, Extension(who): Who, given: Given<InStream>) -> Answer {
    let (of, counts): (_, BTreeMap<String, u64>) = given.json("the counts")?;
    let message = TellRunningRequest { stream: of.stream, counts, who: String::new() };
    Ok(done(door.tell_running(asked(who, message)).await?.into_inner()))
}

async fn pin(
    State(door): Door,
    Extension(who): Who,
    Path(compute): Path<String>,
    given: Given<InStream>,
) -> Answer {
    let (of, OwnRelease { revision, why }) = given.json("the pin")?;
    let message = PinComputeRequest { stream: of.stream, compute, revision, who: String::new(), why };
    Ok(done(door.pin_compute(asked(who, message)).await?.into_inner()))
}

async fn unpin(
    State(door): Door,
    Extension(who): Who,
    Path(compute): Path<String>,
    given: Given<InStream>,
) -> Answer {
    let stream = given.query()?.stream;
    let message = UnpinComputeRequest { stream, compute, who: String::new(), why: String::new() };
    Ok(done(door.unpin_compute(asked(who, message)).await?.into_inner()))
}

async fn streams(State(door): Door, Extension(who): Who) -> Answer {
    told(door.list_streams(asked(who, ListStreamsRequest {})).await)
}

async fn show_stream(State(door): Door, Extension(who): Who, Path(stream): Path<String>) -> Answer {
    told(door.show_stream(asked(who, ShowStreamRequest { stream })).await)
}

async fn configure(
    State(door): Door,
    Extension(who): Who,
    Path(stream): Path<String>,
    given: Given<Nothing>,
) -> Answer {
    let (_, settings) = given.text()?;
    let message = ConfigureStreamRequest { stream, settings, who: String::new(), why: String::new() };
    Ok(done(door.configure_stream(asked(who, message)).await?.into_inner()))
}

/// No query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What main traffic should go to, for a balancer to follow: nothing but that, so that it changes only with it.
async fn active(
    State(door): Door,
    Extension(who): Who,
    Path(stream): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let message = GetReleaseRequest { stream, ..GetReleaseRequest::default() };
    let reply = door.get_release(asked(who, message)).await?.into_inner();
    let shown: crate::operation::release::view::Release =
        serde_json::from_str(&reply.release).map_err(|e| Problem::internal(e.to_string()))?;
    let pointer = crate::operation::release::view::Pointer::of(&shown);
    let text = crate::operation::release::view::text(&pointer);
    Ok(etag::conditional(&headers, &etag::of(&text), json_text(StatusCode::OK, text)))
}

async fn evidence(
    State(door): Door,
    Extension(who): Who,
    Path((compute_tag, storage_tag)): Path<(String, String)>,
    given: Given<Nothing>,
) -> Answer {
    let (_, Finding { verdict, note }) = given.json("the verdict")?;
    let message = TellEvidenceRequest { compute_tag, storage_tag, verdict, note, who: String::new() };
    Ok(done(door.tell_evidence(asked(who, message)).await?.into_inner()))
}

/// The description of all this, for machines.
async fn openapi() -> Answer {
    let document: serde_json::Value =
        serde_saphyr::from_str(OPENAPI).map_err(|e| Problem::internal(e.to_string()))?;
    Ok(Json(document).into_response())
}
