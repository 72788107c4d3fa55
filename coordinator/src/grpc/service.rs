//! The methods: ten lines each would be many; most are two.

use super::client::{Client, Connection};
use super::forward::Peers;
use super::wish::wish;
use crate::guard::Principal;
use crate::operation::release::view;
use crate::operation::{self, OperationError};
use crate::report::Trouble;
use crate::room::Room;
use futures::stream::{self, BoxStream, StreamExt};
use tidegate_proto::wire::v1::operator_server::Operator;
use tidegate_proto::wire::v1::{
    ApproveUpgradeRequest, CertificatePart, CordonNodeRequest, CreateTokenReply, CreateTokenRequest,
    DecommissionInstanceRequest, Done, Event, ExplainUpgradeReply, ExplainUpgradeRequest,
    FleetHistoryRequest, FleetSpreadReply, FleetSpreadRequest, ForeseeUpgradeReply, ForeseeUpgradeRequest,
    Instance, JsonReply, LeaderReply, LeaderRequest, ListInstancesRequest, ListTasksRequest,
    ListTokensRequest, ListUpgradesReply, ListUpgradesRequest, PauseUpgradeRequest, PlanReconciliationReply,
    PlanReconciliationRequest, ReconcileStoreRequest, ResumeUpgradeRequest, RetryInstanceRequest,
    RevokeTokenRequest, RollBackUpgradeRequest, SetWindowRequest, SettleTaskRequest, SkipInstanceRequest,
    StartUpgradeReply, StartUpgradeRequest, Task, Token, UncordonNodeRequest, UpgradeCertificateRequest,
    UpgradeHistoryRequest, UpgradeSeen, UpgradeStatusReply, UpgradeStatusRequest, WatchUpgradeRequest,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// The operators' service of one coordinator.
#[derive(Clone)]
pub struct OperatorService {
    room: Room,
    peers: Peers,
}

impl OperatorService {
    /// The service in a room. It is served behind the guard, which says of each call who calls.
    pub fn new(room: Room, peers: Peers) -> Self {
        Self { room, peers }
    }

    fn at(leader: &Connection) -> Client {
        leader.operator()
    }

    fn ask<T, R>(
        &self,
        request: &Request<T>,
        answer: impl FnOnce(&Room, &T) -> Result<R, OperationError>,
    ) -> Result<Response<R>, Status> {
        look(&self.room, request)?;
        Ok(Response::new(answer(&self.room, request.get_ref())?))
    }
}

type Streamed<T> = Result<Response<BoxStream<'static, Result<T, Status>>>, Status>;

fn all<T: Send + 'static>(items: Vec<T>) -> Streamed<T> {
    Ok(Response::new(stream::iter(items.into_iter().map(Ok)).boxed()))
}

/// Lets a question in, once there is anything to answer it from.
pub(super) fn look<T>(room: &Room, request: &Request<T>) -> Result<(), Status> {
    principal(request)?;
    match room.mirror.trouble() {
        Some(trouble @ Trouble::Unread) => Err(Status::unavailable(trouble.to_string())),
        _ => Ok(()),
    }
}

/// A view, as JSON.
pub(super) fn json(view: &impl serde::Serialize) -> Result<Response<JsonReply>, Status> {
    Ok(Response::new(JsonReply { json: view::text(view) }))
}

/// Who calls, as the guard has it. A call that did not come through the guard is nobody's.
pub(super) fn principal<T>(request: &Request<T>) -> Result<Principal, Status> {
    let principal = request.extensions().get::<Principal>().cloned();
    principal.ok_or_else(|| Status::unauthenticated("nobody has said who calls"))
}

#[tonic::async_trait]
impl Operator for OperatorService {
    type WatchUpgradeStream = BoxStream<'static, Result<UpgradeSeen, Status>>;
    type UpgradeHistoryStream = BoxStream<'static, Result<Event, Status>>;
    type FleetHistoryStream = BoxStream<'static, Result<Event, Status>>;
    type UpgradeCertificateStream = BoxStream<'static, Result<CertificatePart, Status>>;
    type ListTokensStream = BoxStream<'static, Result<Token, Status>>;
    type ListTasksStream = BoxStream<'static, Result<Task, Status>>;
    type ListInstancesStream = BoxStream<'static, Result<Instance, Status>>;

    async fn leader(&self, r: Request<LeaderRequest>) -> Result<Response<LeaderReply>, Status> {
        principal(&r)?;
        Ok(Response::new(operation::leader(&self.room)))
    }

    async fn start_upgrade(
        &self,
        r: Request<StartUpgradeRequest>,
    ) -> Result<Response<StartUpgradeReply>, Status> {
        wish!(self, r, operation::start, start_upgrade)
    }

    async fn foresee_upgrade(
        &self,
        r: Request<ForeseeUpgradeRequest>,
    ) -> Result<Response<ForeseeUpgradeReply>, Status> {
        look(&self.room, &r)?;
        Ok(Response::new(operation::foresee(&self.room, r.get_ref()).await?))
    }

    async fn list_upgrades(
        &self,
        r: Request<ListUpgradesRequest>,
    ) -> Result<Response<ListUpgradesReply>, Status> {
        self.ask(&r, operation::list)
    }

    async fn upgrade_status(
        &self,
        r: Request<UpgradeStatusRequest>,
    ) -> Result<Response<UpgradeStatusReply>, Status> {
        look(&self.room, &r)?;
        Ok(Response::new(operation::status(&self.room, r.get_ref()).await?))
    }

    async fn watch_upgrade(&self, r: Request<WatchUpgradeRequest>) -> Streamed<UpgradeSeen> {
        let told = self.ask(&r, operation::watch)?.into_inner();
        Ok(Response::new(ReceiverStream::new(told).map(Ok).boxed()))
    }

    async fn explain_upgrade(
        &self,
        r: Request<ExplainUpgradeRequest>,
    ) -> Result<Response<ExplainUpgradeReply>, Status> {
        self.ask(&r, operation::explain)
    }

    async fn upgrade_history(&self, r: Request<UpgradeHistoryRequest>) -> Streamed<Event> {
        look(&self.room, &r)?;
        all(operation::history(&self.room, r.get_ref()).await?)
    }

    async fn fleet_history(&self, r: Request<FleetHistoryRequest>) -> Streamed<Event> {
        look(&self.room, &r)?;
        all(operation::fleet_history(&self.room).await?)
    }

    async fn upgrade_certificate(&self, r: Request<UpgradeCertificateRequest>) -> Streamed<CertificatePart> {
        look(&self.room, &r)?;
        let parts = operation::certificate(&self.room, r.get_ref()).await?;
        all(parts.into_iter().map(|text| CertificatePart { text }).collect())
    }

    async fn approve_upgrade(&self, r: Request<ApproveUpgradeRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::approve, approve_upgrade)
    }

    async fn pause_upgrade(&self, r: Request<PauseUpgradeRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::pause, pause_upgrade)
    }

    async fn resume_upgrade(&self, r: Request<ResumeUpgradeRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::resume, resume_upgrade)
    }

    async fn roll_back_upgrade(&self, r: Request<RollBackUpgradeRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::roll_back, roll_back_upgrade)
    }

    async fn skip_instance(&self, r: Request<SkipInstanceRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::skip, skip_instance)
    }

    async fn retry_instance(&self, r: Request<RetryInstanceRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::retry, retry_instance)
    }

    async fn fleet_spread(
        &self,
        r: Request<FleetSpreadRequest>,
    ) -> Result<Response<FleetSpreadReply>, Status> {
        self.ask(&r, operation::spread)
    }

    async fn list_instances(&self, r: Request<ListInstancesRequest>) -> Streamed<Instance> {
        let handfuls = self.ask(&r, operation::instances)?.into_inner();
        Ok(Response::new(handfuls.flat_map(|handful| stream::iter(handful.into_iter().map(Ok))).boxed()))
    }

    async fn decommission_instance(
        &self,
        r: Request<DecommissionInstanceRequest>,
    ) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::decommission, decommission_instance)
    }

    async fn cordon_node(&self, r: Request<CordonNodeRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::cordon, cordon_node)
    }

    async fn uncordon_node(&self, r: Request<UncordonNodeRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::uncordon, uncordon_node)
    }

    async fn list_tasks(&self, r: Request<ListTasksRequest>) -> Streamed<Task> {
        all(self.ask(&r, operation::tasks)?.into_inner())
    }

    async fn settle_task(&self, r: Request<SettleTaskRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::settle_task, settle_task)
    }

    async fn create_token(
        &self,
        r: Request<CreateTokenRequest>,
    ) -> Result<Response<CreateTokenReply>, Status> {
        wish!(self, r, operation::create_token, create_token)
    }

    async fn list_tokens(&self, r: Request<ListTokensRequest>) -> Streamed<Token> {
        look(&self.room, &r)?;
        all(operation::tokens(&self.room, r.get_ref()))
    }

    async fn revoke_token(&self, r: Request<RevokeTokenRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::revoke_token, revoke_token)
    }

    async fn reconcile_store(&self, r: Request<ReconcileStoreRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::reconcile, reconcile_store)
    }

    async fn plan_reconciliation(
        &self,
        r: Request<PlanReconciliationRequest>,
    ) -> Result<Response<PlanReconciliationReply>, Status> {
        // Only the leader knows what databases say.
        wish!(self, r, operation::plan_reconciliation, plan_reconciliation)
    }

    async fn foresee_window(&self, r: Request<SetWindowRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::foresee_window, foresee_window)
    }

    async fn set_window(&self, r: Request<SetWindowRequest>) -> Result<Response<Done>, Status> {
        wish!(self, r, operation::set_window, set_window)
    }
}
