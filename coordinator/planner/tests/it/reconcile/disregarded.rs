//! A claim that a person has disregarded, after the store has come to later revisions.

use super::{apply, disregard, include, version, with_a_false_claim};
use crate::sim::{World, node, service, upgrade_id};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision};

/// The window has a later revision than the one that was claimed, and the agent reports once more.
fn catch_up(world: &mut World) {
    world.store.revision = 1_000;
    let window = Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None };
    world.store.put(Key::Window(service()), window);
    world.agents.get_mut(&node(1)).unwrap().report.in_flight = Some(0);
    world.publish(&node(1));
}

fn disregarded(world: &World) -> Vec<String> {
    let disregarded = world.store.fleet().disregarded();
    disregarded.map(|(_, instance, against)| format!("{} {against}", instance.node)).collect()
}

/// It obeyed a window of revision 900, and nothing else shows that the store was behind it.
fn with_a_disregarded_window() -> World {
    let mut world = with_a_false_claim(900);
    let witness = &mut world.agents.get_mut(&node(1)).unwrap().report.witness;
    (witness.term, witness.floor) = (None, Some(version(1)));
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    world
}

#[test]
fn disregarded_claim_stands_once_the_store_has_caught_up() {
    let mut world = with_a_disregarded_window();
    catch_up(&mut world);
    let named = disregarded(&world);
    assert!(
        matches!(&named[..], [one] if one.contains("had obeyed revision 900 when the store was reconciled")),
        "{named:?}"
    );
    assert_eq!(world.store.fleet().contradicted_by().count(), 0, "it stops nothing");
    apply(&mut world, &include(&[1])).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    assert!(word.disregarded.is_empty() && word.revision == Revision(900), "{word:?}");
    assert!(disregarded(&world).is_empty());
}

#[test]
fn overtaken_claim_ends_with_a_reset_of_the_agent() {
    let mut world = with_a_disregarded_window();
    catch_up(&mut world);
    world.agents.get_mut(&node(1)).unwrap().report.window = Revision::ABSENT;
    world.publish(&node(1));
    assert!(disregarded(&world).is_empty());
}
