//! Numbers that no store can have given: of a row or a record that was changed by hand, or is damaged.

use super::contracted::reconciled;
use super::{apply, elect};
use crate::sim::{World, spec};
use serde_json::json;
use tidegate_planner::SchemaFacts;
use tidegate_planner::ask::reconcile::Choices;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::{Key, Revision, TermId};

fn world() -> World {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world
}

fn counted_from(world: &World) -> Option<Revision> {
    world.store.fleet().reconciliation().map(|word| word.revision)
}

#[test]
fn impossible_number_of_a_database_is_no_witness() {
    let mut world = world();
    world.start(spec(json!({"min_in_service": 1, "approvals": ["stage"]}))).unwrap();
    let term: TermId = "elsewhere".parse().unwrap();
    let obeyed = |number| SchemaFacts { obeyed: Some((term.clone(), number)), ..SchemaFacts::default() };
    world.facts = Some(obeyed(Revision(i64::MAX)));
    let moment = world.moment();
    assert_eq!(tidegate_planner::gate::unreconciled(world.store.fleet(), &moment.schemas), None);
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("nothing contradicts the store"), "{refused}");
    assert_eq!(counted_from(&world), None);
    world.facts = Some(obeyed(Revision(900)));
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(counted_from(&world), Some(Revision(900)));
}

/// No term could be given to a database then, and its reason advises to reconcile the store.
#[test]
fn record_of_an_impossible_revision_is_corrected_by_a_plan() {
    let mut world = world();
    let record = Reconciliation { revision: Revision(i64::MAX), ..reconciled() };
    world.store.put(Key::Reconciliation, record);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(counted_from(&world), Some(Revision::ABSENT));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("nothing contradicts the store"), "{refused}");
}
