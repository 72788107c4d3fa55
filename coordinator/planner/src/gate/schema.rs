//! What is done to the database.

pub(crate) mod form;
pub(crate) mod later;
pub mod migrate_floors;
pub(crate) mod ready;

pub use form::MissingForm;

use super::Reason;
use super::description::{Description, Waits, decommission, first};
use super::person::rollback::begins;
use super::roll::rollback;
use crate::fleet::Sample;
use crate::moment::SchemaFacts;
use crate::upgrade::View;
use serde::{Deserialize, Serialize};
use tidegate_proto::record::upgrade::{MigrateOrder, PhaseName, Upgrade};
use tidegate_proto::{ServiceName, ServiceVersion, UpgradeId};

/// A gate on the schema of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum SchemaGate {
    Schema {
        job: String,
        progress: String,
    },
    SchemaTrouble {
        job: String,
        why: String,
    },
    SchemaLost {
        job: String,
        from: ServiceVersion,
        to: ServiceVersion,
        from_env: String,
        rollback_path: bool,
    },
    BaselineLost {
        from: ServiceVersion,
        from_env: String,
        unfinished: String,
    },
    SharedForm {
        upgrade: UpgradeId,
        version: ServiceVersion,
        missing: MissingForm,
        rollback_path: bool,
    },
    SharedRollback {
        upgrade: UpgradeId,
        service: ServiceName,
        version: ServiceVersion,
    },
    Unfenced {
        service: ServiceName,
        nodes: Sample,
    },
    LaterContract {
        upgrade: UpgradeId,
        contract: String,
        rollback_path: bool,
    },
    MigrateFloor {
        service: ServiceName,
        floor: Option<ServiceVersion>,
        needs: ServiceVersion,
        by_hand: Option<ServiceVersion>,
    },
    Certificate {
        why: String,
    },
}

const REPEATED: &str = "none: it is repeated, at least every 15 s";

impl SchemaGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::Schema { job, progress } => {
                Description::new(format!("schema {job}: {progress}"), "the coordinator")
            }
            Self::SchemaTrouble { job, why } => Description::new(
                format!("schema {job} did not succeed and is repeated: {why}"),
                "the database, or a person who administers it",
            )
            .timeout(REPEATED),
            Self::SchemaLost { job, from, to, from_env, rollback_path } => Description::new(
                format!(
                    "the database no longer shows that {job} is done: it was replaced by an older copy, it was changed by hand, or an undo has begun; no instance is drained until the database shows it again"
                ),
                "a person, who restores the database that was migrated; or, where it is lost, runs its migrations again",
            )
            .next_step(waits.upgrade(|id| match rollback_path {
                true => rollback(id),
                false => run_again(&format!("--from {from} --to {to} --made-by {id}"), from_env),
            }))
            .timeout(REPEATED),
            Self::BaselineLost { from, from_env, unfinished } => baseline_lost(*from, from_env, unfinished),
            Self::SharedForm { upgrade, version, missing, rollback_path } => {
                let next_step = match missing {
                    MissingForm::Lost | MissingForm::RollingBack => {
                        waits.upgrade(|_| format!("tidegate upgrade explain {upgrade}"))
                    }
                    MissingForm::RolledBack => waits.upgrade(rollback).filter(|_| *rollback_path),
                };
                Description::new(missing.sentence(upgrade, *version), missing.owner())
                    .next_step(next_step)
                    .timeout("none: it depends on another upgrade")
            }
            Self::SharedRollback { upgrade, service, version } => Description::new(
                format!(
                    "upgrade {upgrade} rolls back {service} from version {version}, which uses what expand made; expand is undone once no instance of {service} may start that version"
                ),
                "the rollback of that upgrade",
            )
            .next_step(waits.upgrade(|_| format!("tidegate upgrade explain {upgrade}")))
            .timeout("none: it depends on another upgrade"),
            Self::Unfenced { service, nodes } => unfenced(service, nodes),
            Self::LaterContract { upgrade, contract, rollback_path } => Description::new(
                format!(
                    "the database of upgrade {upgrade} shows that contract of {contract} has started, which came after that upgrade and is not in this store: no instance is moved, because what is left may not bear an earlier version"
                ),
                "a person, who restores a later copy of the store, or an empty one, and reconciles it; or restores the database of that time",
            )
            .next_step(waits.upgrade(rollback).filter(|_| *rollback_path))
            .timeout(REPEATED),
            Self::MigrateFloor { service, floor, needs, by_hand } => {
                migrate_floor(service, (*floor, *needs), *by_hand, waits)
            }
            Self::Certificate { why } => Description::new(
                format!("the certificate cannot be made: {why}"),
                "the instance, session or row that is named, or a person who administers it",
            )
            .timeout(REPEATED),
        }
    }
}

fn migrate_floor(
    service: &ServiceName,
    (floor, needs): (Option<ServiceVersion>, ServiceVersion),
    by_hand: Option<ServiceVersion>,
    waits: Waits<'_>,
) -> Description {
    let found = match floor {
        Some(floor) => format!("its committed floor is {floor}"),
        None => "no floor of it is committed".to_owned(),
    };
    let missing = format!("migrate requires the floor {needs} of {service}, and {found}");
    let description = match by_hand {
        None => Description::new(
            missing,
            "the upgrade of that service, which commits the floor after its last instance",
        )
        .next_step(waits.upgrade(|_| format!("tidegate upgrade list {service} --active"))),
        Some(ceiling) => Description::new(
            format!("{missing}; every instance is at {needs} or above, and no upgrade raises the floor"),
            "a person, who raises the floor",
        )
        .next_step(waits.upgrade(|_| {
            format!("tidegate fleet window {service} --floor {needs} --ceiling {ceiling} --why …")
        })),
    };
    description.timeout("none: it depends on another service")
}

/// The commands that run migrations again by hand, on the database that the spec names: by default they take another one.
fn run_again(which: &str, from_env: &str) -> String {
    let run = |verb| format!("tidegate schema {verb} {which} --migrations DIR --from-env {from_env}");
    format!("{}, then {}", run("expand"), run("migrate"))
}

fn baseline_lost(from: ServiceVersion, from_env: &str, unfinished: &str) -> Description {
    Description::new(
        format!(
            "the database no longer shows a migration that version {from} uses: it was replaced by an older copy, it was changed by hand, or an undo has begun; no instance is drained until the database shows it again: {unfinished}"
        ),
        "a person, who restores the database that was migrated; or, where it is lost, runs its migrations again",
    )
    .next_step(Some(run_again(&format!("--to {from}"), from_env)))
    .timeout(REPEATED)
}

fn unfenced(service: &ServiceName, nodes: &Sample) -> Description {
    Description::new(
        format!(
            "{service}: {nodes} are decommissioned at a version that uses what expand made, and no statement says how they were stopped or fenced; expand is undone once one does"
        ),
        "a person, who says how these instances were stopped or fenced",
    )
    .next_step(first(nodes).map(|node| decommission(service, node)))
    .timeout("none (manual decision)")
}

/// Why no step begins: the database no longer shows what the versions on both sides of the upgrade use, or that the job of an
/// earlier phase is done.
pub(crate) fn lost(view: &View<'_>, facts: &SchemaFacts) -> Option<Reason> {
    let (from, to) = (view.spec().from, view.spec().to);
    let variable = || view.spec().schema.as_ref().map(|schema| schema.database.name().to_owned());
    if let Some(unfinished) = lost_baseline(view.upgrade, facts).map(str::to_owned) {
        let from_env = variable().unwrap_or_default();
        return Some(SchemaGate::BaselineLost { from, from_env, unfinished }.into());
    }
    let job = lost_job(view.upgrade, facts)?.to_owned();
    let (from_env, rollback_path) = (variable().unwrap_or_default(), begins(view, "").is_open);
    Some(SchemaGate::SchemaLost { job, from, to, from_env, rollback_path }.into())
}

/// A migration at or below `from` that the database does not show, where the upgrade goes forward: a rollback needs none.
fn lost_baseline<'a>(upgrade: &Upgrade, facts: &'a SchemaFacts) -> Option<&'a str> {
    let goes_on = upgrade.phase.name() == PhaseName::Expand || builds_on(upgrade.phase.name());
    facts.unfinished.as_deref().filter(|_| goes_on)
}

/// Whether a phase follows one that has made the form.
fn builds_on(phase: PhaseName) -> bool {
    matches!(phase, PhaseName::Migrate | PhaseName::Roll | PhaseName::Remove | PhaseName::Contract)
}

fn lost_job(upgrade: &Upgrade, facts: &SchemaFacts) -> Option<&'static str> {
    let fills_first = upgrade.schema.as_ref().is_some_and(|s| s.order == MigrateOrder::BeforeRoll);
    match upgrade.phase.name() {
        PhaseName::Migrate | PhaseName::Roll | PhaseName::Remove | PhaseName::Contract if !facts.expanded => {
            Some("expand")
        }
        // Rows that came since are filled in remove.
        PhaseName::Roll if fills_first && !facts.filled => Some("migrate"),
        _ => None,
    }
}

/// Why a phase waits for a job of the database: it does not succeed, it runs, or it is about to.
pub(crate) fn runs(job: &str, facts: &SchemaFacts) -> Reason {
    let job = job.to_owned();
    Reason::Schema(match (&facts.trouble, &facts.running) {
        (Some(why), _) => SchemaGate::SchemaTrouble { job, why: why.clone() },
        (None, Some(progress)) => SchemaGate::Schema { job, progress: progress.clone() },
        (None, None) => SchemaGate::Schema { job, progress: "about to begin".to_owned() },
    })
}

/// Why a phase waits for a look at the database.
pub(crate) fn looks(job: &str, facts: Option<&SchemaFacts>) -> Reason {
    let trouble = facts.and_then(|facts| facts.trouble.clone());
    let progress = Some("the database is being looked at".to_owned());
    runs(job, &SchemaFacts { trouble, running: progress, ..SchemaFacts::default() })
}

/// That contract waits for its certificate.
pub(crate) fn certifies() -> Reason {
    let progress = "its certificate is being made".to_owned();
    SchemaGate::Schema { job: "contract".to_owned(), progress }.into()
}

/// That the certificate of contract cannot be made.
pub fn uncertified(why: impl Into<String>) -> Reason {
    SchemaGate::Certificate { why: why.into() }.into()
}
