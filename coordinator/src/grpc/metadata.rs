//! The methods about metadata groups.

use super::client::{self, Connection};
use super::forward::{Peers, Route, forwarded, unread};
use super::service::{json, look, principal};
use super::wish::wish;
use crate::operation::metadata as operation;
use crate::room::Room;
use futures::stream::{self, BoxStream, StreamExt};
use tidegate_proto::wire::v1::metadata_server::Metadata;
use tidegate_proto::wire::v1::{
    CancelMetadataRequest, Event, ExplainGroupRequest, GroupHistoryRequest, InstanceMetadataRequest,
    JsonReply, ListGroupsRequest, MetadataReply, SetMetadataRequest, ShowGroupRequest, TellMetadataRequest,
};
use tonic::{Request, Response, Status};

/// The service of one coordinator about metadata groups.
#[derive(Clone)]
pub struct MetadataService {
    room: Room,
    peers: Peers,
}

impl MetadataService {
    /// The service in a room. It is served behind the guard, which says of each call who calls.
    pub fn new(room: Room, peers: Peers) -> Self {
        Self { room, peers }
    }

    fn at(leader: &Connection) -> client::Metadata {
        leader.metadata()
    }
}

#[tonic::async_trait]
impl Metadata for MetadataService {
    type GroupHistoryStream = BoxStream<'static, Result<Event, Status>>;

    async fn set_metadata(&self, r: Request<SetMetadataRequest>) -> Result<Response<MetadataReply>, Status> {
        wish!(self, r, operation::set, set_metadata)
    }

    async fn cancel_metadata(
        &self,
        r: Request<CancelMetadataRequest>,
    ) -> Result<Response<MetadataReply>, Status> {
        wish!(self, r, operation::cancel, cancel_metadata)
    }

    async fn tell_metadata(
        &self,
        r: Request<TellMetadataRequest>,
    ) -> Result<Response<MetadataReply>, Status> {
        wish!(self, r, operation::tell, tell_metadata)
    }

    async fn list_groups(&self, r: Request<ListGroupsRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::list(&self.room, r.get_ref())?)
    }

    async fn show_group(&self, r: Request<ShowGroupRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::show(&self.room, r.get_ref())?)
    }

    async fn instance_metadata(
        &self,
        r: Request<InstanceMetadataRequest>,
    ) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::get(&self.room, r.get_ref()).await?)
    }

    /// The leader answers: it alone counts how long things have been waiting.
    async fn explain_group(&self, r: Request<ExplainGroupRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        let principal = principal(&r)?;
        match self.peers.route(&self.room, &r, &principal).await? {
            Route::Here(seat) => json(&operation::explain(&self.room, &seat, r.get_ref())?),
            Route::There(leader) => {
                let answer = leader.metadata().explain_group(forwarded(r, &principal)).await;
                answer.map_err(unread)
            }
        }
    }

    async fn group_history(
        &self,
        r: Request<GroupHistoryRequest>,
    ) -> Result<Response<Self::GroupHistoryStream>, Status> {
        look(&self.room, &r)?;
        let events = operation::history(&self.room, r.get_ref()).await?;
        Ok(Response::new(stream::iter(events.into_iter().map(Ok)).boxed()))
    }
}
