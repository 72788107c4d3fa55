//! A contract that came after an upgrade, by one that the store does not know of: no version of the upgrade is started on
//! what it has left.

use super::{SchemaGate, runs};
use crate::gate::person::rollback::begins;
use crate::gate::{Answer, Reason};
use crate::moment::SchemaFacts;
use crate::upgrade::{View, later_contract, unseen_of_others};
use tidegate_proto::UpgradeId;

/// Whether no database that the service uses shows such a contract.
pub(crate) fn none_came_later(view: &View<'_>) -> Answer {
    let Some((upgrade, contract)) = later_contract(view) else { return Answer::open() };
    let (upgrade, contract) = (upgrade.clone(), contract.to_string());
    let rollback_path = begins(view, "").is_open;
    Answer::from(Reason::from(SchemaGate::LaterContract { upgrade, contract, rollback_path }))
}

/// Whether each database that another upgrade is bound to, and that the service uses, was seen since the store was reconciled:
/// until then it may show such a contract.
pub(crate) fn others_are_seen(view: &View<'_>, job: &str) -> Answer {
    let Some((upgrade, facts)) = unseen_of_others(view) else { return Answer::open() };
    Answer::from(awaits_look_of(upgrade, facts, job))
}

/// That the database of another upgrade was not seen, with what is known of it.
pub(super) fn awaits_look_of(upgrade: &UpgradeId, facts: Option<&SchemaFacts>, job: &str) -> Reason {
    let of_upgrade = |text: &str| format!("the database of upgrade {upgrade}: {text}");
    let trouble = facts.and_then(|facts| facts.trouble.as_deref()).map(of_upgrade);
    let running = Some(of_upgrade("it is being looked at"));
    runs(job, &SchemaFacts { trouble, running, ..SchemaFacts::default() })
}
