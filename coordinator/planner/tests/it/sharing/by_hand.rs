//! What a person sets of a service that shares the schema of an upgrade.

use super::{
    acknowledge, nova, requires, runs, scheduler, set_floor, set_window, shared, version, waits_for_a_person,
    waits_for_scheduler,
};
use crate::sim::{World, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker, Refusal, WindowRequest};
use tidegate_planner::gate::Waits;
use tidegate_proto::ServiceVersion;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};

/// What a person would commit who sets the window of the scheduler.
fn asked_window(world: &World, floor: i64, ceiling: i64) -> Result<Commit, Refusal> {
    let asker = Asker { who: "op".into(), why: "all run it".into(), accepts: Default::default() };
    let request = WindowRequest { service: scheduler(), floor: version(floor), ceiling: version(ceiling) };
    ask::set_window(world.store.fleet(), &world.moment(), &request, &asker)
}

/// A store was reconciled while an instance said that it is at version 6. The upgrade that raises the floor starts under a
/// window of one version.
#[test]
fn person_lowers_the_ceiling_while_a_sharing_upgrade_waits() {
    let mut world = nova();
    set_window(&mut world, &scheduler(), 1, version(6));
    world.run();
    assert_eq!(world.run().waiting[&upgrade_id()], [waits_for_scheduler(1)]);
    let commit = asked_window(&world, 1, 1).unwrap();
    assert!(world.store.commit(&commit));
}

/// Its own upgrade was cut off, and its last former instance is gone: no upgrade raises its floor.
#[test]
fn person_raises_the_floor_that_a_sharing_upgrade_awaits() {
    let mut world = nova();
    set_window(&mut world, &scheduler(), 1, version(2));
    world.run();
    runs(&mut world, &scheduler(), 7, 2);
    assert_eq!(world.run().waiting[&upgrade_id()], [waits_for_a_person(1, 2)]);
    for (floor, ceiling) in [(2, 3), (1, 3)] {
        let refused = asked_window(&world, floor, ceiling).unwrap_err().message;
        assert!(refused.contains("it can only be narrowed meanwhile"), "{refused}");
    }
    let commit = asked_window(&world, 2, 2).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    acknowledge(&mut world, &scheduler());
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn floor_below_an_open_ceiling_is_raised_as_advised() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    set_floor(&mut world, &scheduler(), 2);
    let floors = requires(MigrateOrder::AfterRoll, &[("pantry-api", 2), ("scheduler", 3)]);
    world.start_bound(shared(json!({"shared_with": {"scheduler": 3}})), floors).unwrap();
    world.run();
    runs(&mut world, &scheduler(), 7, 3);
    let last = world.run();
    let [reason] = last.waiting[&upgrade_id()].as_slice() else { panic!("{:?}", last.waiting) };
    let explained = reason.explained(Waits::Upgrade(&upgrade_id()));
    let ceiling = ServiceVersion::MAX;
    let command = format!("tidegate fleet window scheduler --floor 3 --ceiling {ceiling} --why …");
    assert_eq!((explained.kind.as_str(), explained.next_step), ("migrate-floor", Some(command)));
    let commit = asked_window(&world, 3, i64::from(ceiling.get())).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    acknowledge(&mut world, &scheduler());
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}
