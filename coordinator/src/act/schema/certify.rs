//! Making the certificate of a contract, in rule 1's order: every record is read again at one revision, then the
//! database is queried, then the result is committed under the compares that the planner adds to it.

use super::bound::Bound;
use super::job;
use super::look;
use super::sessions::sessions_of;
use crate::context::Context;
use crate::leadership::{Leadership, events_in};
use crate::report::View;
use crate::telemetry::Chain;
use tidegate_planner::Reason;
use tidegate_planner::gate::schema::uncertified;
use tidegate_planner::plan::{DatabaseEvidence, Made, certify as make, forget};
use tidegate_proto::{Key, UpgradeId};
use tidegate_store::{Scope, Snapshot};
use tokio_util::sync::CancellationToken;

/// Makes and commits a certificate, or says what is not so. Once it is cancelled, nothing more is committed.
pub(super) async fn certify(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    cancel: &CancellationToken,
) -> Result<(), Vec<Reason>> {
    let no = |why: String| vec![uncertified(why)];
    // Linearizable, at one revision R, and not from the mirror.
    let snapshot = context.store.list(&Scope::All).await.map_err(|e| no(Chain(&e).to_string()))?;
    let former = pages_of(&snapshot, id);
    let mut view = View::of(snapshot);
    if let Some((seen, found)) = context.mirror.view().fleet.fall() {
        view.fleet.fell_back(seen, found);
    }
    let fleet = &view.fleet;
    let upgrade = fleet.upgrade(id).ok_or_else(|| no("the upgrade is gone".to_owned()))?;
    let bound = job::bound(context, id, upgrade).await.map_err(no)?;
    // A fresh look, also for the planner: rows that came since the last one are filled before the next attempt.
    let seen = look::looked(leadership, upgrade, &bound).await.map_err(no)?;
    let (is_ready, unfinished) = (seen.expanded && seen.migrated, seen.unfinished.clone());
    job::report_end(leadership, id, Ok(seen));
    if let Some(unfinished) = unfinished {
        return Err(no(unfinished));
    }
    if !is_ready {
        return Err(no("the database no longer shows that migrate is done, with no row left".to_owned()));
    }
    let evidence = evidence(&bound).await.map_err(no)?;
    let events =
        |made: &Result<Made, _>| made.as_ref().map_or(0, |made| made.commits.iter().map(events_in).sum());
    let made = leadership.plan(&view, |moment| make(fleet, moment, id, evidence), events)?;
    let forgotten = forget(fleet, id, &former);
    for commit in forgotten.iter().chain(&made.commits) {
        if cancel.is_cancelled() {
            return Err(no("the certificate is no longer asked for".to_owned()));
        }
        if !leadership.is_held() {
            return Err(no("this coordinator no longer leads".to_owned()));
        }
        leadership
            .commit(commit)
            .await
            .map_err(|error| no(format!("what it was made from has changed meanwhile: {}", Chain(&error))))?;
    }
    tracing::info!(upgrade = %id, digest = %made.certificate.digest(), "certified");
    Ok(())
}

/// What is stored of a certificate of this upgrade.
fn pages_of(snapshot: &Snapshot, id: &UpgradeId) -> Vec<Key> {
    let keys = snapshot.entries.iter().map(|entry| &entry.key);
    keys.filter(|key| matches!(key, Key::Certificate(of, _) if of == id)).cloned().collect()
}

async fn evidence(bound: &Bound) -> Result<DatabaseEvidence, String> {
    let pending_rows = bound.engine.pending_rows(&bound.set).await.map_err(|e| Chain(&e).to_string())?;
    Ok(DatabaseEvidence { pending_rows, sessions: sessions_of(bound).await? })
}
