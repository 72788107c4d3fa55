//! What operators may ask for: one file per verb, called by every door alike. Questions are answered from what this
//! coordinator sees; of a command the planner makes a commit, or says why not.
//!
//! Doors only translate: whatever is checked is checked here or in the planner.

mod answer;
mod approve;
pub mod body;
mod certificate;
mod cordon;
mod decommission;
mod explain;
mod gate;
mod history;
mod instances;
mod leader;
mod list;
pub mod metadata;
mod mutation;
mod near;
mod pause;
mod preview;
mod reconcile;
pub mod release;
mod resume;
mod retry;
mod roll_back;
mod skip;
pub mod spec;
mod spread;
mod start;
mod status;
mod task;
mod token;
mod unreadable;
mod versions;
mod watch;
mod window;

pub use approve::approve_upgrade;
pub use certificate::upgrade_certificate;
pub use cordon::{cordon_node, uncordon_node};
pub use decommission::decommission_instance;
pub use explain::explain_upgrade;
pub use gate::{list_gates, record_gate};
pub use history::{fleet_history, upgrade_history};
pub use instances::list_instances;
pub use leader::leader;
pub use list::list_upgrades;
pub use near::hinted;
pub use pause::pause_upgrade;
pub use preview::preview_upgrade;
pub use reconcile::{plan_reconciliation, reconcile_store};
pub use resume::resume_upgrade;
pub use retry::retry_instance;
pub use roll_back::roll_back_upgrade;
pub use skip::skip_instance;
pub use spread::fleet_spread;
pub use start::start_upgrade;
pub use status::upgrade_status;
pub use task::{list_tasks, settle_task};
pub use token::{create_token, list_tokens, revoke_token};
pub use versions::fleet_versions;
pub use watch::watch_upgrade;
pub use window::{preview_window, set_window};

use crate::act::schema::Unbound;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use tidegate_planner::ask::{Asker, RollbackBar};
use tidegate_planner::{Fleet, Stored};
use tidegate_proto::UpgradeId;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_store::StoreError;

/// Why an operation did not do what was asked. Nothing was changed, except where [`OperationError::OutcomeUnknown`] says
/// that this is not known.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// What was said makes no sense by itself.
    #[error("{0}")]
    BadInput(String),
    /// The input is larger than is allowed; the message gives the limit.
    #[error("{0}")]
    TooLarge(String),
    /// What was named is not there.
    #[error("{0}")]
    NotFound(String),
    /// A gate is closed, or the state does not allow it.
    #[error("{0}")]
    Refused(String),
    /// An upgrade cannot be rolled back.
    #[error("{message}")]
    NoRollback {
        /// Why, in words.
        message: String,
        /// For what.
        bar: RollbackBar,
    },
    /// No coordinator could do it now.
    #[error("{0}")]
    Unavailable(String),
    /// It was sent to the store, and whether it was carried out is not known.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The store could not be asked, or its answer could not be had.
    #[error("could not {attempt}")]
    Store {
        /// What was tried.
        attempt: String,
        /// Why it did not succeed.
        #[source]
        source: StoreError,
    },
}

impl From<Unbound> for OperationError {
    fn from(unbound: Unbound) -> Self {
        OperationError::Refused(unbound.in_words())
    }
}

fn store_error(attempt: &str) -> impl FnOnce(StoreError) -> OperationError {
    let attempt = attempt.to_owned();
    move |source| OperationError::Store { attempt, source }
}

/// Reads what is given as a text: a name, an ID, a tag, a span.
fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, OperationError> {
    text.parse().map_err(|e: T::Err| OperationError::BadInput(e.to_string()))
}

/// The same; none where it is empty.
fn parse_given<T: FromStr<Err: Display>>(text: &str) -> Result<Option<T>, OperationError> {
    Some(text).filter(|text| !text.is_empty()).map(parse).transpose()
}

fn find<'a>(fleet: &'a Fleet, id: &UpgradeId) -> Result<&'a Stored<Upgrade>, OperationError> {
    fleet.upgrade(id).ok_or_else(|| {
        OperationError::NotFound(format!(
            "there is no upgrade {id}: `tidegate upgrade list` shows those that there are"
        ))
    })
}

/// Who asks, and why, as kept in records: one line each, of a length that a person writes.
fn said(field: &str, text: &str) -> Result<String, OperationError> {
    let text = text.trim();
    let flaw = if text.is_empty() {
        "is empty"
    } else if text.len() > 500 {
        "is longer than 500 bytes"
    } else if text.chars().any(char::is_control) {
        "holds control characters"
    } else {
        return Ok(text.to_owned());
    };
    Err(OperationError::BadInput(format!(
        "{field} {flaw}: one line of 1 to 500 bytes is needed, because it is kept in the history"
    )))
}

/// Someone who must say why.
fn explaining(who: &str, why: &str) -> Result<Asker, OperationError> {
    Ok(Asker { who: said("who", who)?, why: said("why", why)?, accepts: BTreeSet::new() })
}

/// Someone who may leave a remark.
fn remarking(who: &str, field: &str, remark: &str) -> Result<Asker, OperationError> {
    Ok(Asker { who: said("who", who)?, why: maybe_said(field, remark)?, accepts: BTreeSet::new() })
}

/// What may be left out.
fn maybe_said(field: &str, text: &str) -> Result<String, OperationError> {
    if text.trim().is_empty() { Ok(String::new()) } else { said(field, text) }
}
