//! What never happens, whatever the order: creates, rollbacks, promotions, turns, stale commits, retries, elections,
//! and a storage upgrade that goes forward and back.

use super::fixture::{commits, stream};
use crate::sim::{World, node, spec, upgrade_id};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::ask;
use tidegate_proto::ReleaseRevision;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::release::ComputeRelease;

#[derive(Debug, Clone)]
enum Happening {
    Turn,
    Agent(usize),
    Elect,
    Create {
        version: u64,
        needs: u32,
        canary: bool,
    },
    GoBack(u64),
    Promote(u64),
    Pin(u64),
    Unpin,
    Running(u64),
    Signal(u64, bool),
    Pass(u64),
    /// A plan is kept for later.
    Keep,
    /// What was kept is carried out now, whichever coordinator led then.
    CarryOut,
    StartUpgrade,
    RollBackUpgrade,
}

fn happening() -> impl Strategy<Value = Happening> {
    let number = 1..12u64;
    prop_oneof![
        10 => Just(Happening::Turn),
        8 => (0..2usize).prop_map(Happening::Agent),
        1 => Just(Happening::Elect),
        6 => (1..8u64, 0..4u32, any::<bool>())
            .prop_map(|(version, needs, canary)| Happening::Create { version, needs, canary }),
        3 => number.clone().prop_map(Happening::GoBack),
        2 => number.clone().prop_map(Happening::Promote),
        1 => number.clone().prop_map(Happening::Pin),
        1 => Just(Happening::Unpin),
        1 => number.clone().prop_map(Happening::Running),
        2 => (number, any::<bool>()).prop_map(|(number, success)| Happening::Signal(number, success)),
        1 => (0..7_200_000u64).prop_map(Happening::Pass),
        3 => Just(Happening::Keep),
        3 => Just(Happening::CarryOut),
        1 => Just(Happening::StartUpgrade),
        1 => Just(Happening::RollBackUpgrade),
    ]
}

struct Past {
    latest: u64,
    deployed: u64,
    releases: BTreeMap<ReleaseRevision, ComputeRelease>,
}

impl Past {
    /// Revisions only rise; what a release was asked to be is never rewritten, and none vanishes.
    fn holds(&mut self, world: &World) {
        let Some(seen) = world.store.fleet().stream(&stream()) else { return };
        let latest = seen.latest.as_ref().map_or(0, |latest| latest.revision.get());
        let deployed = world.deployed().unwrap_or(0);
        assert!(latest >= self.latest && deployed >= self.deployed, "revisions only rise");
        (self.latest, self.deployed) = (latest, deployed);
        let now: BTreeMap<_, _> =
            world.releases().map(|release| (release.revision, release.clone())).collect();
        for (revision, before) in &self.releases {
            let after = &now[revision];
            let fixed = |r: &ComputeRelease| {
                (
                    r.version,
                    r.tag.clone(),
                    r.requires.clone(),
                    r.manifest,
                    r.digest,
                    r.by.clone(),
                    r.rollback_of,
                )
            };
            assert_eq!(fixed(before), fixed(after), "history is not rewritten");
            assert!(before.deployed_at.is_none() || after.deployed_at == before.deployed_at);
        }
        self.releases = now;
    }
}

fn happen(world: &mut World, happening: Happening, kept: &mut Vec<Commit>, term: &mut usize) {
    match happening {
        Happening::Turn => {
            world.turn();
            world.uncounted.clear();
        }
        Happening::Agent(n) => drop(world.agent_step(&node(n))),
        Happening::Elect => {
            *term += 1;
            world.elect(*term);
            world.uncounted.clear();
        }
        Happening::Create { version, needs, canary } => {
            let mut change = json!({"manifest": {"extensions": {"n": needs.to_string()}}});
            if needs > 0 {
                change["requires"] = json!({"pantry-api": needs});
            }
            if canary {
                change["canary"] =
                    json!({"fraction": 0.5, "promote_after": 2, "tolerate": 1, "deadline": "1h"});
            }
            drop(world.create(version, change));
        }
        Happening::GoBack(number) if world.release_record(number).is_some() => drop(world.go_back(number)),
        Happening::Promote(number) => drop(world.promote(number, None)),
        Happening::Pin(number) => drop(world.pin("c1", number)),
        Happening::Unpin => drop(world.unpin("c1")),
        // Computes run what was once let out; what else they are said to run is a fact that no gate can help.
        Happening::Running(version) => {
            let tag = format!("release-{version}");
            let latest = world.tag_record(&tag.parse().unwrap()).map(|record| record.revision.get());
            let was_out = |number| world.release_record(number).is_some_and(|r| r.deployed_at.is_some());
            if latest.is_some_and(was_out) {
                drop(world.run_computes(&[(&tag, 3)]));
            }
        }
        Happening::Signal(number, success) => {
            drop(world.signal(number, &format!("c{}", number % 3), success));
        }
        Happening::Pass(ms) => world.wait(ms),
        Happening::Keep => *kept = commits(world),
        Happening::CarryOut => {
            // The events of what was kept may have taken numbers that others took since: then it fails by those.
            for commit in kept.drain(..) {
                if world.store.commit(&commit) {
                    world.events += 50;
                    world.uncounted.clear();
                }
            }
        }
        Happening::StartUpgrade if world.upgrade().is_none() => {
            drop(world.start(spec(json!({"min_in_service": 1}))))
        }
        Happening::RollBackUpgrade => {
            let asker = super::fixture::asker("back");
            if world.upgrade().is_some_and(|upgrade| !upgrade.phase.is_over())
                && let Ok(commit) =
                    ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker)
            {
                assert!(world.store.commit(&commit));
                world.events += 1;
            }
        }
        Happening::GoBack(_) | Happening::StartUpgrade => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn one_is_deployed_and_storage_stays_above_what_is_needed(happenings in prop::collection::vec(happening(), 20..200)) {
        let mut world = World::at_version_1(2);
        let (mut kept, mut term) = (Vec::new(), 1);
        let mut past = Past { latest: 0, deployed: 0, releases: BTreeMap::new() };
        for happening in happenings {
            happen(&mut world, happening, &mut kept, &mut term);
            world.check_releases();
            past.holds(&world);
        }
        // Left alone, it comes to rest, and whatever waits has a reason.
        if world.upgrade().is_some() {
            world.run();
        }
        let waiting = world.settle();
        world.check_releases();
        past.holds(&world);
        if let Some(seen) = world.store.fleet().stream(&stream()) {
            for head in seen.pending.iter().chain(seen.canary.as_deref()) {
                let reasons = waiting.get(&head.release.revision.get());
                prop_assert!(reasons.is_some_and(|reasons| !reasons.is_empty()), "revision {} waits without a reason", head.release.revision);
            }
        }
    }
}
