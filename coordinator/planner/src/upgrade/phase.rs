//! The moves of an upgrade. One enum (in the vocabulary), one drawing, one function.
//!
//! ```text
//! preflight ─► stage ─► expand ─► migrate ─► roll ⟲ ─► remove ─► contract ─► completed
//!     │          │ └──(no schema)──────────► ▲  │         │ └─(no schema)──►  ▲
//!     │          │        └──(Nova: migrate after)─► roll ─► migrate ─► remove
//!     │          └─────────┴─────────┴────────┴─────────┘
//!     │                              ▼ roll back
//!     │            rolling-back: restage ─► move ─► lower ─► undo ─► rolled-back
//!     ├─(schema)──► rolling-back: undo ─► failed
//!     └───────────────────────────────────► failed
//! ```
//!
//! # Invariants
//! * There is no edge back once contract began, nor once rows were migrated that N-1 cannot read.
//! * Nothing leaves completed, rolled-back or failed.
//! * An upgrade that is bound to a schema ends without contract only after a look at what it expanded: a store that was
//!   restored may have an earlier phase than the database shows.

use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName, RollbackStep, SchemaBinding, Upgrade};
use tidegate_proto::{Digest, ServiceVersion, UpgradeId};

/// What happened, and lets an upgrade move on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Preflight found no blocker.
    Cleared,
    /// Every node has the new release.
    Staged,
    /// The history of the database shows every expand step.
    Expanded,
    /// The history of the database shows every migrate step, verified.
    Migrated,
    /// A wave has passed, and another follows.
    WavePassed,
    /// The last wave has passed, and every instance is at the new version.
    Rolled,
    /// The old code is gone from every node.
    Removed,
    /// The certificate is stored.
    Certified(Digest),
    /// The history of the database shows every contract step.
    Contracted,
    /// Go back, for this reason.
    RollBack(String),
    /// A step of the rollback is done.
    RollbackStepDone,
}

/// A move that does not exist from the upgrade's phase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Contract began, or is done.
    #[error("{0} has started and has dropped what the old version needs")]
    NoWayBack(PhaseName),
    /// Rows were migrated that the old version cannot read.
    #[error("{0} has started, and the old version cannot read migrated rows")]
    RowsMigrated(PhaseName),
    /// A schema that the service shares was contracted, by another upgrade.
    #[error("the former version could not run: {0}")]
    Contracted(String),
    /// The database of an upgrade shows a contract that the store does not know of.
    #[error(
        "the database of upgrade {0} shows that contract has started, so version {1} may not be able to run"
    )]
    ContractBegun(UpgradeId, ServiceVersion),
    /// The database of an upgrade shows a contract that came after it, by an upgrade that the store does not know of.
    #[error(
        "the database of upgrade {upgrade} shows that contract of {contract} has started, which came after that upgrade and is not in this store, so version {from} may not be able to run: restore a later copy of the store, or begin with an empty one, and reconcile it; or restore the database of that time"
    )]
    LaterContract {
        /// The upgrade that is bound to the database.
        upgrade: UpgradeId,
        /// The contract, in words.
        contract: String,
        /// The version to which the rollback leads.
        from: ServiceVersion,
    },
    /// The store was reconciled, and the database of an upgrade that was active then was not seen since.
    #[error(
        "the store was reconciled while upgrade {0} was active, and its database, which may be contracted, was not seen since: ask again once it has answered"
    )]
    Unseen(UpgradeId),
    /// It has ended.
    #[error("it has ended: {0}")]
    Over(PhaseName),
    /// It is rolling back already.
    #[error("it is rolling back already")]
    TurnedAlready,
    /// No such edge.
    #[error("{happened} does not lead on from {phase}")]
    NoSuchMove {
        /// Its phase.
        phase: PhaseName,
        /// What was said to have happened.
        happened: &'static str,
    },
}

/// Whether instances get no directives in the phase of an upgrade, so that none of them can be retried.
pub(crate) fn gives_no_directives(upgrade: &Upgrade) -> bool {
    match upgrade.phase {
        Phase::Expand => true,
        // After the roll, those that are elsewhere are moved beside the fill.
        Phase::Migrate => upgrade.waves.is_none(),
        _ => upgrade.former.is_none(),
    }
}

/// Where a move leads.
pub fn transition(phase: &Phase, happened: Move, schema: Option<&SchemaBinding>) -> Result<Phase, Refused> {
    use MigrateOrder::{AfterRoll, BeforeRoll};
    let order = schema.map(|s| s.order);
    Ok(match (phase, happened) {
        (_, Move::RollBack(because)) => return begin_rollback(phase, because, schema),
        (Phase::Preflight, Move::Cleared) => Phase::Stage,
        (Phase::Stage, Move::Staged) if order.is_some() => Phase::Expand,
        (Phase::Stage, Move::Staged) => Phase::Roll { wave: 0 },
        (Phase::Expand, Move::Expanded) if order == Some(BeforeRoll) => Phase::Migrate,
        (Phase::Expand, Move::Expanded) => Phase::Roll { wave: 0 },
        (Phase::Migrate, Move::Migrated) if order == Some(BeforeRoll) => Phase::Roll { wave: 0 },
        (Phase::Migrate, Move::Migrated) => Phase::Remove,
        (Phase::Roll { wave }, Move::WavePassed) => Phase::Roll { wave: wave + 1 },
        (Phase::Roll { .. }, Move::Rolled) if order == Some(AfterRoll) => Phase::Migrate,
        (Phase::Roll { .. }, Move::Rolled) => Phase::Remove,
        (Phase::Remove, Move::Removed) if order.is_none() => Phase::Completed,
        (Phase::Remove, Move::Certified(certificate)) if order.is_some() => Phase::Contract { certificate },
        (Phase::Contract { .. }, Move::Contracted) => Phase::Completed,
        (Phase::RollingBack { from, step, because }, Move::RollbackStepDone) => {
            next_step(*from, *step, because, schema)
        }
        (phase, happened) => {
            return Err(Refused::NoSuchMove { phase: phase.name(), happened: happened.word() });
        }
    })
}

fn begin_rollback(phase: &Phase, because: String, schema: Option<&SchemaBinding>) -> Result<Phase, Refused> {
    let reversible = schema.is_none_or(|s| s.old_reads_migrated);
    let migrates_first = schema.is_some_and(|s| s.order == MigrateOrder::BeforeRoll);
    match phase {
        Phase::Preflight if schema.is_some() => {
            Ok(Phase::RollingBack { from: PhaseName::Preflight, step: RollbackStep::Undo, because })
        }
        Phase::Preflight => Ok(Phase::Failed { because }),
        Phase::Contract { .. } => Err(Refused::NoWayBack(PhaseName::Contract)),
        Phase::Migrate | Phase::Remove if !reversible => Err(Refused::RowsMigrated(PhaseName::Migrate)),
        Phase::Roll { .. } if !reversible && migrates_first => Err(Refused::RowsMigrated(PhaseName::Migrate)),
        Phase::Stage | Phase::Expand | Phase::Migrate | Phase::Roll { .. } | Phase::Remove => {
            Ok(Phase::RollingBack { from: phase.name(), step: RollbackStep::Restage, because })
        }
        Phase::RollingBack { .. } => Err(Refused::TurnedAlready),
        Phase::Completed | Phase::RolledBack { .. } | Phase::Failed { .. } => {
            Err(Refused::Over(phase.name()))
        }
    }
}

fn next_step(from: PhaseName, step: RollbackStep, because: &str, schema: Option<&SchemaBinding>) -> Phase {
    let because = because.to_owned();
    let next = match step {
        RollbackStep::Restage => RollbackStep::Move,
        RollbackStep::Move => RollbackStep::Lower,
        RollbackStep::Lower if schema.is_some() => RollbackStep::Undo,
        RollbackStep::Undo if from == PhaseName::Preflight => return Phase::Failed { because },
        RollbackStep::Lower | RollbackStep::Undo => return Phase::RolledBack { because },
    };
    Phase::RollingBack { from, step: next, because }
}

impl Move {
    fn word(&self) -> &'static str {
        match self {
            Self::Cleared => "a passed preflight",
            Self::Staged => "a staged release",
            Self::Expanded => "an expanded schema",
            Self::Migrated => "migrated data",
            Self::WavePassed => "a passed wave",
            Self::Rolled => "a finished roll",
            Self::Removed => "removed code",
            Self::Certified(_) => "a certificate",
            Self::Contracted => "a contracted schema",
            Self::RollBack(_) => "a rollback",
            Self::RollbackStepDone => "a step of a rollback",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(order: MigrateOrder, old_reads_migrated: bool) -> SchemaBinding {
        SchemaBinding {
            id: "s1".parse().unwrap(),
            migrations: Digest::of(b"m"),
            order,
            old_reads_migrated,
            own: Vec::new(),
            left: Vec::new(),
            form_left: false,
            migrate_floors: Default::default(),
        }
    }

    fn phases(schema: Option<&SchemaBinding>, moves: Vec<Move>) -> Vec<&'static str> {
        let mut phase = Phase::Preflight;
        let mut names = vec![phase.name().word()];
        for happened in moves {
            phase = transition(&phase, happened, schema).unwrap();
            names.push(phase.name().word());
        }
        names
    }

    #[test]
    fn without_a_schema_the_way_is_short() {
        let names =
            phases(None, vec![Move::Cleared, Move::Staged, Move::WavePassed, Move::Rolled, Move::Removed]);
        assert_eq!(names, ["preflight", "stage", "roll", "roll", "remove", "completed"]);
    }

    #[test]
    fn glance_migrates_before_the_roll_and_nova_after_it() {
        let certificate = Digest::of(b"c");
        let glance = phases(
            Some(&binding(MigrateOrder::BeforeRoll, true)),
            vec![
                Move::Cleared,
                Move::Staged,
                Move::Expanded,
                Move::Migrated,
                Move::Rolled,
                Move::Certified(certificate),
                Move::Contracted,
            ],
        );
        assert_eq!(
            glance,
            ["preflight", "stage", "expand", "migrate", "roll", "remove", "contract", "completed"]
        );
        let nova = phases(
            Some(&binding(MigrateOrder::AfterRoll, true)),
            vec![
                Move::Cleared,
                Move::Staged,
                Move::Expanded,
                Move::Rolled,
                Move::Migrated,
                Move::Certified(certificate),
                Move::Contracted,
            ],
        );
        assert_eq!(
            nova,
            ["preflight", "stage", "expand", "roll", "migrate", "remove", "contract", "completed"]
        );
    }

    #[test]
    fn there_is_no_way_back_from_contract() {
        let schema = binding(MigrateOrder::BeforeRoll, true);
        let phase = Phase::Contract { certificate: Digest::of(b"c") };
        let refused = transition(&phase, Move::RollBack("please".into()), Some(&schema));
        assert_eq!(refused, Err(Refused::NoWayBack(PhaseName::Contract)));
    }

    #[test]
    fn rows_unreadable_to_old_version_end_rollback_path() {
        let schema = binding(MigrateOrder::BeforeRoll, false);
        assert!(transition(&Phase::Expand, Move::RollBack("x".into()), Some(&schema)).is_ok());
        for phase in [Phase::Migrate, Phase::Roll { wave: 0 }, Phase::Remove] {
            let refused = transition(&phase, Move::RollBack("x".into()), Some(&schema));
            assert_eq!(refused, Err(Refused::RowsMigrated(PhaseName::Migrate)), "from {phase}");
        }
        let nova = binding(MigrateOrder::AfterRoll, false);
        assert!(transition(&Phase::Roll { wave: 0 }, Move::RollBack("x".into()), Some(&nova)).is_ok());
    }

    #[test]
    fn each_rollback_with_a_schema_undoes_expand() {
        let schema = binding(MigrateOrder::BeforeRoll, true);
        let steps = |from: Phase, schema: Option<&SchemaBinding>| {
            let mut phase = transition(&from, Move::RollBack("x".into()), schema).unwrap();
            let mut steps = Vec::new();
            while let Phase::RollingBack { step, .. } = &phase {
                steps.push(*step);
                phase = transition(&phase, Move::RollbackStepDone, schema).unwrap();
            }
            (steps.last().copied(), phase.name())
        };
        let undone = Some(RollbackStep::Undo);
        assert_eq!(steps(Phase::Preflight, Some(&schema)), (undone, PhaseName::Failed));
        assert_eq!(steps(Phase::Stage, Some(&schema)), (undone, PhaseName::RolledBack));
        assert_eq!(steps(Phase::Preflight, None), (None, PhaseName::Failed));
        assert_eq!(steps(Phase::Stage, None), (Some(RollbackStep::Lower), PhaseName::RolledBack));
    }

    #[test]
    fn a_rollback_walks_its_steps_and_ends() {
        let schema = binding(MigrateOrder::BeforeRoll, true);
        let mut phase =
            transition(&Phase::Roll { wave: 2 }, Move::RollBack("x".into()), Some(&schema)).unwrap();
        let mut steps = Vec::new();
        while let Phase::RollingBack { step, .. } = &phase {
            steps.push(*step);
            phase = transition(&phase, Move::RollbackStepDone, Some(&schema)).unwrap();
        }
        assert_eq!(
            steps,
            [RollbackStep::Restage, RollbackStep::Move, RollbackStep::Lower, RollbackStep::Undo]
        );
        assert!(phase.is_over());
        assert!(transition(&phase, Move::RollBack("x".into()), Some(&schema)).is_err());
    }
}
