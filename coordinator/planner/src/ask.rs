//! Commands of operators: each verb is a pure function from the fleet to the commit that applies it, or a refusal that
//! says what was asked, what was found, and what to do instead.

mod decommission;
mod gate;
mod maintenance;
pub mod metadata;
pub mod reconcile;
pub mod release;
mod start;
mod steer;
mod task;
mod token;
mod verdict;
mod window;

pub use decommission::{Gone, decommission};
pub use gate::gate_verdict;
pub use maintenance::{cordon, uncordon};
pub use reconcile::reconciled;
pub use start::{StartRequest, start, unused};
pub use steer::{approve, pause, resume, retry, retry_stopped, roll_back, skip};
pub use task::settle_task;
pub use token::{TokenRequest, create_token, revoke_token};
pub use window::{WindowRequest, set_window};

use crate::fleet::{Fleet, Stored};
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::{Key, UpgradeId};

/// Why something that was asked for is not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// A machine word.
    pub kind: RefusalKind,
    /// What was asked, what was found, what to do instead.
    pub message: String,
}

/// The kinds of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum RefusalKind {
    /// There is no such thing.
    NotFound,
    /// What was asked for is malformed or contradicts itself.
    Invalid,
    /// What was asked for is larger than is allowed.
    TooLarge,
    /// Not in the current state.
    #[strum(serialize = "refused")]
    State,
    /// An upgrade cannot be rolled back.
    #[strum(serialize = "refused")]
    Rollback(RollbackBar),
}

/// What an upgrade cannot be rolled back for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackBar {
    /// Contract has begun, for as long as the upgrade lasts.
    Contract,
    /// Rows were migrated that the former version cannot read, for as long as the upgrade lasts.
    Rows,
    /// Compute releases need what the service has, until they are rolled back.
    Computes,
}

impl RefusalKind {
    /// The machine word.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Who asks, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Who.
    pub who: String,
    /// Why, or a remark; empty where none is demanded and none was given.
    pub why: String,
    /// What they accept by name that cannot be proved (with an approval of contract: `sessions`).
    pub accepts: std::collections::BTreeSet<String>,
}

impl Refusal {
    fn not_found(message: impl ToString) -> Self {
        Self { kind: RefusalKind::NotFound, message: message.to_string() }
    }

    fn invalid(message: impl ToString) -> Self {
        Self { kind: RefusalKind::Invalid, message: message.to_string() }
    }

    fn too_large(message: impl ToString) -> Self {
        Self { kind: RefusalKind::TooLarge, message: message.to_string() }
    }

    fn state(message: impl ToString) -> Self {
        Self { kind: RefusalKind::State, message: message.to_string() }
    }

    fn rollback(bar: RollbackBar, message: impl ToString) -> Self {
        Self { kind: RefusalKind::Rollback(bar), message: message.to_string() }
    }
}

fn demand_why(asker: &Asker, verb: &str) -> Result<(), Refusal> {
    if asker.why.trim().is_empty() {
        return Err(Refusal::invalid(format!("{verb} needs a reason: give it with --why")));
    }
    Ok(())
}

/// Refuses what depends on a record that is there and cannot be read, as if it were not there.
fn demand_readable(fleet: &Fleet, key: &Key, what: &str) -> Result<(), Refusal> {
    let Some(why) = fleet.unreadable_at(key) else { return Ok(()) };
    let first = match key.kind() {
        Kind::Report | Kind::Inventory => {
            "the agent of the node writes it again; where that agent is gone for good, remove the key first"
        }
        _ => "restore its previous value first",
    };
    Err(Refusal::state(format!("cannot {what}: the record {key} {why}: {first}")))
}

fn find<'a>(fleet: &'a Fleet, id: &UpgradeId) -> Result<&'a Stored<Upgrade>, Refusal> {
    let missing = || {
        Refusal::not_found(format!("there is no upgrade {id}: `tidegate upgrade list` shows those there are"))
    };
    fleet.upgrade(id).ok_or_else(missing)
}

fn find_active<'a>(fleet: &'a Fleet, id: &UpgradeId, verb: &str) -> Result<&'a Stored<Upgrade>, Refusal> {
    let upgrade = find(fleet, id)?;
    if upgrade.phase.is_over() {
        return Err(Refusal::state(format!("cannot {verb} upgrade {id}: it has ended ({})", upgrade.phase)));
    }
    Ok(upgrade)
}

/// A commit under the leader's fence, with the event that records it.
fn with_event(moment: &Moment, subject: Subject, asker: &Asker, from: &str, to: &str) -> Commit {
    let words = [from.to_owned(), to.to_owned()];
    moment.with_event(Commit::new(), (subject, moment.next_event), words, &asker.who, &asker.why)
}

/// A rewrite of an upgrade's record that a person asked for; elapsed waits are carried over.
fn rewritten(
    moment: &Moment,
    id: &UpgradeId,
    stored: &Stored<Upgrade>,
    asker: &Asker,
    to: &str,
    change: impl FnOnce(&mut Upgrade),
) -> Commit {
    let key = Key::Upgrade(id.clone());
    let mut body = stored.record.body.clone();
    if let Some(elapsed) = moment.elapsed.get(id) {
        body.stalled_ms = elapsed.stalled_ms;
        body.phase_ms = elapsed.phase_ms;
    }
    change(&mut body);
    with_event(moment, Subject::Upgrade(id.clone()), asker, stored.phase.name().word(), to)
        .when(Precondition::At(key.clone(), stored.at))
        .put(key, stored.record.with(body))
}
