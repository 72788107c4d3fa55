//! Every rpc over HTTP, at the addresses that it declares: a request becomes its message, the service of the same process
//! answers as it does over gRPC, and the answer becomes JSON. No verb is written here.

mod answer;
mod codec;
mod message;

pub(super) use answer::json_text;
pub(super) use message::free;

use super::given::{Given, MAX_BODY};
use super::start::START;
use crate::guard::Principal;
use crate::problem::Problem;
use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{DefaultBodyLimit, Extension, RawPathParams, State};
use axum::http::HeaderMap;
use axum::http::uri::PathAndQuery;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use codec::Json;
use tidegate_proto::verb::{Route, VERBS, Verb};
use tonic::Request;
use tonic::client::Grpc;
use tonic::service::Routes;

/// The routes of all services. `services` is asked as if over gRPC; the guard stands before these routes.
pub(super) fn routes(services: Routes) -> Router {
    let each = VERBS.iter().flat_map(|verb| verb.routes.iter().map(move |route| (verb, route)));
    each.filter(|(_, route)| route.path != START)
        .fold(Router::new(), |router, (verb, route)| router.route(&route.path, handler(verb, route)))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(services)
}

fn handler(verb: &'static Verb, route: &'static Route) -> axum::routing::MethodRouter<Routes> {
    let filter = match route.method {
        "PUT" => MethodFilter::PUT,
        "POST" => MethodFilter::POST,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    };
    let answered = async move |State(services): State<Routes>,
                               Extension(who): Extension<Principal>,
                               params: Result<RawPathParams, RawPathParamsRejection>,
                               headers: HeaderMap,
                               given: Given<Vec<(String, String)>>| {
        let params = params.map_err(Problem::no_path)?;
        let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut asked = Request::new(message::read(verb, route, params, given)?);
        asked.extensions_mut().insert(who);
        ask(services, verb, route, asked, &headers).await
    };
    on(filter, answered)
}

async fn ask(
    services: Routes,
    verb: &'static Verb,
    route: &Route,
    asked: Request<prost_reflect::DynamicMessage>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let mut service = Grpc::new(services).max_decoding_message_size(usize::MAX);
    service.ready().await.map_err(|e| Problem::internal(e.to_string()))?;
    let path = PathAndQuery::try_from(verb.path()).map_err(|e| Problem::internal(e.to_string()))?;
    let codec = Json(verb.method.output());
    if verb.method.is_server_streaming() {
        let messages = service.server_streaming(asked, path, codec).await?.into_inner();
        return Ok(answer::lines(messages));
    }
    let message = service.unary(asked, path, codec).await?.into_inner();
    answer::whole(route, &message, headers)
}
