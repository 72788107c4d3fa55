//! What operators do at a wrong moment.

use super::undo::Undo;
use crate::simulate::operator::{Command, Operator, within};
use crate::simulate::slot::At;
use crate::simulate::testbed::disable_file;
use crate::simulate::way_back::judge_refusal;
use crate::simulate::world::World;

pub(super) fn put_disable_file(world: &World, at: At) -> Vec<Undo> {
    let file = disable_file(&world.testbed.names().services[at.0]);
    // A full disk takes no file.
    let _ = world.testbed.write(at.1, &file, b"kept out by hand".to_vec());
    vec![Undo::Show(at)]
}

pub(super) fn remove_disable_file(world: &World, at: At) {
    world.testbed.removed_by_person(at, |_| true);
}

pub(super) async fn pause(world: &World, id: Option<String>) -> Vec<Undo> {
    let Some(id) = id else { return Vec::new() };
    let done = within(Operator::new(&world.coordinators).pause(&id)).await;
    world.testbed.log(format!("pause: {done:?}"));
    vec![Undo::Resume(id)]
}

pub(super) async fn resume(world: &World, id: &str) {
    let done = within(Operator::new(&world.coordinators).act(&Command::Resume(id.to_owned()))).await;
    world.testbed.log(format!("resume: {done:?}"));
}

pub(super) async fn roll_back(world: &World, id: Option<String>) -> Vec<Undo> {
    let Some(id) = id else { return Vec::new() };
    let done = within(Operator::new(&world.coordinators).act(&Command::RollBack(id.clone()))).await;
    if let Err(why) = &done {
        judge_refusal(world, &id, why);
    }
    world.testbed.log(format!("rollback: {done:?}"));
    Vec::new()
}

pub(super) async fn cordon(world: &World, node: usize) -> Vec<Undo> {
    let name = world.testbed.names().nodes[node].clone();
    let done = within(Operator::new(&world.coordinators).cordon(&name)).await;
    world.testbed.log(format!("cordon {name}: {done:?}"));
    vec![Undo::Uncordon(node)]
}

/// Whether the node is uncordoned now; the person tries again where it is not.
pub(super) async fn uncordon(world: &World, node: usize) -> bool {
    let name = world.testbed.names().nodes[node].clone();
    let done = within(Operator::new(&world.coordinators).act(&Command::Uncordon(name))).await;
    world.testbed.log(format!("uncordon: {done:?}"));
    let is_uncordoned = matches!(&done, Err(not_done) if not_done.why.contains("is not cordoned"));
    done.is_ok() || is_uncordoned
}

/// Commands that make no sense or were given before: each is refused, and nothing breaks.
pub(super) async fn send_wrong_commands(world: &World, id: Option<&str>, node: usize) -> Vec<Undo> {
    let Some(id) = id else { return Vec::new() };
    let node = world.testbed.names().nodes[node].as_str();
    let operator = Operator::new(&world.coordinators);
    let commands = [
        Command::Resume(id.to_owned()),
        Command::Retry(id.to_owned(), node.to_owned()),
        Command::Retry(id.to_owned(), "nowhere".to_owned()),
        Command::Approve(id.to_owned(), "roll".to_owned(), Vec::new()),
        Command::Approve(id.to_owned(), "nothing".to_owned(), Vec::new()),
        Command::Uncordon(node.to_owned()),
        Command::Resume("nothing".to_owned()),
    ];
    for command in &commands {
        let done = within(operator.act(command)).await;
        world.testbed.log(format!("{command:?}: {done:?}"));
    }
    Vec::new()
}
