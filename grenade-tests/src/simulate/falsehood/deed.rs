//! What is done to the world beside the product, or to what the judge saw of it.

use super::super::ground::disable_file;
use super::super::scenario::Scenario;
use super::super::slot::{At, Cause, Slot};
use super::super::tamper;
use super::super::world::{World, tag};
use super::small;
use serde::{Deserialize, Serialize};
use tidegate_proto::record::upgrade::PhaseName;

/// One deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// Of a leader that was deposed, a row appears in the engine's history.
    DeposedWrites,
    /// `explain` names no reason.
    ReasonsAreLost,
    /// A program of the former version says that it is the new one when contract begins.
    OldProgramAtContract,
    /// A row is lost.
    RowIsLost,
    /// A row is filled wrongly.
    RowIsFilledWrongly,
    /// A column disappears under a version in rotation.
    ColumnIsGone,
    /// A drain is ordered although the database was replaced by an older copy.
    DatabaseWasOlder,
    /// A version below the floor comes into rotation.
    OldProgramComesIn,
    /// A version gate opens over an instance that has been silent for a while.
    GateOverSilence,
    /// One instance too many is taken out by an order.
    OneOutTooMany,
    /// A process is started while another runs.
    SecondProcess,
    /// A hook is begun while another runs.
    SecondHook,
    /// An instance is stopped in rotation.
    StoppedInRotation,
    /// An instance is stopped while it works, before the drain's deadline.
    StoppedAtWork,
    /// An agent removes a person's disable-file.
    PersonsFileIsRemoved,
    /// A table is left after a rollback.
    TableIsLeft,
    /// An instance runs the new version after a rollback.
    NewProgramAfterRollback,
    /// A version gate opens over an unreadable report.
    GateOverABadRecord,
    /// The loop of a coordinator ends at an unreadable record.
    BadRecordEndsALoop,
    /// An instance that runs the former version says that it is the new one when the upgrade is completed.
    OldProgramAtTheEnd,
    /// An instance has been out of rotation for a while when the upgrade is completed.
    OutAtTheEnd,
}

impl Deed {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::DeposedWrites,
        Self::ReasonsAreLost,
        Self::OldProgramAtContract,
        Self::RowIsLost,
        Self::RowIsFilledWrongly,
        Self::ColumnIsGone,
        Self::DatabaseWasOlder,
        Self::OldProgramComesIn,
        Self::GateOverSilence,
        Self::OneOutTooMany,
        Self::SecondProcess,
        Self::SecondHook,
        Self::StoppedInRotation,
        Self::StoppedAtWork,
        Self::PersonsFileIsRemoved,
        Self::TableIsLeft,
        Self::NewProgramAfterRollback,
        Self::GateOverABadRecord,
        Self::BadRecordEndsALoop,
        Self::OldProgramAtTheEnd,
        Self::OutAtTheEnd,
    ];

    /// The rule that it breaks.
    pub fn rule(self) -> u8 {
        match self {
            Self::DeposedWrites | Self::ReasonsAreLost => 0,
            Self::OldProgramAtContract
            | Self::RowIsLost
            | Self::RowIsFilledWrongly
            | Self::ColumnIsGone
            | Self::DatabaseWasOlder => 1,
            Self::OldProgramComesIn => 2,
            Self::GateOverSilence => 3,
            Self::OneOutTooMany => 4,
            Self::SecondProcess | Self::SecondHook => 5,
            Self::StoppedInRotation | Self::StoppedAtWork | Self::PersonsFileIsRemoved => 6,
            Self::TableIsLeft | Self::NewProgramAfterRollback => 10,
            Self::GateOverABadRecord | Self::BadRecordEndsALoop => 11,
            Self::OldProgramAtTheEnd | Self::OutAtTheEnd => 12,
        }
    }

    pub(super) fn suits(self, scenario: &Scenario) -> bool {
        let (schema, hooks) = (scenario.services[0].schema.is_some(), scenario.services[0].hooks);
        let back = small::is_rolled_back(scenario);
        match self {
            Self::TableIsLeft | Self::NewProgramAfterRollback => back,
            // What is done in the first roll would make that rollback another one.
            _ if back => false,
            Self::DeposedWrites
            | Self::OldProgramAtContract
            | Self::RowIsLost
            | Self::RowIsFilledWrongly
            | Self::ColumnIsGone
            | Self::DatabaseWasOlder => schema,
            Self::OldProgramAtTheEnd => !schema,
            Self::SecondHook => hooks,
            _ => true,
        }
    }

    /// Whether it is done in this phase of an upgrade: in the first, but what needs a floor above the first version.
    pub(super) fn is_due(self, id: &str, phase: PhaseName) -> bool {
        let (of, when) = match self {
            Self::OldProgramComesIn => ("u1", PhaseName::Roll),
            Self::OldProgramAtContract | Self::OldProgramAtTheEnd | Self::OutAtTheEnd => {
                ("u0", PhaseName::Remove)
            }
            Self::TableIsLeft => ("u0", PhaseName::RollingBack),
            Self::NewProgramAfterRollback => ("u0", PhaseName::RolledBack),
            _ => ("u0", PhaseName::Roll),
        };
        id == of && phase == when
    }

    /// Does it; none where that is not possible now, or is to be done again.
    pub(super) async fn tell(self, world: &mut World, since: u64) -> Option<()> {
        let now = world.ground.now();
        match self {
            Self::ReasonsAreLost => Some(()),
            Self::DeposedWrites => world.databases[0].deposed_writes().await.ok(),
            Self::RowIsLost => world.databases[0].lose_row().await.ok(),
            Self::RowIsFilledWrongly => world.databases[0].fill_wrongly().await.ok(),
            Self::ColumnIsGone => world.databases[0].lose_column(1).await.ok(),
            Self::TableIsLeft => world.databases[0].leave_table().await.ok(),
            // As long as the roll lasts: the judge looks again and again.
            Self::DatabaseWasOlder => {
                world.ground.state().facts.services[0].lacks_since = Some(0);
                None
            }
            Self::OldProgramAtContract | Self::OldProgramAtTheEnd => {
                becomes(world, find(world, |slot| slot.serves)?, 1, Some(2));
                Some(())
            }
            Self::NewProgramAfterRollback => {
                becomes(world, find(world, |slot| slot.serves)?, 2, Some(1));
                Some(())
            }
            Self::OldProgramComesIn => {
                // Once nothing that was admitted under the former floor is under way.
                let at = find(world, |slot| slot.serves).filter(|_| now > since + 16_000)?;
                world.ground.change(at, |slot, _| slot.running = None);
                world.ground.start(at, &tag(&world.scenario.services[0].name, 1));
                world
                    .ground
                    .change(at, |slot, _| slot.running.iter_mut().for_each(|run| run.is.ready_after = 0));
                Some(())
            }
            Self::GateOverSilence | Self::GateOverABadRecord => {
                let at = find(world, |slot| slot.serves && slot.version() == Some(2))?;
                let is_bad = self == Self::GateOverABadRecord;
                // As long as the roll lasts: it reports again.
                world.ground.state().facts.heard.falsify(at, is_bad);
                None
            }
            Self::OneOutTooMany => {
                find(world, Slot::is_out_by_order)?;
                hide(world, find(world, |slot| slot.serves)?);
                Some(())
            }
            Self::SecondProcess => {
                let at = find(world, |slot| slot.serves)?;
                world.ground.start(at, &tag(&world.scenario.services[0].name, 2));
                Some(())
            }
            Self::SecondHook => {
                let at = find(world, |slot| slot.serves)?;
                for _ in 0..2 {
                    world.ground.begin_hook(at, "moving", "start");
                }
                Some(())
            }
            Self::StoppedInRotation => {
                world.ground.stop(find(world, |slot| slot.serves)?);
                Some(())
            }
            Self::StoppedAtWork => {
                let works = |slot: &Slot| slot.is_out_by_order() && slot.in_flight(now) > 0;
                world.ground.stop(find(world, |slot| works(slot) && !slot.server.up)?);
                Some(())
            }
            Self::PersonsFileIsRemoved => {
                let (service, node) = find(world, |slot| slot.serves)?;
                let file = disable_file(&world.ground.names().services[service]);
                world.ground.write(node, &file, b"kept out by hand".to_vec()).ok()?;
                world.ground.removed_by_agent(node, &file);
                world.ground.remove(node, &file).ok()
            }
            Self::BadRecordEndsALoop => {
                let key = tamper::garbage(world, 0, 0).await?;
                world.garbage.push(key);
                world.coordinators.iter().flatten().next()?.end_by_itself();
                Some(())
            }
            Self::OutAtTheEnd => {
                // What the judge saw of it: it serves, and nothing would go on without it.
                let at = find(world, |slot| slot.serves)?;
                let out = Some((0, Cause::Misfortune("falsified")));
                world.ground.change(at, |slot, _| slot.out = out);
                Some(())
            }
        }
    }
}

fn find(world: &World, is: impl Fn(&Slot) -> bool) -> Option<At> {
    world.ground.state().slots.iter().find(|(_, slot)| is(slot)).map(|(at, _)| *at)
}

/// What runs is another version, and says what it says.
fn becomes(world: &World, at: At, version: u32, says: Option<u32>) {
    world.ground.change(at, |slot, _| {
        if let Some(run) = &mut slot.running {
            (run.is.version, run.is.says) = (version, says);
        }
    });
}

/// The disable-file of its agent appears.
fn hide(world: &World, (service, node): At) {
    let file = disable_file(&world.ground.names().services[service]);
    let _ = world.ground.write(node, &file, b"put by tidegate-agent".to_vec());
}
