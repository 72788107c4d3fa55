//! The services. Each rpc is the operation of its name: done here or, for what only the leader may do, at the leader.

use super::change::{Written, change};
use super::forward::{Peers, Route, forwarded, seen, unanswered, unread};
use super::lines::{Lines, Streamed};
use crate::context::Context;
use crate::guard::Principal;
use crate::operation::release::view;
use crate::operation::{OperationError, hinted};
use crate::report::Trouble;
use futures::stream::{BoxStream, StreamExt};
use tidegate_proto::wire::v1::{self, JsonReply};
use tidegate_proto::{metadata_rpcs, operator_rpcs, releases_rpcs};
use tonic::{Request, Response, Status};

/// Every service of one coordinator. It is served behind the guard, which says of each call who calls.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) context: Context,
    pub(super) peers: Peers,
}

macro_rules! serve {
    (
        $service:ident $client:ident $server:ident
        changes { $(($change:ident $change_in:ident $change_out:ident))* }
        looks { $(($look:ident $look_in:ident $look_out:ident))* }
        always { $(($always:ident $always_in:ident $always_out:ident))* }
        views { $(($view:ident $view_in:ident $view_out:ident))* }
        led { $(($led:ident $led_in:ident $led_out:ident))* }
        lines { $(($lines:ident $stream:ident $lines_in:ident $lines_out:ident))* }
    ) => {
        #[tonic::async_trait]
        impl v1::$server::$service for Service {
            $(async fn $change(&self, r: Request<v1::$change_in>) -> Result<Response<v1::$change_out>, Status> {
                change!(self, r, operation::$change, $client.$change)
            })*

            $(async fn $look(&self, r: Request<v1::$look_in>) -> Result<Response<v1::$look_out>, Status> {
                look(&self.context, &r)?;
                Ok(Response::new(hint(&self.context, &r, operation::$look(&self.context, r.get_ref()).await)?))
            })*

            $(async fn $always(&self, r: Request<v1::$always_in>) -> Result<Response<v1::$always_out>, Status> {
                principal(&r)?;
                Ok(Response::new(operation::$always(&self.context)))
            })*

            $(async fn $view(&self, r: Request<v1::$view_in>) -> Result<Response<v1::$view_out>, Status> {
                look(&self.context, &r)?;
                Ok(json(&hint(&self.context, &r, operation::$view(&self.context, r.get_ref()).await)?))
            })*

            $(async fn $led(&self, r: Request<v1::$led_in>) -> Result<Response<v1::$led_out>, Status> {
                look(&self.context, &r)?;
                let principal = principal(&r)?;
                match self.peers.route(&self.context, &r, &principal).await? {
                    Route::Here(leadership) => {
                        let seen = operation::$led(&self.context, &leadership, r.get_ref()).await;
                        Ok(json(&hint(&self.context, &r, seen)?))
                    }
                    Route::There(leader) => {
                        leader.$client().$led(forwarded(r, &principal)).await.map_err(unread)
                    }
                }
            })*

            $(
                type $stream = BoxStream<'static, Result<v1::$lines_out, Status>>;

                async fn $lines(&self, r: Request<v1::$lines_in>) -> Streamed<v1::$lines_out> {
                    look(&self.context, &r)?;
                    let found = hint(&self.context, &r, operation::$lines(&self.context, r.get_ref()).await)?;
                    Ok(Response::new(found.lines().map(Ok).boxed()))
                }
            )*
        }
    };
}

mod operator {
    use super::*;
    use crate::operation;
    operator_rpcs!(serve);
}

mod releases {
    use super::*;
    use crate::operation::release as operation;
    releases_rpcs!(serve);
}

mod metadata {
    use super::*;
    use crate::operation::metadata as operation;
    metadata_rpcs!(serve);
}

/// Lets a question in, once there is anything to answer it from.
fn look<T>(context: &Context, request: &Request<T>) -> Result<(), Status> {
    principal(request)?;
    match context.mirror.trouble() {
        Some(trouble @ Trouble::Unread(_)) => Err(Status::unavailable(trouble.to_string())),
        _ => Ok(()),
    }
}

/// An answer, or an error that names what was perhaps meant.
fn hint<A: serde::Serialize, T>(
    context: &Context,
    request: &Request<A>,
    answer: Result<T, OperationError>,
) -> Result<T, Status> {
    Ok(answer.map_err(|error| hinted(context, request.get_ref(), error))?)
}

/// A view, as JSON.
fn json(view: &impl serde::Serialize) -> Response<JsonReply> {
    Response::new(JsonReply { json: view::text(view) })
}

/// The caller, as the guard has it. A call that did not come through the guard has no principal.
fn principal<T>(request: &Request<T>) -> Result<Principal, Status> {
    let principal = request.extensions().get::<Principal>().cloned();
    principal.ok_or_else(|| Status::unauthenticated("the caller is not known"))
}
