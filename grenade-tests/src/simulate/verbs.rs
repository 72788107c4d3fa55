//! Every verb that changes something and has one answer, asked as doors ask it. Starts, windows and decommissions are compared
//! with more than their answer (`operators/desk.rs`), releases have operators of their own (`stream_commands.rs`).

use super::request::Request;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::operation::{self, OperationError, metadata};
use tidegate_proto::wire::v1::{
    ApproveUpgradeRequest, CancelMetadataRequest, CordonNodeRequest, CreateTokenRequest, PauseUpgradeRequest,
    PlanReconciliationRequest, ReconcileStoreRequest, ReportMetadataRequest, ResumeUpgradeRequest,
    RetryInstanceRequest, RevokeTokenRequest, RollBackUpgradeRequest, SetMetadataRequest, SettleTaskRequest,
    SkipInstanceRequest, UncordonNodeRequest,
};

/// Asks for what has one answer.
pub(super) async fn requested(
    context: &Context,
    leadership: &Leadership,
    who: &str,
    request: &Request,
) -> Result<String, OperationError> {
    let (who, why) = (who.to_owned(), "by hand".to_owned());
    let done = match request.clone() {
        Request::Approve(id, phase, accepts) => {
            let asked = ApproveUpgradeRequest { id, phase, note: String::new(), who, accepts };
            operation::approve_upgrade(context, leadership, asked).await?
        }
        Request::Pause(id) => {
            operation::pause_upgrade(context, leadership, PauseUpgradeRequest { id, why, who }).await?
        }
        Request::Resume(id) => {
            operation::resume_upgrade(context, leadership, ResumeUpgradeRequest { id, why, who }).await?
        }
        Request::RollBack(id) => {
            operation::roll_back_upgrade(context, leadership, RollBackUpgradeRequest { id, why, who }).await?
        }
        Request::Retry(id, node) | Request::DeclareStopped(id, node) => {
            let declare_stopped = matches!(request, Request::DeclareStopped(..));
            let asked = RetryInstanceRequest { id, node, why, who, declare_stopped };
            operation::retry_instance(context, leadership, asked).await?
        }
        Request::Skip(id, node) => {
            operation::skip_instance(context, leadership, SkipInstanceRequest { id, node, why, who }).await?
        }
        Request::Cordon(node) => {
            operation::cordon_node(context, leadership, CordonNodeRequest { node, why, who }).await?
        }
        Request::Uncordon(node) => {
            operation::uncordon_node(context, leadership, UncordonNodeRequest { node, why, who }).await?
        }
        Request::Settle(node, task) => {
            let asked = SettleTaskRequest { node, task, outcome: "succeeded".to_owned(), why, who };
            operation::settle_task(context, leadership, asked).await?
        }
        other => return of_others(context, leadership, (who, why), other).await,
    };
    Ok(done.what)
}

async fn of_others(
    context: &Context,
    leadership: &Leadership,
    (who, why): (String, String),
    request: Request,
) -> Result<String, OperationError> {
    match request {
        Request::Reconcile { right } => {
            let mut asked = PlanReconciliationRequest { who: who.clone(), ..Default::default() };
            let mut plan = operation::plan_reconciliation(context, leadership, asked.clone()).await?;
            if right {
                asked.include = plan.witnesses.iter().map(|claim| claim.instance.clone()).collect();
                plan = operation::plan_reconciliation(context, leadership, asked.clone()).await?;
            } else {
                plan.hash = plan.hash.chars().rev().collect();
            }
            let (hash, include) = (plan.hash, asked.include);
            let asked = ReconcileStoreRequest { hash, include, who, why, ..Default::default() };
            operation::reconcile_store(context, leadership, asked).await.map(|done| done.what)
        }
        Request::Token(name, role) => {
            let (why, expires) = (why, "1h".to_owned());
            let asked = CreateTokenRequest {
                name,
                role,
                why: why.clone(),
                expires,
                who: who.clone(),
                ..Default::default()
            };
            let made = operation::create_token(context, leadership, asked).await?;
            // What is revoked was made under the same name: a refusal would not distinguish the two.
            let asked = RevokeTokenRequest { id: made.id, why, who: format!("{who}-revokes") };
            operation::revoke_token(context, leadership, asked)
                .await
                .map_or_else(|e| Ok(e.to_string()), |done| Ok(done.what))
        }
        Request::SetMetadata(group, body) => {
            let asked = SetMetadataRequest { group, body, who, why };
            metadata::set_metadata(context, leadership, asked).await.map(|done| done.what)
        }
        Request::CancelMetadata(group) => {
            metadata::cancel_metadata(context, leadership, CancelMetadataRequest { group, who, why })
                .await
                .map(|done| done.what)
        }
        Request::SignalMetadata(group, instance, generation) => {
            let asked = ReportMetadataRequest {
                group,
                instance,
                generation,
                success: true,
                who,
                ..Default::default()
            };
            metadata::report_metadata(context, leadership, asked).await.map(|done| done.what)
        }
        other => unreachable!("{other:?} is asked elsewhere"),
    }
}
