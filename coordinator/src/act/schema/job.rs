//! One job on one schema: look, do, look again. Facts and the reason for a failure are reported to the planner.

use super::bind::claim;
use super::bound::{self, Bound, Unbound};
use super::look;
use super::sessions::sessions_of;
use super::term::{acknowledged, countable, term_of};
use crate::context::Context;
use crate::leadership::Leadership;
use crate::telemetry::Chain;
use futures::future::BoxFuture;
use std::time::Duration;
use tidegate_migrations::{ContractProof, Error, Outcome, PhaseProgress, RowCount, Term};
use tidegate_planner::certificate::{
    SESSIONS, allowed_sessions, joined, new_form, sessions_flaws, undo_flaws,
};
use tidegate_planner::{LookedFor, SchemaFacts, SchemaJob};
use tidegate_proto::record::upgrade::{Phase, SchemaBinding, Upgrade};
use tidegate_proto::spec::{ApprovalPoint, Spec};
use tidegate_proto::{Digest, UpgradeId, mutant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// How often progress is reported: people read it.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a job: what the database shows after it, or why it did not succeed.
pub(super) async fn run(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    job: SchemaJob,
    cancel: &CancellationToken,
) -> Result<SchemaFacts, String> {
    let span = tracing::info_span!("schema", upgrade = %id, job = job.word());
    attempt(context, leadership, id, job, cancel).instrument(span).await
}

/// What the planner knows of a schema, without what changes with every job: that it runs, and when it looked.
pub(super) fn known(leadership: &Leadership, id: &UpgradeId) -> SchemaFacts {
    let facts = leadership.schemas().borrow().get(id).cloned().unwrap_or_default();
    SchemaFacts { running: None, looked_ms: 0, ..facts }
}

/// Reports to the planner how a job ended.
pub(super) fn report_end(leadership: &Leadership, id: &UpgradeId, done: Result<SchemaFacts, String>) {
    update_facts(leadership, id, |facts| match done {
        Ok(seen) => *facts = seen,
        Err(why) => *facts = look::unseen(facts, Some(why)),
    });
}

/// A job was stopped: how far it came is not known until the database is looked at again.
pub(super) fn forget(leadership: &Leadership, id: &UpgradeId) {
    update_facts(leadership, id, |facts| *facts = look::unseen(facts, None));
}

/// Keeps what the planner learns of a schema, and wakes the leader loop where that is anything new. A look that is only
/// more recent is: a wave may have waited for it.
fn update_facts(leadership: &Leadership, id: &UpgradeId, change: impl FnOnce(&mut SchemaFacts)) {
    leadership.schemas().send_if_modified(|all| {
        let is_known = all.contains_key(id);
        let facts = all.entry(id.clone()).or_default();
        let before = facts.clone();
        change(facts);
        !is_known || *facts != before
    });
}

async fn attempt(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    job: SchemaJob,
    cancel: &CancellationToken,
) -> Result<SchemaFacts, String> {
    let upgrade = upgrade_of(context, id).ok_or("the upgrade is gone")?;
    if job == SchemaJob::Bind {
        return bind(context, leadership, id, &upgrade.spec, cancel).await.map_err(|e| e.in_words());
    }
    // What is seen from here on is seen for the decision before which the upgrade is now.
    let bound = match found(context, id, &upgrade).await? {
        Found::Schema(bound) => bound,
        Found::Unclaimed(why) if job == SchemaJob::Undo => {
            let (looked_for, looked_ms) = (Some(LookedFor::of(&upgrade)), leadership.leading_ms());
            return Ok(SchemaFacts {
                looked_for,
                looked_ms,
                clean: true,
                left: vec![why],
                ..SchemaFacts::default()
            });
        }
        Found::Unclaimed(why) => {
            let sessions_unknown = known(leadership, id).sessions_unknown;
            return Ok(SchemaFacts {
                looked_ms: leadership.leading_ms(),
                trouble: Some(why),
                unclaimed: true,
                sessions_unknown,
                ..SchemaFacts::default()
            });
        }
    };
    let seen = match known(leadership, id) {
        cached if job == SchemaJob::Look && cached.expanded && mutant::is("database-facts-are-cached") => {
            SchemaFacts {
                looked_for: Some(LookedFor::of(&upgrade)),
                looked_ms: leadership.leading_ms(),
                ..cached
            }
        }
        cached if job == SchemaJob::Look => look::again(leadership, &upgrade, &bound, &cached).await?,
        _ => look::looked(leadership, &upgrade, &bound).await?,
    };
    countable(context, &bound.variable, &seen).map_err(|e| e.in_words())?;
    // Whom it obeyed last is asked before it is made to obey us.
    if job == SchemaJob::Look || !acknowledged(context, &seen) {
        return Ok(seen);
    }
    // Rows that came since the certificate are filled first; contract has its own check before each step. And a database
    // that no longer shows expand, or the migrations below it, is an older one: what that means is for the planner to say.
    let is_whole = seen.unfinished.is_none();
    let builds_on = match job {
        SchemaJob::Contract { .. } => is_whole && seen.migrated,
        SchemaJob::Migrate => is_whole && seen.expanded,
        SchemaJob::Expand => is_whole,
        _ => true,
    };
    if !builds_on {
        return Ok(seen);
    }
    // What it saw stays known also where it does not get further.
    let running = shown(&PhaseProgress::default());
    update_facts(leadership, id, |facts| *facts = look::begun(facts, &seen, running));
    if job == SchemaJob::Expand && seen.clean && !seen.expanded {
        // Found again here: the upgrade may have waited long since it was started.
        let obstacles = bound.obstacles_once_started().await.map_err(|e| e.in_words())?;
        if !obstacles.is_empty() {
            return Err(obstacles.join("; "));
        }
    }
    if job == SchemaJob::Undo {
        nothing_new_works(&bound, &upgrade).await?;
    }
    carry_out(context, leadership, id, &bound, job, cancel).await?;
    look::looked(leadership, &upgrade, &bound).await
}

/// Carries the job out, and reports its progress.
async fn carry_out(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    bound: &Bound,
    job: SchemaJob,
    cancel: &CancellationToken,
) -> Result<(), String> {
    tracing::info!("begins");
    let (progress, latest) = watch::channel(PhaseProgress::default());
    let term = term_of(context, leadership).map_err(|e| e.in_words())?;
    let doing = verb(context, leadership, id, bound, (job, term), &progress, cancel);
    tokio::pin!(doing);
    let mut timer = tokio::time::interval(PROGRESS_INTERVAL);
    let done = loop {
        tokio::select! {
            done = &mut doing => break done,
            _ = timer.tick() => {
                let progress = shown(&latest.borrow());
                update_facts(leadership, id, |facts| (facts.running, facts.trouble) = (Some(progress), None));
            }
        }
    };
    match done {
        Ok(Outcome { steps, rows }) => {
            tracing::info!(steps, rows, "done");
            Ok(())
        }
        Err(error) => {
            let why = Chain(&error).to_string();
            tracing::warn!(why, "not done");
            Err(why)
        }
    }
}

/// What the database turned out to be, now that it answers, and how far it is.
async fn bind(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    spec: &Spec,
    cancel: &CancellationToken,
) -> Result<SchemaFacts, Unbound> {
    let Some(schema) = &spec.schema else { return Ok(SchemaFacts::default()) };
    // Drift, and a history that cannot be read, are said before it is claimed.
    let bound = Bound::open(context, id, spec, schema, None).await?;
    let seen = bound.facts(RowCount::Uncounted).await?;
    countable(context, &bound.variable, &seen)?;
    if !acknowledged(context, &seen) {
        return Ok(seen);
    }
    let obstacles = bound.obstacles().await?;
    if !obstacles.is_empty() {
        return Ok(SchemaFacts { obstacles, ..seen });
    }
    let found = claim(context, leadership, &bound, spec, schema, cancel).await?;
    let facts = bound.of_schema(id, &found).facts(RowCount::Uncounted).await?;
    Ok(SchemaFacts { found: Some(found), ..facts })
}

fn upgrade_of(context: &Context, id: &UpgradeId) -> Option<Upgrade> {
    context.mirror.view().fleet.upgrade(id).map(|upgrade| upgrade.record.body.clone())
}

/// What an upgrade with a schema needs of this coordinator, and it lacks. The database itself is not asked: when it
/// is away, it is away from every coordinator.
pub(crate) async fn lacks(context: &Context, upgrade: &Upgrade) -> Option<String> {
    let asked = upgrade.spec.schema.as_ref()?;
    match bound::found(context, &upgrade.spec, asked).await {
        Ok((_, _, digest)) => differing(digest, upgrade.schema.as_ref()?),
        Err(unbound) => Some(unbound.in_words()),
    }
}

fn differing(found: Digest, binding: &SchemaBinding) -> Option<String> {
    let bound = binding.migrations;
    (found != bound).then(|| {
        format!("the migrations on this coordinator have digest {found}, and the upgrade was started with {bound}: bring back the files as they were")
    })
}

/// The database of an upgrade that was bound to its schema.
enum Found {
    /// It holds that schema.
    Schema(Box<Bound>),
    /// It holds nothing that Tidegate ever did, so there is nothing to undo; in words.
    Unclaimed(String),
}

/// The schema that the upgrade was bound to when it was started, and no other.
pub(super) async fn bound(context: &Context, id: &UpgradeId, upgrade: &Upgrade) -> Result<Bound, String> {
    match found(context, id, upgrade).await? {
        Found::Schema(bound) => Ok(*bound),
        Found::Unclaimed(why) => Err(why),
    }
}

async fn found(context: &Context, id: &UpgradeId, upgrade: &Upgrade) -> Result<Found, String> {
    let (Some(asked), Some(binding)) = (&upgrade.spec.schema, &upgrade.schema) else {
        return Err("the upgrade has no schema".to_owned());
    };
    let bound =
        Bound::open(context, id, &upgrade.spec, asked, Some(binding)).await.map_err(|e| e.in_words())?;
    if let Some(differs) = differing(bound.digest, binding) {
        return Err(differs);
    }
    let identity = bound.engine.identity().await.map_err(|e| Chain(&e).to_string())?;
    match identity.id {
        Some(found) if found.0 == binding.id.as_str() => {
            let engine = bound.engine.last_obeyed(identity.term);
            Ok(Found::Schema(Box::new(Bound { engine, ..bound })))
        }
        Some(found) => Err(format!(
            "the database that {} names holds schema {}, and the upgrade was started on {}: it was restored, or the URL names another one",
            bound.variable, found.0, binding.id
        )),
        None => Ok(Found::Unclaimed(format!(
            "the database that {} names holds no schema id and no history, and the upgrade was started on schema {}: it was replaced by a copy from before the upgrade, or the URL names another one; restore the database that was migrated or correct the URL, or roll the upgrade back: nothing is there to undo",
            bound.variable, binding.id
        ))),
    }
}

async fn verb(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    bound: &Bound,
    (job, term): (SchemaJob, Term),
    progress: &watch::Sender<PhaseProgress>,
    cancel: &CancellationToken,
) -> Result<Outcome, Error> {
    let (engine, set) = (&bound.engine, &bound.set);
    match job {
        SchemaJob::Bind | SchemaJob::Look => Ok(Outcome::default()),
        SchemaJob::Expand => engine.expand(set, &term, progress, cancel).await,
        SchemaJob::Migrate => engine.migrate(set, &term, progress, cancel).await,
        SchemaJob::Undo => engine.undo(set, &term, progress, cancel).await,
        SchemaJob::Contract { certificate } => {
            let proof = ContractProof { certificate: id.to_string(), digest: certificate.to_string() };
            let recheck = || -> BoxFuture<'_, Result<(), String>> {
                Box::pin(still_allowed(context, leadership, id, bound, certificate))
            };
            engine.contract(set, &term, &proof, &recheck, progress, cancel).await
        }
    }
}

/// Checked before each step of contract: this coordinator leads, the upgrade is in the same phase and not paused, and
/// the sessions are clean.
async fn still_allowed(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    bound: &Bound,
    certificate: Digest,
) -> Result<(), String> {
    if mutant::is("begun-contract-is-not-stopped") {
        return Ok(());
    }
    if !leadership.is_held() {
        return Err("this coordinator no longer leads".to_owned());
    }
    let now = upgrade_of(context, id).filter(|now| now.phase == Phase::Contract { certificate });
    let Some(now) = now else {
        return Err("the upgrade is no longer in phase contract on this certificate".to_owned());
    };
    if let Some(pause) = &now.paused {
        return Err(format!("paused by {}: {}", pause.who, pause.why));
    }
    let binding = now.schema.as_ref().ok_or("the upgrade has no schema")?;
    let required = context.mirror.view().fleet.schema(&binding.id).map(|schema| schema.services.clone());
    let required = required.ok_or("the schema's record is gone")?;
    let sessions = match sessions_of(bound).await? {
        Ok(sessions) => sessions,
        Err(_) if accepts_unknown_sessions(&now) => return Ok(()),
        Err(why) => return Err(format!("the sessions on the schema can no longer be listed: {why}")),
    };
    joined(&sessions_flaws(&required, &allowed_sessions(&now), &sessions)).map_or(Ok(()), Err)
}

fn accepts_unknown_sessions(upgrade: &Upgrade) -> bool {
    upgrade.approvals.get(&ApprovalPoint::Contract).is_some_and(|word| word.accepts.contains(SESSIONS))
}

/// Asked before expand is undone: no session is left of a service that uses what expand made, the upgraded one or another
/// that shares the schema, where the database can list them.
async fn nothing_new_works(bound: &Bound, upgrade: &Upgrade) -> Result<(), String> {
    let Ok(sessions) = sessions_of(bound).await? else { return Ok(()) };
    joined(&undo_flaws(&new_form(&upgrade.spec), &sessions)).map_or(Ok(()), Err)
}

fn shown(progress: &PhaseProgress) -> String {
    let mut text = match progress.step {
        0 => "connecting".to_owned(),
        step => format!("{} step {step}/{}: {}", progress.migration, progress.steps, progress.doing),
    };
    if progress.rows_total > 0 {
        text.push_str(&format!(", {} of {} rows", progress.rows_done, progress.rows_total));
    }
    if let Some(left) = progress.seconds_left {
        text.push_str(&format!(", about {left} s left"));
    }
    if let Some(waiting) = &progress.waiting {
        text.push_str(&format!("; waits for {waiting}"));
    }
    text
}
