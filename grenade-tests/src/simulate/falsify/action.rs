//! Applies a false action to the world.

use super::kind::FalseAction;
use crate::simulate::host;
use crate::simulate::judge::COUNTED;
use crate::simulate::slot::{At, Cause, Slot};
use crate::simulate::tamper;
use crate::simulate::testbed::disable_file;
use crate::simulate::world::{World, tag};
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::PhaseName;

/// A moment later than `healthy_deadline`, in milliseconds, and earlier than a coordinator must have seen that it passed.
const AFTER_THE_DEADLINE: u64 = 31_000;

/// So long before now it came in, in milliseconds: `healthy_deadline` has not passed.
const WITHIN_THE_DEADLINE: u64 = 10_000;

impl FalseAction {
    /// Whether it is done in this phase of an upgrade: in the first, but what needs a floor above the first version or some
    /// time before it.
    pub(super) fn is_due(self, id: &str, phase: PhaseName) -> bool {
        let (of, when) = match self {
            Self::OldProgramComesIn | Self::LetInIsTakenBack | Self::VerifiedIsTakenBack => {
                ("u1", PhaseName::Roll)
            }
            Self::OldProgramAtContract
            | Self::OldSessionAtContract
            | Self::OldProgramAtTheEnd
            | Self::OutAtTheEnd
            | Self::FlappingIsVerified => ("u0", PhaseName::Remove),
            Self::PausedJobGoesOn => ("u0", PhaseName::Migrate),
            Self::TableIsLeft => ("u0", PhaseName::RollingBack),
            Self::NewProgramAfterRollback => ("u0", PhaseName::RolledBack),
            _ => ("u0", PhaseName::Roll),
        };
        id == of && phase == when
    }

    /// Does it; none where that is not possible now, or is to be repeated.
    pub(super) async fn apply(self, world: &mut World, since: u64) -> Option<()> {
        match self {
            Self::ReasonsAreLost | Self::ReasonsNameNone | Self::WriteIsRefused => Some(()),
            Self::RecordGrows => tamper::swell(world, "u0").await,
            Self::OldSessionAtContract => {
                world.sessions[0].falsify();
                Some(())
            }
            Self::OldProgramAtContract => {
                world.sessions[0].named_as_said = true;
                self.apply_to(world, serving(world)?, since)
            }
            Self::FormerDocumentIsShown => host::show_former_document(&world.testbed, 0),
            Self::DeposedWrites => world.databases[0].deposed_writes().await.ok(),
            Self::UnknownTermIsOverwritten => {
                world.databases[0].obeyed_another_store();
                Some(())
            }
            Self::RowIsLost => world.databases[0].lose_row().await.ok(),
            Self::RowIsFilledWrongly => world.databases[0].fill_wrongly().await.ok(),
            Self::ColumnIsGone => world.databases[0].lose_column(1).await.ok(),
            Self::TableIsLeft => world.databases[0].leave_table().await.ok(),
            Self::BadRecordEndsALoop => {
                let key = tamper::garbage(world, 0, 0).await?;
                world.garbage.push(key);
                world.coordinators.iter().flatten().next()?.end_by_itself();
                Some(())
            }
            Self::OneOutTooMany | Self::LetInIsTakenBack | Self::VerifiedIsTakenBack => {
                find(world, Slot::is_out_by_order)?;
                self.apply_to(world, serving(world)?, since)
            }
            Self::OldProgramAtRemove
            | Self::GateOverSilence
            | Self::GateOverABadRecord
            | Self::LateFailureIsNotCounted => {
                let at = find(world, |slot| slot.serves && slot.version() == Some(2))?;
                self.apply_to(world, at, since)
            }
            Self::StoppedAtWork => {
                let now = world.testbed.now();
                let works = |slot: &Slot| slot.is_out_by_order() && slot.in_flight(now) > 0;
                self.apply_to(world, find(world, |slot| works(slot) && !slot.server.up)?, since)
            }
            // The judge looks repeatedly while the job runs.
            Self::PausedJobGoesOn => {
                world.testbed.state().facts.paused.entry("u0".to_owned()).or_insert(0);
                None
            }
            // The judge looks repeatedly while the roll lasts.
            Self::DatabaseWasOlder => {
                world.testbed.state().facts.services[0].lacks_since = Some(0);
                // The one that has the form takes its place after every drain.
                world.databases[0].replaced_at = Some(world.testbed.now() + 3_600_000);
                None
            }
            _ => self.apply_to(world, serving(world)?, since),
        }
    }

    /// Does it to one instance.
    fn apply_to(self, world: &World, at: At, since: u64) -> Option<()> {
        let release = |version| tag(&world.scenario.services[0].name, version);
        match self {
            Self::OldProgramAtContract | Self::OldProgramAtRemove | Self::OldProgramAtTheEnd => {
                becomes(world, at, 1, Some(2));
            }
            Self::NewProgramAfterRollback => becomes(world, at, 2, Some(1)),
            Self::OldProgramComesIn => {
                // Every instance that was admitted under the former floor has been started by then.
                if world.testbed.now() <= since + 16_000 {
                    return None;
                }
                world.testbed.change(at, |slot, _| slot.running = None);
                world.testbed.start(at, &release(1));
                world
                    .testbed
                    .change(at, |slot, _| slot.running.iter_mut().for_each(|run| run.is.ready_after = 0));
            }
            Self::GateOverSilence | Self::GateOverABadRecord => {
                let is_bad = self == Self::GateOverABadRecord;
                // Repeated while the roll lasts: the instance reports again.
                world.testbed.state().facts.silent.falsify(at, is_bad);
                return None;
            }
            Self::LateFailureIsNotCounted => {
                // Repeated while the roll lasts, for the same reason.
                world.testbed.state().facts.late_failures.reported(at, Some(2), 0);
                return None;
            }
            Self::FlappingIsVerified => {
                let period = world.scenario.upgrades[0].healthy_time;
                world.testbed.change(at, |slot, _| {
                    slot.running.iter_mut().for_each(|run| run.is.health_flaps = Some(period));
                });
            }
            Self::OneOutTooMany => hide(world, at),
            Self::LetInIsTakenBack => {
                // Only what the judge saw: it came in by the last order, and was not verified in its time.
                let came_at = world.testbed.now().checked_sub(AFTER_THE_DEADLINE)?;
                was_let_in(world, at, came_at);
                hide(world, at);
            }
            Self::VerifiedIsTakenBack => {
                was_verified(world, at, world.testbed.now().checked_sub(WITHIN_THE_DEADLINE)?);
                hide(world, at);
            }
            Self::SecondProcess => drop(world.testbed.start(at, &release(2))),
            Self::SecondHook => {
                for _ in 0..2 {
                    world.testbed.begin_hook(at, "moving", "start");
                }
            }
            Self::StoppedInRotation | Self::StoppedAtWork => world.testbed.stop(at),
            Self::EndedIsNotDrained => {
                // Only what the judge saw.
                let now = world.testbed.now();
                let (ended, name) = (now.checked_sub(COUNTED)?, world.testbed.names().instance(at));
                let facts = &mut world.testbed.state().facts;
                for step in [Step::Draining, Step::Drained { forced: true }] {
                    facts.reports(now, at, Some(&step), Some(ended), &name);
                }
            }
            Self::PersonsFileIsRemoved => {
                let file = disable_file(&world.testbed.names().services[at.0]);
                world.testbed.write(at.1, &file, b"kept out by hand".to_vec()).ok()?;
                world.testbed.removed_by_agent(at.1, &file);
                return world.testbed.remove(at.1, &file).ok();
            }
            Self::OutAtTheEnd => {
                // Only what the judge saw: the instance serves, and the upgrade would not end without it.
                let out = Some((0, Cause::Misfortune("falsified")));
                world.testbed.change(at, |slot, _| slot.out = out);
            }
            _ => return None,
        }
        Some(())
    }
}

fn serving(world: &World) -> Option<At> {
    find(world, |slot| slot.serves)
}

fn find(world: &World, is: impl Fn(&Slot) -> bool) -> Option<At> {
    world.testbed.state().slots.iter().find(|(_, slot)| is(slot)).map(|(at, _)| *at)
}

/// What runs is another version, and says what it says.
fn becomes(world: &World, at: At, version: u32, says: Option<u32>) {
    world.testbed.change(at, |slot, _| {
        if let Some(run) = &mut slot.running {
            (run.is.version, run.is.says) = (version, says);
        }
    });
}

/// The judge has seen that it was ordered to let this instance in, and that it came a second later.
fn was_let_in(world: &World, at: At, came_at: u64) {
    {
        let facts = &mut world.testbed.state().facts;
        facts.let_in.insert(at);
        facts.directed.insert(at, came_at.saturating_sub(1_000));
    }
    world.testbed.change(at, |slot, _| slot.came_at = came_at);
}

/// The judge has seen that this instance came in by its last order, and was verified. Its agent would have it back until its
/// deadline and some time more.
fn was_verified(world: &World, at: At, came_at: u64) {
    let now = world.testbed.now();
    {
        let facts = &mut world.testbed.state().facts;
        facts.directed.insert(at, came_at.saturating_sub(1_000));
        facts.verified.falsify(at, now);
    }
    world.testbed.change(at, |slot, _| slot.came_at = came_at);
}

/// The disable-file of its agent appears.
fn hide(world: &World, (service, node): At) {
    let file = disable_file(&world.testbed.names().services[service]);
    let _ = world.testbed.write(node, &file, b"put by tidegate-agent".to_vec());
}
