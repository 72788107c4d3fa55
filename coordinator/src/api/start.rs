//! Which release a compute starts with: asked whenever one does, by the ten thousand a second, so there is little between
//! the socket and the decision. Its route asks the guard itself instead of standing behind the guard's layer, and reads
//! no body; it answers from memory, what the gRPC method of its name answers.

use super::rpc::json_text;
use crate::context::Context;
use crate::door::Peer;
use crate::guard::needs::{self, Need};
use crate::guard::{Caller, Guard};
use crate::operation::release as operation;
use crate::operation::release::view;
use crate::problem::Problem;
use crate::report::Trouble;
use axum::Router;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use std::sync::Arc;
use tidegate_proto::wire::v1::StartComputeRequest;
use tonic::Status;

/// Where a compute asks what to start with.
pub(super) const START: &str = "/management/api/v2/compute_releases/start";

/// What the route has at hand: behind one pointer, so that no call copies any of it.
struct StartState {
    context: Context,
    guard: Guard,
    need: Need,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    stream: String,
    compute_id: String,
}

pub fn route(context: Context, guard: Guard) -> Router {
    let state = StartState { context, guard, need: needs::of_route("GET", START) };
    Router::new().route(START, get(start)).with_state(Arc::new(state))
}

async fn start(State(state): State<Arc<StartState>>, request: Request) -> Response {
    if let Need::Role(need) = state.need {
        let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer);
        if let Err(denied) = state.guard.admit(&Caller::of(peer, request.headers()), need) {
            return denied.into_response();
        }
    }
    match answer(&state.context, &request) {
        Ok(start) => json_text(StatusCode::OK, view::text(&start)),
        Err(problem) => problem.into_response(),
    }
}

fn answer(context: &Context, request: &Request) -> Result<view::Start, Problem> {
    let Query(Asked { stream, compute_id }) =
        Query::try_from_uri(request.uri()).map_err(Problem::no_query)?;
    if let Some(trouble @ Trouble::Unread(_)) = context.mirror.trouble() {
        return Err(Status::unavailable(trouble.to_string()).into());
    }
    let asked = StartComputeRequest { stream, compute_id };
    operation::started(context, &asked).map_err(|error| Status::from(error).into())
}
