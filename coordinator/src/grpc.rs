//! The operators' API over gRPC. Only translates: each method calls the operation of its name, here or, for what
//! only the leader may do, at the leader.

mod change;
pub mod client;
mod forward;
mod lines;
mod service;

pub use forward::Peers;

use crate::context::Context;
use crate::door::listen::with_grace;
use crate::door::{Listener, PING};
use crate::guard::{self, Guard};
use crate::operation::OperationError;
use crate::telemetry::Chain;
use anyhow::{Context as _, Result};
use axum::middleware;
use service::Service;
use tidegate_proto::wire::v1::metadata_server::MetadataServer;
use tidegate_proto::wire::v1::operator_server::OperatorServer;
use tidegate_proto::wire::v1::releases_server::ReleasesServer;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Code, Status};

/// All services of one coordinator, without the guard that says of each call who calls.
pub fn services(context: &Context, peers: &Peers) -> Routes {
    let service = Service { context: context.clone(), peers: peers.clone() };
    Routes::new(OperatorServer::new(service.clone()))
        .add_service(ReleasesServer::new(service.clone()))
        .add_service(MetadataServer::new(service))
        .prepare()
}

/// Serves the services behind the guard until `shutdown`.
pub async fn serve(
    listener: Listener,
    services: Routes,
    guard: Guard,
    shutdown: CancellationToken,
) -> Result<()> {
    let router = Server::builder()
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PING))
        .add_routes(guarded(services, guard));
    let ended =
        with_grace(shutdown, |stop| router.serve_with_incoming_shutdown(listener.incoming(), stop)).await;
    ended.unwrap_or(Ok(())).context("gRPC is no longer served")
}

/// The services behind the guard.
pub fn guarded(services: Routes, guard: Guard) -> Routes {
    let routes = services.into_axum_router();
    Routes::from(routes.layer(middleware::from_fn_with_state(guard, guard::grpc)))
}

impl From<OperationError> for Status {
    fn from(error: OperationError) -> Self {
        let code = match &error {
            OperationError::BadInput(_) => Code::InvalidArgument,
            OperationError::TooLarge(_) => Code::ResourceExhausted,
            OperationError::NotFound(_) => Code::NotFound,
            OperationError::Refused(_) | OperationError::NoRollback { .. } => Code::FailedPrecondition,
            OperationError::Unavailable(_) | OperationError::Store { .. } => Code::Unavailable,
            OperationError::OutcomeUnknown(_) => Code::Unknown,
        };
        Status::new(code, Chain(&error).to_string())
    }
}
