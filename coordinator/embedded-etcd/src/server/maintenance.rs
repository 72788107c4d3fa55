//! Status, alarms (there are none), defragmentation. No hashes, no snapshots: copy the file of a stopped store.

use std::pin::Pin;

use etcd_client::proto::{
    PbAlarmRequest, PbAlarmResponse, PbDefragmentRequest, PbDefragmentResponse, PbDowngradeRequest,
    PbDowngradeResponse, PbHashKvRequest, PbHashKvResponse, PbHashRequest, PbHashResponse,
    PbMaintenanceService, PbMoveLeaderRequest, PbMoveLeaderResponse, PbSnapshotRequest, PbSnapshotResponse,
    PbStatusRequest, PbStatusResponse,
};
use futures::Stream;
use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::{VERSION, refusal::Refusal};

#[async_trait]
impl PbMaintenanceService for Api {
    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<PbSnapshotResponse, Status>> + Send>>;

    async fn status(&self, _: Request<PbStatusRequest>) -> Result<Response<PbStatusResponse>, Status> {
        let (revision, live, sequence) = self
            .engine
            .read(|state| Ok((state.kv.revision(), state.kv.live_bytes(), state.sequence)))
            .await?;
        let identity = self.engine.identity();
        // Like a raft index: rises with every change, also of leases, and over restarts.
        let index = (identity.term << 32) + sequence;
        Ok(Response::new(PbStatusResponse {
            header: Some(self.engine.header(revision)),
            version: VERSION.to_owned(),
            db_size: self.engine.disk().map_or(live, crate::disk::Disk::size),
            db_size_in_use: live,
            leader: identity.member,
            raft_index: index,
            raft_applied_index: index,
            raft_term: identity.term,
            ..PbStatusResponse::default()
        }))
    }

    async fn alarm(&self, _: Request<PbAlarmRequest>) -> Result<Response<PbAlarmResponse>, Status> {
        let revision = self.engine.read(|state| Ok(state.kv.revision())).await?;
        Ok(Response::new(PbAlarmResponse { header: Some(self.engine.header(revision)), alarms: Vec::new() }))
    }

    async fn defragment(
        &self,
        _: Request<PbDefragmentRequest>,
    ) -> Result<Response<PbDefragmentResponse>, Status> {
        if let Some(disk) = self.engine.disk() {
            disk.defragment().await?;
        }
        let revision = self.engine.read(|state| Ok(state.kv.revision())).await?;
        Ok(Response::new(PbDefragmentResponse { header: Some(self.engine.header(revision)) }))
    }

    async fn hash(&self, _: Request<PbHashRequest>) -> Result<Response<PbHashResponse>, Status> {
        Err(Refusal::NotOffered("a hash of the store").into())
    }

    async fn hash_kv(&self, _: Request<PbHashKvRequest>) -> Result<Response<PbHashKvResponse>, Status> {
        Err(Refusal::NotOffered("a hash of the keys").into())
    }

    async fn snapshot(
        &self,
        _: Request<PbSnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Refusal::NotOffered("a snapshot over the wire").into())
    }

    async fn move_leader(
        &self,
        _: Request<PbMoveLeaderRequest>,
    ) -> Result<Response<PbMoveLeaderResponse>, Status> {
        Err(Refusal::NotOffered("moving the leader").into())
    }

    async fn downgrade(
        &self,
        _: Request<PbDowngradeRequest>,
    ) -> Result<Response<PbDowngradeResponse>, Status> {
        Err(Refusal::NotOffered("downgrading a cluster").into())
    }
}
