//! The methods about compute releases.

use super::client::{self, Connection};
use super::forward::{Peers, Route, forwarded, unread};
use super::service::{json, look, principal};
use super::wish::wish;
use crate::operation::release as operation;
use crate::room::Room;
use futures::stream::{self, BoxStream, StreamExt};
use tidegate_proto::wire::v1::releases_server::Releases;
use tidegate_proto::wire::v1::{
    ApproveReleaseRequest, ConfigureStreamRequest, CreateReleaseRequest, Event, ExplainReleaseRequest,
    GetReleaseRequest, JsonReply, ListReleasesRequest, ListStreamsRequest, PinComputeRequest,
    PromoteReleaseRequest, ReleaseReply, ReleaseSettingsRequest, RetryReleaseRequest, RollBackReleaseRequest,
    ShowStreamRequest, StartComputeRequest, StreamHistoryRequest, TellAvailableRequest, TellEvidenceRequest,
    TellRunningRequest, TellSignalRequest, UnpinComputeRequest,
};
use tonic::{Request, Response, Status};

/// The service of one coordinator about compute releases.
#[derive(Clone)]
pub struct ReleasesService {
    room: Room,
    peers: Peers,
}

impl ReleasesService {
    /// The service in a room. It is served behind the guard, which says of each call who calls.
    pub fn new(room: Room, peers: Peers) -> Self {
        Self { room, peers }
    }

    fn at(leader: &Connection) -> client::Releases {
        leader.releases()
    }
}

#[tonic::async_trait]
impl Releases for ReleasesService {
    type StreamHistoryStream = BoxStream<'static, Result<Event, Status>>;

    async fn create_release(
        &self,
        r: Request<CreateReleaseRequest>,
    ) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::create, create_release)
    }

    async fn roll_back_release(
        &self,
        r: Request<RollBackReleaseRequest>,
    ) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::roll_back, roll_back_release)
    }

    async fn approve_release(
        &self,
        r: Request<ApproveReleaseRequest>,
    ) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::approve, approve_release)
    }

    async fn promote_release(
        &self,
        r: Request<PromoteReleaseRequest>,
    ) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::promote, promote_release)
    }

    async fn pin_compute(&self, r: Request<PinComputeRequest>) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::pin, pin_compute)
    }

    async fn unpin_compute(&self, r: Request<UnpinComputeRequest>) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::unpin, unpin_compute)
    }

    async fn retry_release(&self, r: Request<RetryReleaseRequest>) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::retry, retry_release)
    }

    async fn configure_stream(
        &self,
        r: Request<ConfigureStreamRequest>,
    ) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::configure, configure_stream)
    }

    async fn tell_available(
        &self,
        r: Request<TellAvailableRequest>,
    ) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::available, tell_available)
    }

    async fn tell_signal(&self, r: Request<TellSignalRequest>) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::signal, tell_signal)
    }

    async fn tell_running(&self, r: Request<TellRunningRequest>) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::running, tell_running)
    }

    async fn tell_evidence(&self, r: Request<TellEvidenceRequest>) -> Result<Response<ReleaseReply>, Status> {
        wish!(self, r, operation::evidence, tell_evidence)
    }

    async fn list_streams(&self, r: Request<ListStreamsRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::streams(&self.room, r.get_ref())?)
    }

    async fn show_stream(&self, r: Request<ShowStreamRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::show_stream(&self.room, r.get_ref())?)
    }

    async fn active_release(&self, r: Request<ShowStreamRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::active(&self.room, r.get_ref())?)
    }

    async fn list_releases(&self, r: Request<ListReleasesRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::list(&self.room, r.get_ref()).await?)
    }

    async fn get_release(&self, r: Request<GetReleaseRequest>) -> Result<Response<ReleaseReply>, Status> {
        look(&self.room, &r)?;
        Ok(Response::new(operation::get(&self.room, r.get_ref()).await?))
    }

    async fn release_settings(
        &self,
        r: Request<ReleaseSettingsRequest>,
    ) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::settings(&self.room, r.get_ref()).await?)
    }

    async fn start_compute(&self, r: Request<StartComputeRequest>) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        json(&operation::start(&self.room, r.get_ref())?)
    }

    /// The leader answers: it alone counts how long things have been waiting.
    async fn explain_release(
        &self,
        r: Request<ExplainReleaseRequest>,
    ) -> Result<Response<JsonReply>, Status> {
        look(&self.room, &r)?;
        let principal = principal(&r)?;
        match self.peers.route(&self.room, &r, &principal).await? {
            Route::Here(seat) => json(&operation::explain(&self.room, &seat, r.get_ref()).await?),
            Route::There(leader) => {
                let answer = leader.releases().explain_release(forwarded(r, &principal)).await;
                answer.map_err(unread)
            }
        }
    }

    async fn stream_history(
        &self,
        r: Request<StreamHistoryRequest>,
    ) -> Result<Response<Self::StreamHistoryStream>, Status> {
        look(&self.room, &r)?;
        let events = operation::history(&self.room, r.get_ref()).await?;
        Ok(Response::new(stream::iter(events.into_iter().map(Ok)).boxed()))
    }
}
