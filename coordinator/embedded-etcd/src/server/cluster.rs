//! The member list: one member, this one. Membership cannot be changed.

use etcd_client::proto::{
    PbClusterService, PbMember, PbMemberAddRequest, PbMemberAddResponse, PbMemberListRequest,
    PbMemberListResponse, PbMemberPromoteRequest, PbMemberPromoteResponse, PbMemberRemoveRequest,
    PbMemberRemoveResponse, PbMemberUpdateRequest, PbMemberUpdateResponse,
};
use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::refusal::Refusal;

const MEMBERSHIP: Refusal = Refusal::NotOffered("changing the members of a cluster");

#[async_trait]
impl PbClusterService for Api {
    async fn member_list(
        &self,
        _: Request<PbMemberListRequest>,
    ) -> Result<Response<PbMemberListResponse>, Status> {
        let revision = self.engine.read(|state| Ok(state.kv.revision())).await?;
        let member = PbMember {
            id: self.engine.identity().member,
            name: "embedded".to_owned(),
            client_ur_ls: self.engine.served_at(),
            ..PbMember::default()
        };
        let header = Some(self.engine.header(revision));
        Ok(Response::new(PbMemberListResponse { header, members: vec![member] }))
    }

    async fn member_add(
        &self,
        _: Request<PbMemberAddRequest>,
    ) -> Result<Response<PbMemberAddResponse>, Status> {
        Err(MEMBERSHIP.into())
    }

    async fn member_remove(
        &self,
        _: Request<PbMemberRemoveRequest>,
    ) -> Result<Response<PbMemberRemoveResponse>, Status> {
        Err(MEMBERSHIP.into())
    }

    async fn member_update(
        &self,
        _: Request<PbMemberUpdateRequest>,
    ) -> Result<Response<PbMemberUpdateResponse>, Status> {
        Err(MEMBERSHIP.into())
    }

    async fn member_promote(
        &self,
        _: Request<PbMemberPromoteRequest>,
    ) -> Result<Response<PbMemberPromoteResponse>, Status> {
        Err(MEMBERSHIP.into())
    }
}
