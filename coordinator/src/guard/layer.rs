//! The guard as a layer of each server: an accepted call carries its principal, another one gets an error in the form of
//! its protocol.

use super::needs::{self, Need};
use super::{Caller, Denied, Guard};
use crate::door::Peer;
use crate::problem::Problem;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tonic::Status;

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unknown(why) => Self::unauthenticated(why),
            Denied::Forbidden(why) => Self::permission_denied(why),
            Denied::NotYet(why) => Self::unavailable(why),
        }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let (status, word) = match &self {
            Self::Unknown(_) => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NotYet(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        let problem = Problem::new(status, word, self.to_string());
        match status {
            StatusCode::UNAUTHORIZED => ([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response(),
            _ => problem.into_response(),
        }
    }
}

/// Before the operators' service.
pub async fn grpc(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let caller = Caller::of(request.extensions().get::<Peer>(), request.headers());
    match guard.admit(&caller, needs::of_method(request.uri().path())) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(denied) => Status::from(denied).into_http(),
    }
}

/// Before the routes of HTTP.
pub async fn http(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        // No such route: there is nothing to protect.
        return next.run(request).await;
    };
    let Need::Role(need) = needs::of_route(request.method().as_str(), path.as_str()) else {
        return next.run(request).await;
    };
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer);
    match guard.admit(&Caller::of(peer, request.headers()), need) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(denied) => denied.into_response(),
    }
}
