//! How operators follow what `explain` advises: as a person who knows which faults are active.

use super::accepting::{OldPrograms, says_none_is_old};
use super::by_hand;
use super::current::{Current, MISFORTUNE};
use super::fault::version;
use super::form_look;
use super::operator::{Command, Operator, understood, within};
use super::scenario::{ReleasePlan, UpgradePlan};
use super::slot::Slot;
use super::tamper;
use super::way_back::judge_refusal;
use super::world::{World, tag};
use tidegate_migrations::Owner;
use tidegate_proto::wire::v1::{RecordGateRequest, RunningInstance};
use tidegate_proto::{GateTag, ServiceVersion};

/// After so many resumptions people go back.
const RESUMPTIONS: u32 = 2;

/// Follows an advice, where a person who knows the world would; whether something was done.
pub(super) async fn advised(world: &mut World, current: &mut Current, kind: &str, command: &Command) -> bool {
    let plan = &world.scenario.upgrades[current.plan];
    if is_false_statement(world, plan, command) {
        return false;
    }
    let bad = !current.is_retry && !matches!(plan.release, ReleasePlan::Good | ReleasePlan::Slow);
    let command = match command {
        Command::Reconcile(included) => {
            // Of a node that lies nothing is believed.
            if included.iter().any(|instance| is_of_byzantine(world, instance)) {
                return false;
            }
            return reconcile(world, included.clone()).await;
        }
        Command::Schema(from, to, made_by) => {
            let (of, owner) = ((plan.service, plan.from + 1), Owner::upgrade(made_by));
            let done = made_again(world, of, (from.get(), to.get()), owner).await;
            world.testbed.log(format!("{kind}: {command:?}: {done:?}"));
            return done.is_ok();
        }
        Command::SchemaUpTo(to) => {
            let of = (plan.service, plan.from + 1);
            let done = made_again(world, of, (0, to.get()), Owner::by_hand()).await;
            world.testbed.log(format!("{kind}: {command:?}: {done:?}"));
            return done.is_ok();
        }
        Command::Record(from, to) => return record(world, current, (from, to)).await,
        Command::Look | Command::Window(..) | Command::Other(_) => return false,
        Command::Decommission(instance) if !is_known_gone(world, instance) => return false,
        Command::Uncordon(node) if !is_left_cordoned(world, current, node) => return false,
        Command::Decommission(_) | Command::Uncordon(_) => command.clone(),
        Command::Resume(id) if bad || current.resumptions >= RESUMPTIONS => Command::RollBack(id.clone()),
        Command::Resume(_) => {
            current.resumptions += 1;
            command.clone()
        }
        Command::Approve(..) | Command::Retry(..) | Command::DeclareStopped(..) | Command::RollBack(_) => {
            command.clone()
        }
    };
    // What waits by itself for something that passes is left alone while things go wrong.
    if matches!(command, Command::RollBack(_)) && kind == "stalled" && !bad {
        let now = world.testbed.now();
        if now < current.since + MISFORTUNE {
            return false;
        }
    }
    let done = within(Operator::new(&world.coordinators).act(&command)).await;
    // Contract has started, so a rollback is refused, and the advice is to resume.
    let done = match (&command, done) {
        (Command::RollBack(id), Err(not_done)) => {
            world.testbed.log(format!("rollback of {id}: {}", not_done.why));
            judge_refusal(world, id, &not_done);
            if not_done.is_final() {
                // What is wrong with it is corrected where it runs.
                let plan = &world.scenario.upgrades[current.plan];
                world.testbed.correct(&tag(&world.scenario.services[plan.service].name, plan.from + 1));
            }
            let again = Command::Resume(id.clone());
            within(Operator::new(&world.coordinators).act(&again)).await
        }
        (_, done) => done,
    };
    world.testbed.log(format!("{kind}: {command:?}: {done:?}"));
    if let (Command::Uncordon(node), Ok(_)) = (&command, &done) {
        world.operators.uncordoned(node);
    }
    done.is_ok()
}

/// Runs migrations of a service again that its database lacks, during its upgrade to `version`.
async fn made_again(
    world: &mut World,
    (service, version): (usize, u32),
    hop: (u32, u32),
    owner: Owner,
) -> Result<String, String> {
    let schema = world.scenario.owned_schema(service).ok_or("the service has no schema of its own")?;
    // What was drained before is judged by the form before.
    form_look::look(world, service, version).await;
    let done = by_hand::expand_and_migrate(world, schema, hop, owner).await;
    if let Err(why) = &done {
        undo_ended_by_hand(world, service, why).await;
    }
    form_look::look(world, service, version).await;
    done
}

/// Whether a node may be cordoned although each person uncordons it at the end of what they do: a store that was restored
/// may not know that, and a cordon whose answer was not waited for may be carried out later.
fn is_left_cordoned(world: &World, current: &Current, node: &str) -> bool {
    let is_over = world.testbed.now() >= current.since + MISFORTUNE;
    is_over && (world.store_lost || world.operators.may_have_cordoned(node))
}

/// Whether an approval says that no old program is connected, and one is.
fn is_false_statement(world: &World, plan: &UpgradePlan, command: &Command) -> bool {
    let Command::Approve(_, phase, accepts) = command else { return false };
    says_none_is_old(phase, accepts) && OldPrograms::of(&world.scenario, plan).run(&world.testbed)
}

/// The command of a next step as a person gives it who has looked at the node: a service that has stopped is declared so
/// where the next step has that.
pub(super) fn as_seen(world: &World, current: &Current, next_step: &str) -> Command {
    match understood(next_step) {
        Command::Retry(id, node)
            if next_step.contains("--declare-stopped") && stands_still(world, current, &node) =>
        {
            Command::DeclareStopped(id, node)
        }
        other => other,
    }
}

fn stands_still(world: &World, current: &Current, node: &str) -> bool {
    let Some(node) = world.testbed.names().node(node) else { return false };
    let service = world.scenario.upgrades[current.plan].service;
    let (now, state) = (world.testbed.now(), world.testbed.state());
    state.slots.get(&(service, node)).is_none_or(|slot| slot.stands_still(now))
}

/// Records what the gate jobs of an upgrade found between two artifacts: rolling fails the first time.
async fn record(world: &World, current: &mut Current, (from, to): (&str, &str)) -> bool {
    let plan = &world.scenario.upgrades[current.plan];
    let mut done = true;
    for tag in &plan.requires_gate {
        let fails = *tag == GateTag::Rolling && !current.gate_failed;
        let verdict = RecordGateRequest {
            service: world.scenario.services[plan.service].name.clone(),
            tag: tag.to_string(),
            from: plan.from,
            to: plan.from + 1,
            from_sha256: from.to_owned(),
            to_sha256: to.to_owned(),
            verdict: if fails { "fail" } else { "pass" }.to_owned(),
            who: "build".to_owned(),
            ..Default::default()
        };
        let recorded = within(Operator::new(&world.coordinators).record(verdict)).await;
        world.testbed.log(format!("{tag} of {}: {recorded:?}", current.id));
        done &= recorded.is_ok();
    }
    current.gate_failed |= done;
    done
}

pub(super) fn is_of_another_database(what: &str) -> bool {
    what.contains("restore the database") || what.contains("it was restored, or the URL")
}

/// A database that is an older copy: people go back where that is possible, and else find the right one. Where it is back
/// already, the coordinator has not looked since.
pub(super) async fn restored(world: &mut World, current: &Current, what: &str) {
    let command = Command::RollBack(current.id.clone());
    let done = within(Operator::new(&world.coordinators).act(&command)).await;
    world.testbed.log(format!("the database is older: {command:?}: {done:?}"));
    let schema = world.scenario.owned_schema(world.scenario.upgrades[current.plan].service);
    let Some(schema) = schema else { return };
    if done.is_ok() {
        if let Err(error) = world.databases[schema].stays_older() {
            world.testbed.log(format!("the newest database cannot be kept: {error}"));
        }
    } else {
        let (now, database) = (world.testbed.now(), &mut world.databases[schema]);
        if database.is_named_in(what).await {
            return;
        }
        match database.put_right_one_back(what, now).await {
            Ok(true) => world.testbed.log("the database in use before is put back"),
            Ok(false) => {}
            Err(error) => world.testbed.log(format!("the right one is not found: {error}")),
        }
    }
}

/// Whether people decommission an instance: its node is known to be switched off, or its agent lies.
pub(super) fn is_known_gone(world: &World, instance: &str) -> bool {
    node_of(world, instance).is_some_and(|node| world.left.contains(&node))
        || is_of_byzantine(world, instance)
}

/// Whether an instance is on a node whose agent lies, as people find out.
fn is_of_byzantine(world: &World, instance: &str) -> bool {
    node_of(world, instance).is_some_and(|node| world.byzantine.contains(&node))
}

fn node_of(world: &World, instance: &str) -> Option<usize> {
    let (_, node) = instance.split_once('/')?;
    world.testbed.names().node(node)
}

/// Reconciles a store where that is what an answer asks for, with the instances that it says to include.
pub(super) async fn reconciled(world: &World, answer: &str) {
    if answer.contains("fleet reconcile") {
        reconcile(world, included_by(answer)).await;
    }
}

/// The instances that an answer names behind `--include`.
fn included_by(answer: &str) -> Vec<String> {
    let words: Vec<&str> = answer.split_whitespace().collect();
    let named = words.windows(2).filter(|pair| pair[0] == "--include");
    let instances = named.map(|pair| pair[1].trim_matches(|c: char| !c.is_alphanumeric()).to_owned());
    instances.filter(|instance| instance.contains('/')).collect()
}

/// Puts a record back once more that an answer names as unreadable: a restored store has it as it was while it could not be
/// read.
pub(super) async fn put_back(world: &World, answer: &str) {
    // What is to be done first is done first.
    if answer.contains("fleet reconcile") {
        return;
    }
    for spoilt in &world.put_back {
        if answer.contains(&format!("the record {} ", spoilt.key)) {
            tamper::put_back(world, spoilt).await;
        }
    }
}

/// Whether the store is reconciled.
async fn reconcile(world: &World, taken_up: Vec<String>) -> bool {
    let lies = |instance: &str| is_of_byzantine(world, instance);
    let stays_out = |running: &RunningInstance| stays_out(world, running);
    let done = within(Operator::new(&world.coordinators).reconcile(taken_up, lies, stays_out)).await;
    world.testbed.log(format!("reconcile: {done:?}"));
    // The plan is made once a record that it depends on can be read.
    if let Err(why) = &done {
        put_back(world, why).await;
        version::answered(world, why);
        rolled_back(world, why).await;
    }
    done.is_ok()
}

/// Rolls back the upgrades that a refused plan names: the store was restored to before their rollback.
async fn rolled_back(world: &World, answer: &str) {
    for command in rollbacks_in(answer) {
        let done = within(Operator::new(&world.coordinators).act(&command)).await;
        world.testbed.log(format!("{command:?}: {done:?}"));
    }
}

/// The rollbacks that an answer names; one for all instances of a service.
fn rollbacks_in(answer: &str) -> Vec<Command> {
    let commands = answer.split('`').map(understood);
    let mut rollbacks: Vec<Command> =
        commands.filter(|command| matches!(command, Command::RollBack(_))).collect();
    rollbacks.dedup();
    rollbacks
}

/// Whether people name an instance with `--disregard` where a plan cannot be applied because of it: it answers nothing, its
/// node joined with a release of its own, or it is out of rotation at a version that the new window does not admit. Where
/// they put that version back themselves, they start the right one instead.
fn stays_out(world: &World, running: &RunningInstance) -> bool {
    let names = world.testbed.names();
    let Some((service, node)) = running.instance.split_once('/') else { return false };
    let Some(at) = names.service(service).zip(names.node(node)) else { return false };
    let (now, state) = (world.testbed.now(), world.testbed.state());
    state.slots.get(&at).is_none_or(|slot| is_disregarded(slot, running, now))
}

fn is_disregarded(slot: &Slot, running: &RunningInstance, now: u64) -> bool {
    let is_put_back = slot.alive(now).is_some_and(|run| run.put_back);
    let came_otherwise = slot.came_with.is_some() || running.version.is_some() && !slot.serves;
    slot.said_version(now).is_none() || came_otherwise && !is_put_back
}

/// Rows came after the fill of a migration that no upgrade has ended with, and the answer names the command that fills
/// them.
pub(super) async fn filled_by_hand(world: &World, service: usize, answer: &str) {
    let Some((before, _)) = answer.split_once("` fills them") else { return };
    let to = before.rsplit_once("tidegate schema migrate --to ").and_then(|(_, rest)| rest.split(' ').next());
    let to = to.and_then(|to| to.parse().ok()).and_then(|to: i64| ServiceVersion::new(to).ok());
    let (Some(to), Some(schema)) = (to, world.scenario.owned_schema(service)) else { return };
    let done = by_hand::migrate_up_to(world, schema, to).await;
    world.testbed.log(format!("rows are filled up to version {to}: {done:?}"));
}

/// An undo has begun and not ended, as where the store was replaced during it, and the answer names the command that ends it.
pub(super) async fn undo_ended_by_hand(world: &World, service: usize, answer: &str) {
    let Some((migration, made_by)) = begun_undo(answer) else { return };
    let Some(schema) = world.scenario.owned_schema(service) else { return };
    let done = by_hand::end_undo(world, schema, migration, made_by).await;
    world.testbed.log(format!("the undo of {migration} is ended: {done:?}"));
}

/// The migration whose undo a text says has begun, and the upgrade in whose name its command ends it.
fn begun_undo(answer: &str) -> Option<(&str, Option<&str>)> {
    let mut named =
        answer.split('`').filter_map(|part| part.strip_prefix("tidegate schema undo --migration "));
    let mut words = named.next()?.split(' ');
    let migration = words.next()?;
    Some((migration, words.skip_while(|word| *word != "--made-by").nth(1)))
}

#[cfg(test)]
mod tests {
    use super::{begun_undo, included_by, is_disregarded, rollbacks_in};
    use crate::simulate::operator::Command;
    use crate::simulate::slot::{Behaviour, Running, Slot};
    use tidegate_proto::wire::v1::RunningInstance;

    #[test]
    fn version_put_back_on_a_reinstalled_node_is_claimed() {
        let disregarded = |put_back: bool, starts: bool, change: fn(&mut Slot)| {
            let is = Behaviour { starts, ..Behaviour::good(1, 0) };
            let run = Running { tag: "pantry-1".to_owned(), is, since: 0, pid: 1, put_back };
            let mut slot = Slot { running: Some(run), serves: true, ..Slot::default() };
            change(&mut slot);
            let running =
                RunningInstance { instance: "pantry/n0".to_owned(), version: Some(1), refused: None };
            is_disregarded(&slot, &running, 1_000)
        };
        let is_reinstalled = |slot: &mut Slot| slot.came_with = Some("pantry-1".to_owned());
        let is_out = |slot: &mut Slot| slot.serves = false;
        assert!(disregarded(false, true, is_reinstalled), "it came with that release");
        assert!(disregarded(false, true, is_out), "it came too old");
        assert!(!disregarded(false, true, |_| ()), "it serves");
        assert!(!disregarded(true, true, is_reinstalled), "a person starts the right version");
        assert!(!disregarded(true, true, is_out), "a person starts the right version");
        assert!(disregarded(true, false, is_reinstalled), "it answers nothing");
    }

    #[test]
    fn command_that_ends_an_undo_is_read_from_the_answer() {
        let said = |made_by: &str| {
            format!(
                "its undo has begun and not ended; run `tidegate schema undo --migration 0002_pantry{made_by} --nothing-new-runs --migrations DIR` first"
            )
        };
        assert_eq!(begun_undo(&said(" --made-by u0")), Some(("0002_pantry", Some("u0"))));
        assert_eq!(begun_undo(&said("")), Some(("0002_pantry", None)));
        assert_eq!(begun_undo("`tidegate schema migrate --to 2 --migrations DIR` fills them"), None);
    }

    #[test]
    fn each_rollback_that_a_refused_plan_names_is_read_once() {
        let refused = |node: &str, id: &str| {
            format!(
                "pantry/{node}: it runs version 1, outside the new window [2, 2]; if upgrade {id} was rolled \
                 back in the former store, roll it back first: `tidegate upgrade rollback {id} --why …`"
            )
        };
        let answer = [refused("n00", "u0"), refused("n01", "u0"), refused("n00", "u1")].join("; ");
        let named = ["u0", "u1"].map(|id| Command::RollBack(id.to_owned()));
        assert_eq!(rollbacks_in(&answer), named);
        assert!(rollbacks_in("`tidegate fleet reconcile` shows the plan").is_empty());
    }

    #[test]
    fn instances_behind_include_are_read_from_an_answer() {
        let answer = "the version is not known on: n03; the claim of pantry/n03 was disregarded: `tidegate fleet \
                      reconcile --include pantry/n03`; and of pantry/n04: `tidegate fleet reconcile --include pantry/n04`";
        assert_eq!(included_by(answer), ["pantry/n03", "pantry/n04"]);
        assert!(included_by("`tidegate fleet reconcile` shows the plan").is_empty());
        assert!(included_by("name the instance with --include or --disregard").is_empty());
        assert!(included_by("apply that, with the same --disregard and --include").is_empty());
    }
}
