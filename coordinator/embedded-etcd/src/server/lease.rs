//! Grant, revoke, keep alive, time to live, list.

use etcd_client::proto::{
    PbLeaseGrantRequest, PbLeaseGrantResponse, PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse,
    PbLeaseLeasesRequest, PbLeaseLeasesResponse, PbLeaseRevokeRequest, PbLeaseRevokeResponse, PbLeaseService,
    PbLeaseStatus, PbLeaseTimeToLiveRequest, PbLeaseTimeToLiveResponse,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::Api;
use crate::{expiry, refusal::Refusal};

/// Answers of one keep-alive stream that may wait for their client.
const WAITING_ANSWERS: usize = 64;

#[async_trait]
impl PbLeaseService for Api {
    type LeaseKeepAliveStream = ReceiverStream<Result<PbLeaseKeepAliveResponse, Status>>;

    async fn lease_grant(
        &self,
        request: Request<PbLeaseGrantRequest>,
    ) -> Result<Response<PbLeaseGrantResponse>, Status> {
        let PbLeaseGrantRequest { ttl, id } = request.into_inner();
        expiry::ensure_running(&self.engine);
        let id = if id == 0 { self.free_id() } else { id };
        let (ttl, revision) = self.engine.grant(id, ttl).await?;
        let header = Some(self.engine.header(revision));
        Ok(Response::new(PbLeaseGrantResponse { header, id, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<PbLeaseRevokeRequest>,
    ) -> Result<Response<PbLeaseRevokeResponse>, Status> {
        let revision = self.engine.revoke(request.into_inner().id).await?;
        Ok(Response::new(PbLeaseRevokeResponse { header: Some(self.engine.header(revision)) }))
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<PbLeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        expiry::ensure_running(&self.engine);
        let (answers, outbox) = mpsc::channel(WAITING_ANSWERS);
        tokio::spawn(self.clone().keep_alive(request.into_inner(), answers));
        Ok(Response::new(ReceiverStream::new(outbox)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<PbLeaseTimeToLiveRequest>,
    ) -> Result<Response<PbLeaseTimeToLiveResponse>, Status> {
        let PbLeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let (remaining, revision) = self
            .engine
            .read(|state| {
                let now = Instant::now();
                state.leases.look(now);
                Ok((state.leases.remaining(id, now), state.kv.revision()))
            })
            .await?;
        let header = Some(self.engine.header(revision));
        Ok(Response::new(match remaining {
            None => PbLeaseTimeToLiveResponse { header, id, ttl: -1, ..Default::default() },
            Some(remaining) => PbLeaseTimeToLiveResponse {
                header,
                id,
                ttl: remaining.left,
                granted_ttl: remaining.granted,
                keys: if keys { remaining.keys } else { Vec::new() },
            },
        }))
    }

    async fn lease_leases(
        &self,
        _: Request<PbLeaseLeasesRequest>,
    ) -> Result<Response<PbLeaseLeasesResponse>, Status> {
        let (ids, revision) = self.engine.read(|state| Ok((state.leases.ids(), state.kv.revision()))).await?;
        let leases = ids.into_iter().map(|id| PbLeaseStatus { id }).collect();
        Ok(Response::new(PbLeaseLeasesResponse { header: Some(self.engine.header(revision)), leases }))
    }
}

impl Api {
    /// A positive id that no lease has.
    fn free_id(&self) -> i64 {
        loop {
            let id = rand::random::<i64>() & i64::MAX;
            if id != 0 && !self.engine.peek(|state| state.leases.contains(id)) {
                return id;
            }
        }
    }

    async fn keep_alive(
        self,
        mut requests: Streaming<PbLeaseKeepAliveRequest>,
        answers: mpsc::Sender<Result<PbLeaseKeepAliveResponse, Status>>,
    ) {
        loop {
            let request = tokio::select! {
                () = self.stop.cancelled() => {
                    drop(answers.try_send(Err(Refusal::Stopped.into())));
                    return;
                }
                () = answers.closed() => return,
                request = requests.message() => request,
            };
            let Ok(Some(PbLeaseKeepAliveRequest { id })) = request else { return };
            let answer = match self.engine.keep_alive(id).await {
                Ok((ttl, revision)) => {
                    Ok(PbLeaseKeepAliveResponse { header: Some(self.engine.header(revision)), id, ttl })
                }
                Err(refusal) => Err(refusal.into()),
            };
            let refused = answer.is_err();
            if answers.send(answer).await.is_err() || refused {
                return;
            }
        }
    }
}
