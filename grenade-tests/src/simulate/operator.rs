//! People at the command line: what they ask of whichever coordinator leads, and how they follow the command that a reason
//! names.

use super::coordinator::Coordinator;
use std::sync::Arc;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_planner::ask::RollbackBar;
use tidegate_proto::ServiceVersion;
use tidegate_proto::wire::v1::{
    ApproveUpgradeRequest, CordonNodeRequest, DecommissionInstanceRequest, ExplainUpgradeReply,
    ExplainUpgradeRequest, PauseUpgradeRequest, PlanReconciliationReply, PlanReconciliationRequest,
    ReconcileStoreRequest, RecordGateRequest, ResumeUpgradeRequest, RetryInstanceRequest,
    RollBackUpgradeRequest, RunningInstance, SetWindowRequest, StartUpgradeRequest, UncordonNodeRequest,
};

/// A person.
pub(super) struct Operator<'a> {
    coordinators: &'a [Option<Coordinator>],
}

/// A command, as it was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// `upgrade approve ID PHASE [--accept …]`.
    Approve(String, String, Vec<String>),
    /// `upgrade resume ID`.
    Resume(String),
    /// `upgrade rollback ID`.
    RollBack(String),
    /// `upgrade retry ID NODE`.
    Retry(String, String),
    /// `upgrade retry ID NODE --declare-stopped`.
    DeclareStopped(String, String),
    /// `fleet decommission SERVICE/NODE`.
    Decommission(String),
    /// `fleet uncordon NODE`.
    Uncordon(String),
    /// `fleet window SERVICE --floor VERSION --ceiling VERSION`.
    Window(String, u32, u32),
    /// `fleet reconcile`, with the instances that `--include` names.
    Reconcile(Vec<String>),
    /// `schema expand --from VERSION --to VERSION --made-by ID`, then `schema migrate` of the same.
    Schema(ServiceVersion, ServiceVersion, String),
    /// `schema expand --to VERSION`, then `schema migrate` of the same.
    SchemaUpTo(ServiceVersion),
    /// `grenade record report.json --from-sha256 DIGEST --to-sha256 DIGEST`.
    Record(String, String),
    /// Something that only shows.
    Look,
    /// Something that a person does at the node or the database, or that this person does not know.
    Other(String),
}

/// Reads the command of a reason; of two that are named the first.
pub(super) fn understood(text: &str) -> Command {
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    let own = |at: usize| words.get(at).copied().unwrap_or_default().to_owned();
    match words.get(..3) {
        Some(["tidegate", "upgrade", "approve"]) => {
            let accepts = words.iter().skip_while(|word| **word != "--accept").skip(1).take(1);
            Command::Approve(own(3), own(4), accepts.map(|word| (*word).to_owned()).collect())
        }
        Some(["tidegate", "upgrade", "resume"]) => Command::Resume(own(3)),
        Some(["tidegate", "upgrade", "rollback"]) => Command::RollBack(own(3)),
        Some(["tidegate", "upgrade", "retry"]) => Command::Retry(own(3), own(4)),
        Some(["tidegate", "fleet", "decommission"]) => Command::Decommission(own(3)),
        Some(["tidegate", "fleet", "uncordon"]) => Command::Uncordon(own(3)),
        Some(["tidegate", "fleet", "reconcile"]) => {
            let included = words.iter().skip_while(|word| **word != "--include").skip(1).take(1);
            Command::Reconcile(included.map(|word| (*word).to_owned()).collect())
        }
        Some(["tidegate", "fleet", "window"]) => match (own(5).parse(), own(7).parse()) {
            (Ok(floor), Ok(ceiling)) => Command::Window(own(3), floor, ceiling),
            _ => Command::Other(text.to_owned()),
        },
        Some(["tidegate", "schema", "expand"]) if own(3) == "--to" => match own(4).parse() {
            Ok(to) => Command::SchemaUpTo(to),
            Err(_) => Command::Other(text.to_owned()),
        },
        Some(["tidegate", "schema", "expand"]) => match (own(4).parse(), own(6).parse()) {
            (Ok(from), Ok(to)) => Command::Schema(from, to, own(8)),
            _ => Command::Other(text.to_owned()),
        },
        Some(["grenade", "record", _]) => Command::Record(own(4), own(6)),
        Some(["tidegate", "upgrade", "status" | "list"] | ["tidegate", "fleet", "list"]) => Command::Look,
        _ => Command::Other(text.to_owned()),
    }
}

/// What a command was answered: what was done, or why not.
pub(super) type Answer = Result<String, String>;

fn answer<T>(done: Result<T, OperationError>, what: impl FnOnce(T) -> String) -> Answer {
    done.map(what).map_err(|error| error.to_string())
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotDone {
    pub why: String,
    /// What an upgrade cannot be rolled back for.
    pub bar: Option<RollbackBar>,
}

impl NotDone {
    /// Whether a rollback is refused for as long as the upgrade lasts.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.bar, Some(RollbackBar::Contract | RollbackBar::Rows))
    }
}

impl From<String> for NotDone {
    fn from(why: String) -> Self {
        Self { why, bar: None }
    }
}

impl From<OperationError> for NotDone {
    fn from(error: OperationError) -> Self {
        let bar = match &error {
            OperationError::NoRollback { bar, .. } => Some(*bar),
            _ => None,
        };
        Self { why: error.to_string(), bar }
    }
}

const WHO: &str = "operator";

impl<'a> Operator<'a> {
    /// One who can reach these.
    pub(super) fn new(coordinators: &'a [Option<Coordinator>]) -> Self {
        Self { coordinators }
    }

    /// The coordinator that leads, with its leadership.
    ///
    /// # Errors
    /// None leads.
    pub(super) fn leader(&self) -> Result<(&'a Context, Arc<Leadership>), String> {
        let mut living = self.coordinators.iter().flatten();
        let found = living.find_map(|one| Some((&one.context, one.leads()?)));
        found.ok_or_else(|| "no coordinator leads".to_owned())
    }

    /// Starts an upgrade.
    pub(super) async fn start(&self, id: &str, spec: &serde_json::Value) -> Answer {
        let (context, leadership) = self.leader()?;
        let asked = StartUpgradeRequest {
            spec: spec.to_string(),
            id: id.to_owned(),
            who: WHO.to_owned(),
            dry_run: false,
        };
        answer(operation::start_upgrade(context, &leadership, asked).await, |done| done.id)
    }

    /// Why an upgrade waits.
    pub(super) async fn explain(&self, id: &str) -> Result<ExplainUpgradeReply, String> {
        let (context, _) = self.leader()?;
        operation::explain_upgrade(context, &ExplainUpgradeRequest { id: id.to_owned() })
            .await
            .map_err(|e| e.to_string())
    }

    /// Does what a command says.
    pub(super) async fn act(&self, command: &Command) -> Result<String, NotDone> {
        let (context, leadership) = self.leader()?;
        let (who, why) = (WHO.to_owned(), "it was advised".to_owned());
        let done = match command.clone() {
            Command::Approve(id, phase, accepts) => {
                let asked = ApproveUpgradeRequest { id, phase, note: String::new(), who, accepts };
                operation::approve_upgrade(context, &leadership, asked).await
            }
            Command::Resume(id) => {
                operation::resume_upgrade(context, &leadership, ResumeUpgradeRequest { id, why, who }).await
            }
            Command::RollBack(id) => {
                operation::roll_back_upgrade(context, &leadership, RollBackUpgradeRequest { id, why, who })
                    .await
            }
            Command::Retry(id, node) | Command::DeclareStopped(id, node) => {
                let declare_stopped = matches!(command, Command::DeclareStopped(..));
                let asked = RetryInstanceRequest { id, node, why, who, declare_stopped };
                operation::retry_instance(context, &leadership, asked).await
            }
            Command::Uncordon(node) => {
                operation::uncordon_node(context, &leadership, UncordonNodeRequest { node, why, who }).await
            }
            Command::Decommission(instance) => {
                let asked = DecommissionInstanceRequest {
                    instance,
                    stopped_how: "it was switched off".to_owned(),
                    who,
                    why,
                    ..Default::default()
                };
                operation::decommission_instance(context, &leadership, asked).await
            }
            Command::Window(service, floor, ceiling) => {
                let asked = SetWindowRequest { service, floor, ceiling, why, who };
                operation::set_window(context, &leadership, asked).await
            }
            Command::Reconcile(_) => return Err("this store was not restored".to_owned().into()),
            Command::Look => return Ok("looked".to_owned()),
            Command::Schema(..) | Command::SchemaUpTo(_) => {
                return Err("a person does that at the database".to_owned().into());
            }
            Command::Record(..) => return Err("a person who has the report does that".to_owned().into()),
            Command::Other(text) => return Err(format!("unknown command {text:?}").into()),
        };
        Ok(done?.what)
    }

    /// Reconciles a store that was restored: every claim is applied that some node makes, but for those of nodes that lie.
    /// `taken_up` was disregarded before, and is included now. Of the instances that the plan refuses, people disregard
    /// those that an upgrade left at a version below the floor, and those for which `stays_out` is true.
    pub(super) async fn reconcile(
        &self,
        taken_up: Vec<String>,
        lies: impl Fn(&str) -> bool,
        stays_out: impl Fn(&RunningInstance) -> bool,
    ) -> Answer {
        let mut living = self.coordinators.iter().flatten();
        let (context, leadership) = living
            .find_map(|one| Some((&one.context, one.leads()?)))
            .ok_or_else(|| "no coordinator leads".to_owned())?;
        let include = taken_up.into_iter().filter(|instance| !lies(instance)).collect();
        let mut asked = PlanReconciliationRequest { who: WHO.to_owned(), include, ..Default::default() };
        let plan = operation::plan_reconciliation(context, &leadership, asked.clone()).await;
        let mut plan = plan.map_err(|error| error.to_string())?;
        let claims = plan.witnesses.iter().map(|claim| claim.instance.clone());
        (asked.disregard, asked.include) = claims.partition(|instance| lies(instance));
        let stays_out = |running: &RunningInstance| lies(&running.instance) || stays_out(running);
        // A claim that is included may set a window that refuses instances which no earlier plan refused.
        let mut is_planned = false;
        while disregard_refused(&mut asked, &plan, stays_out) || !is_planned {
            let next = operation::plan_reconciliation(context, &leadership, asked.clone()).await;
            plan = next.map_err(|error| error.to_string())?;
            is_planned = true;
        }
        let asked = ReconcileStoreRequest {
            hash: plan.hash,
            include: asked.include,
            disregard: asked.disregard,
            who: WHO.to_owned(),
            why: "the store was restored".to_owned(),
        };
        answer(operation::reconcile_store(context, &leadership, asked).await, |done| done.what)
    }

    /// Records the verdict of a gate job.
    pub(super) async fn record(&self, verdict: RecordGateRequest) -> Answer {
        let (context, leadership) = self.leader()?;
        answer(operation::record_gate(context, &leadership, verdict).await, |done| done.what)
    }

    /// Pauses an upgrade.
    pub(super) async fn pause(&self, id: &str) -> Answer {
        let (context, leadership) = self.leader()?;
        let asked =
            PauseUpgradeRequest { id: id.to_owned(), why: "let me look".to_owned(), who: WHO.to_owned() };
        answer(operation::pause_upgrade(context, &leadership, asked).await, |done| done.what)
    }

    /// Takes a node out by hand.
    pub(super) async fn cordon(&self, node: &str) -> Answer {
        let (context, leadership) = self.leader()?;
        let asked =
            CordonNodeRequest { node: node.to_owned(), why: "a disk".to_owned(), who: WHO.to_owned() };
        answer(operation::cordon_node(context, &leadership, asked).await, |done| done.what)
    }
}

/// The answer, or an error after 20 s of simulated time.
pub(super) async fn within<E: From<String>>(
    asked: impl Future<Output = Result<String, E>>,
) -> Result<String, E> {
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err("no answer".to_owned().into()))
}

/// Adds to `--disregard` what a plan refuses and stays out, or was left behind; whether there is any.
fn disregard_refused(
    asked: &mut PlanReconciliationRequest,
    plan: &PlanReconciliationReply,
    stays_out: impl Fn(&RunningInstance) -> bool,
) -> bool {
    let named = |running: &RunningInstance| stays_out(running) || is_left_behind(plan, running);
    let refused = plan.instances.iter().filter(|running| running.refused.is_some() && named(running));
    let refused = refused.map(|running| running.instance.clone());
    let more: Vec<String> = refused.filter(|instance| !asked.disregard.contains(instance)).collect();
    asked.include.retain(|instance| !more.contains(instance));
    asked.disregard.extend_from_slice(&more);
    !more.is_empty()
}

/// Whether an instance claims nothing and runs a version below a floor that others obeyed: its agent was away while a store
/// without a record of it was reconciled, and an upgrade there left it at its version.
fn is_left_behind(plan: &PlanReconciliationReply, running: &RunningInstance) -> bool {
    let Some((service, _)) = running.instance.split_once('/') else { return false };
    let applied = plan.witnesses.iter().filter(|claim| {
        claim.fate == "applied" && claim.instance.split_once('/').is_some_and(|(of, _)| of == service)
    });
    let floor = applied.filter_map(|claim| claim.floor).max();
    let claims = plan.witnesses.iter().any(|claim| claim.instance == running.instance);
    !claims && running.version.zip(floor).is_some_and(|(version, floor)| version < floor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::wire::v1::WitnessClaim;

    #[test]
    fn refusal_that_lasts_is_known_by_its_kind() {
        let refused = |bar| NotDone::from(OperationError::NoRollback { message: "refused".to_owned(), bar });
        assert!(refused(RollbackBar::Contract).is_final() && refused(RollbackBar::Rows).is_final());
        assert!(!refused(RollbackBar::Computes).is_final(), "the compute releases go back first");
        let started = "an upgrade of the schema that has started".to_owned();
        assert!(!NotDone::from(OperationError::Refused(started)).is_final());
        assert!(!NotDone::from("no coordinator leads".to_owned()).is_final());
    }

    fn running(instance: &str, refused: bool) -> RunningInstance {
        let refused = refused.then(|| "it runs version 1, outside the new window [2, 2]".to_owned());
        RunningInstance { instance: instance.to_owned(), version: Some(1), refused }
    }

    fn planned<const N: usize>(instances: [RunningInstance; N]) -> PlanReconciliationReply {
        PlanReconciliationReply { instances: instances.into(), ..Default::default() }
    }

    #[test]
    fn commands_that_run_migrations_again_are_understood() {
        let version = |n| ServiceVersion::new(n).unwrap();
        let own = "tidegate schema expand --from 2 --to 3 --made-by u1 --migrations DIR --from-env URL, then tidegate schema migrate …";
        assert_eq!(understood(own), Command::Schema(version(2), version(3), "u1".to_owned()));
        let below = "tidegate schema expand --to 2 --migrations DIR --from-env URL, then tidegate schema migrate --to 2 --migrations DIR --from-env URL";
        assert_eq!(understood(below), Command::SchemaUpTo(version(2)));
    }

    #[test]
    fn each_plan_disregards_what_only_it_refuses() {
        let mut asked =
            PlanReconciliationRequest { include: vec!["pantry/n0".to_owned()], ..Default::default() };
        let newcomer = |running: &RunningInstance| running.instance == "pantry/n1";
        let all = |refused| planned([running("pantry/n0", refused), running("pantry/n1", refused)]);
        assert!(!disregard_refused(&mut asked, &all(false), newcomer), "no window refuses any yet");
        assert!(disregard_refused(&mut asked, &all(true), newcomer));
        assert_eq!(asked.disregard, ["pantry/n1"]);
        assert_eq!(asked.include, ["pantry/n0"]);
        assert!(!disregard_refused(&mut asked, &all(true), newcomer), "it is named already");
    }

    #[test]
    fn what_is_disregarded_is_included_no_longer() {
        let name = "pantry/n1".to_owned();
        let mut asked = PlanReconciliationRequest { include: vec![name.clone()], ..Default::default() };
        assert!(disregard_refused(&mut asked, &planned([running(&name, true)]), |_| true));
        assert_eq!((asked.include, asked.disregard), (vec![], vec![name]));
    }

    #[test]
    fn what_claims_nothing_below_an_obeyed_floor_is_disregarded() {
        let claim = |instance: &str, floor, fate: &str| WitnessClaim {
            instance: instance.to_owned(),
            floor: Some(floor),
            fate: fate.to_owned(),
            ..Default::default()
        };
        let disregards = |witnesses: &[WitnessClaim]| {
            let mut plan = planned([running("pantry/n1", true)]);
            plan.witnesses = witnesses.to_vec();
            disregard_refused(&mut PlanReconciliationRequest::default(), &plan, |_| false)
        };
        assert!(disregards(&[claim("pantry/n0", 2, "applied")]));
        assert!(!disregards(&[claim("pantry/n0", 1, "applied")]), "no agent obeyed a floor above it");
        assert!(!disregards(&[claim("pantry/n0", 2, "quarantined")]), "the floor is not applied");
        assert!(!disregards(&[claim("cellar/n0", 2, "applied")]), "it is of another service");
        let own = claim("pantry/n1", 1, "applied");
        assert!(!disregards(&[claim("pantry/n0", 2, "applied"), own]), "the former store had it");
    }
}
