//! Operators who install a node again, where what is there cannot go on.

use super::agent::Agent;
use super::scenario::UpgradePlan;
use super::slot::{At, Behaviour, Running, Slot};
use super::world::World;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// What an answer says that a person may do about an instance which does not run the release before an upgrade, or whose claim
/// was disregarded and which runs a version outside the window.
const START_ANOTHER: [&str; 2] = ["start the release of `from` there", "]: start a version inside it there"];

/// What an answer says where instances run several releases of the version to which an upgrade that was cut off goes.
const CHOOSE_ONE: &str = " choose one. On each instance at `to` (";

impl World {
    /// Where a node came back after the upgrade of a service at a version that may not run any more, or nothing runs there, or
    /// what no component replaces once the store is lost, an operator reinstalls it with the lowest that runs and may run.
    pub(super) fn reinstall(&mut self, service: usize) {
        let now = self.testbed.now();
        let admitted = {
            let state = self.testbed.state();
            let facts = &state.facts.services[service];
            (!facts.upgrading).then(|| facts.admitted())
        };
        let Some(admitted) = admitted else { return };
        // Below what runs, the schema may lack the form of a version that the window admits, and no release may be left.
        let Some(first) = self.testbed.built_again(service, &admitted) else { return };
        let too_old: Vec<usize> = {
            let state = self.testbed.state();
            let nodes =
                self.scenario.services[service].nodes.iter().filter(|node| self.agents[**node].is_some());
            let slots = nodes.filter_map(|node| Some((*node, state.slots.get(&(service, *node))?)));
            let stands = |slot: &Slot| slot.alive(now).is_none_or(|run| run.is.version < *admitted.start());
            let forgot = |node: &usize| state.facts.journals_lost.contains_key(node);
            let stays = |n: &usize, slot: &Slot| self.store_lost && is_left(slot, forgot(n), &admitted, now);
            let slots = slots.filter(|(n, slot)| stands(slot) || stays(n, slot));
            slots.map(|(node, _)| node).collect()
        };
        for node in too_old {
            self.install_again((service, node), &first);
        }
    }

    /// Where the start of an upgrade is refused, and the answer asks for another release on a node that it names, an
    /// operator installs that node again with the one that runs elsewhere, or that ran there before where nothing runs elsewhere.
    /// Where the upgrade was cut off, it goes on instead.
    pub(super) fn install_former(&mut self, plan: &UpgradePlan, answer: &str) {
        let is_asked = START_ANOTHER.iter().any(|start| answer.contains(start));
        if !is_asked || answer.contains("was cut off") {
            return;
        }
        let (now, service, from) = (self.testbed.now(), plan.service, plan.from);
        let Some(former) = self.testbed.built_again(service, &(from..=from)) else { return };
        let wrong: Vec<usize> = {
            let state = self.testbed.state();
            let names = &self.testbed.names().nodes;
            let is_named = |node: &usize| answer.contains(&names[*node]);
            let running = state.slots.iter().filter(|(at, _)| at.0 == service);
            let mut running = running.filter_map(|(at, slot)| Some((at.1, &slot.alive(now)?.tag)));
            let is_elsewhere = running.clone().any(|(node, _)| !is_named(&node));
            if is_elsewhere && !running.any(|(_, tag)| *tag == former) {
                return;
            }
            let nodes = self.scenario.services[service].nodes.iter().copied();
            let nodes = nodes.filter(|node| self.agents[*node].is_some() && is_named(node));
            let slots = nodes.filter_map(|node| Some((node, state.slots.get(&(service, node))?)));
            let slots = slots.filter(|(_, slot)| is_to_be_replaced(slot, &former, &state.releases));
            slots.map(|(node, _)| node).collect()
        };
        for node in wrong {
            self.install_again((service, node), &former);
        }
    }

    /// Where the start of an upgrade that was cut off is refused because its instances run several releases of the new version,
    /// an operator chooses one and installs an instance again with it. The next follows where the answer is the same then.
    pub(super) fn install_chosen(&mut self, plan: &UpgradePlan, answer: &str) {
        if !answer.contains(CHOOSE_ONE) {
            return;
        }
        let (now, service, to) = (self.testbed.now(), plan.service, plan.from + 1);
        let found = {
            let state = self.testbed.state();
            let reports = |at: &At| at.0 == service && self.agents[at.1].is_some();
            let running = state.slots.iter().filter(|(at, _)| reports(at));
            let running = running.filter_map(|(at, slot)| Some((at.1, slot.alive(now)?)));
            let ahead: Vec<(usize, &Running)> = running.filter(|(_, run)| run.is.version == to).collect();
            chosen(&ahead).map(|(release, node)| (release.to_owned(), node))
        };
        if let Some((release, node)) = found {
            self.install_again((service, node), &release);
        }
    }

    /// Where a reason says of instances whose claim was disregarded that no plan includes what runs there, because it is outside
    /// the new window, an operator installs them again with the lowest version inside it that runs elsewhere.
    pub(super) fn install_inside(&mut self, reason: &str) {
        let Some((service, admitted, named)) = outside_the_new_window(reason) else { return };
        let Some(service) = self.testbed.names().service(service) else { return };
        let Some(release) = self.testbed.built_again(service, &admitted) else { return };
        let wrong: Vec<usize> = {
            let (now, state) = (self.testbed.now(), self.testbed.state());
            let names = &self.testbed.names().nodes;
            let nodes = self.scenario.services[service].nodes.iter().copied();
            let nodes = nodes
                .filter(|node| self.agents[*node].is_some() && named.contains(names[*node].as_str()))
                .filter_map(|node| Some((node, state.slots.get(&(service, node))?)));
            let nodes = nodes.filter(|(_, slot)| is_kept_outside(slot, &admitted, now));
            nodes.map(|(node, _)| node).collect()
        };
        for node in wrong {
            self.install_again((service, node), &release);
        }
    }

    /// A service of a node is installed again: nothing of it is left, neither its process nor the journal of its agent. The
    /// machine is booted, with what else runs on it: in one boot of the machine the agent names what answers the version of the
    /// last admission by that admission, and what was admitted may have answered another version than its own.
    fn install_again(&mut self, at: At, release: &str) {
        let (service, node) = at;
        let now = self.testbed.now();
        self.testbed.state().facts.agent_ended(node, now);
        let agents = self.agents[node].take().into_iter().chain(self.impostors[node].take());
        agents.for_each(Agent::kill);
        self.testbed.log(format!("{} is built again with {release}", self.testbed.names().instance(at)));
        let services = self.services_on(node);
        services.iter().for_each(|of| self.testbed.loses_power((*of, node)));
        self.testbed.end_boot(node);
        let journals = Path::new("/var/agent").join(&self.scenario.services[service].name);
        self.testbed.state().disks[node].files.retain(|path, _| !path.starts_with(&journals));
        self.without_journal.insert(at);
        self.testbed.change(at, |slot, _| {
            slot.staged.insert(release.to_owned());
            (slot.last, slot.came_with) = (Some(release.to_owned()), Some(release.to_owned()));
            // What its agent saw or said before is no evidence of what runs from now on.
            (slot.named_alone, slot.release_since) = (None, now);
        });
        services.iter().for_each(|of| self.testbed.boots((*of, node)));
        self.start_agent(node);
    }
}

/// Whether no component replaces what runs once the store is lost: it never answers, or is out of rotation outside the window,
/// where a plan to reconcile has disregarded it. No gate counts its version.
fn is_left(slot: &Slot, journal_lost: bool, admitted: &RangeInclusive<u32>, now: u64) -> bool {
    never_replaced(slot, journal_lost, now) || is_kept_outside(slot, admitted, now)
}

/// Whether what runs never answers, and no component replaces it once the store is lost: its agent has lost its journal, or
/// the node joined with it, so that the journal has no former release.
fn never_replaced(slot: &Slot, journal_lost: bool, now: u64) -> bool {
    let joined_with_it = slot.alive(now).is_some_and(|run| slot.came_with.as_ref() == Some(&run.tag));
    slot.never_answers(now) && (journal_lost || joined_with_it)
}

/// Whether another release is installed there, of another version or one that does not work, and is out of rotation. What a
/// person put there for a while is not installed.
fn is_to_be_replaced(slot: &Slot, former: &str, releases: &BTreeMap<String, Behaviour>) -> bool {
    let version = |tag: &str| releases.get(tag).map(|is| is.version);
    let installed = slot.last.as_deref().filter(|tag| *tag != former);
    let is_wrong = |tag: &str| {
        version(tag) != version(former) || releases.get(tag).is_some_and(|is| *is != is.corrected())
    };
    !slot.serves && slot.hooks.is_empty() && installed.is_some_and(is_wrong)
}

/// Of releases that run, the one that most instances run, of those that work where one does; and the first node with another.
fn chosen<'a>(running: &[(usize, &'a Running)]) -> Option<(&'a str, usize)> {
    let count = |tag: &str| running.iter().filter(|(_, run)| run.tag == tag).count();
    let most = running.iter().max_by_key(|(_, run)| (run.is == run.is.corrected(), count(&run.tag)));
    let release = most.map(|(_, run)| run.tag.as_str())?;
    let (node, _) = running.iter().find(|(_, run)| run.tag != release)?;
    Some((release, *node))
}

/// The service, the window and the instances of a reason which says that a plan cannot include these, because of what runs
/// there.
fn outside_the_new_window(reason: &str) -> Option<(&str, RangeInclusive<u32>, &str)> {
    let (claims, outside) = reason.split_once(", which is refused while version ")?;
    let (service, _) = claims.split_once(": the claims of these instances ")?;
    let (_, window) = outside.split_once(", outside the new window [")?;
    let (window, named) = window.split_once("]: ")?;
    let (floor, ceiling) = window.split_once(", ")?;
    Some((service, floor.parse().ok()?..=ceiling.parse().ok()?, named))
}

/// Whether what runs is out of rotation at a version that a window does not admit, and no hook moves it.
fn is_kept_outside(slot: &Slot, admitted: &RangeInclusive<u32>, now: u64) -> bool {
    let is_outside = slot.alive(now).is_some_and(|run| !admitted.contains(&run.is.version));
    is_outside && !slot.serves && slot.hooks.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::slot::HookRun;
    use crate::simulate::world::tag;
    use std::time::Duration;
    use tidegate_planner::Reason;
    use tidegate_planner::gate::{Inclusion, Sample, StoreGate, VersionGate};
    use tidegate_proto::{ServiceName, ServiceVersion};

    #[test]
    fn newcomer_that_never_answers_has_no_former_release() {
        let never_starts = Behaviour { starts: false, ..Behaviour::good(2, 600) };
        let replaced = |is: &Behaviour, came_with: Option<&str>, journal_lost: bool| {
            let run =
                Running { tag: "pantry-2".to_owned(), is: is.clone(), since: 0, pid: 1, put_back: false };
            let came_with = came_with.map(str::to_owned);
            !never_replaced(&Slot { running: Some(run), came_with, ..Slot::default() }, journal_lost, 9_000)
        };
        assert!(!replaced(&never_starts, Some("pantry-2"), false), "its node joined with it");
        assert!(!replaced(&never_starts, None, true), "its agent has lost its journal");
        assert!(replaced(&never_starts, None, false), "its agent has the former release");
        assert!(replaced(&never_starts, Some("pantry-1"), false), "its node joined with the former release");
        assert!(replaced(&Behaviour::good(2, 600), Some("pantry-2"), true), "it answers");
    }

    /// Its agent lied long before, and a second one runs beside it.
    #[tokio::test(start_paused = true)]
    async fn node_that_is_installed_again_is_judged_from_then_on() {
        let directory = tempfile::tempdir().unwrap();
        let mut world = World::bare(directory.path()).await;
        let (at, service) = ((0, 0), &mut world.scenario.services[0]);
        service.nodes.push(at.1);
        let release = tag(&service.name, 1);
        world.testbed.start(at, &release);
        world.testbed.state().facts.byzantine.insert(at.1, 1_000);
        tokio::time::advance(Duration::from_secs(300)).await;
        world.start_agent(at.1);
        world.start_impostor(at.1);
        let is_unknown = |world: &World| {
            let state = world.testbed.state();
            state.facts.is_unknown(at, &state.slots[&at])
        };
        assert!(is_unknown(&world), "its agent lied after its release began to run");
        world.install_again(at, &release);
        assert!(!is_unknown(&world));
        assert!(world.impostors[at.1].is_none() && world.agents[at.1].is_some());
        let away = world.testbed.state().facts.agents_away.get(&at.1).copied();
        assert_eq!(away, Some(world.testbed.now()), "another agent runs from now on");
    }

    #[test]
    fn only_a_wrong_release_out_of_rotation_is_replaced() {
        let crashes = Behaviour { crashes_after: Some(1_000), ..Behaviour::good(2, 600) };
        let releases = BTreeMap::from([
            ("pantry-1".to_owned(), Behaviour::good(1, 600)),
            ("pantry-2".to_owned(), crashes),
            ("pantry-2-mended".to_owned(), Behaviour::good(2, 600)),
        ]);
        let replaced = |installed: &str, former: &str, change: fn(&mut Slot)| {
            let mut slot = Slot { last: Some(installed.to_owned()), ..Slot::default() };
            change(&mut slot);
            is_to_be_replaced(&slot, former, &releases)
        };
        assert!(replaced("pantry-2", "pantry-2-mended", |_| ()), "it does not work");
        assert!(replaced("pantry-2-mended", "pantry-1", |_| ()), "it is of another version");
        assert!(!replaced("pantry-2-mended", "pantry-2", |_| ()), "it works");
        assert!(!replaced("pantry-2", "pantry-2", |_| ()), "no other one is there");
        assert!(!replaced("pantry-2", "pantry-1", |slot| slot.serves = true), "it is in rotation");
        let hook = |slot: &mut Slot| {
            slot.hooks.insert("moving", HookRun { id: 1, name: "start".to_owned() });
        };
        assert!(!replaced("pantry-2", "pantry-1", hook), "its agent moves it");
    }

    #[test]
    fn release_that_most_instances_run_and_that_works_is_chosen() {
        let run =
            |tag: &str, is: Behaviour| Running { tag: tag.to_owned(), is, since: 0, pid: 1, put_back: false };
        let [first, mended] = ["pantry-2", "pantry-2-mended"].map(|tag| run(tag, Behaviour::good(2, 600)));
        let flaps = run("pantry-2", Behaviour { flaps: Some(1_000), ..Behaviour::good(2, 600) });
        let of = |running: [&Running; 3]| {
            let running: Vec<(usize, &Running)> = running.into_iter().enumerate().collect();
            chosen(&running).map(|(release, node)| (release.to_owned(), node))
        };
        let is = |release: &str, node: usize| Some((release.to_owned(), node));
        assert_eq!(of([&first, &mended, &mended]), is("pantry-2-mended", 0));
        assert_eq!(of([&first, &first, &mended]), is("pantry-2", 2));
        assert_eq!(of([&flaps, &flaps, &mended]), is("pantry-2-mended", 0), "the other one does not work");
        assert_eq!(of([&mended, &mended, &mended]), None, "all run one release");
    }

    /// A node joined with the new version, and a plan to reconcile has disregarded it.
    #[test]
    fn newcomer_above_a_reconciled_window_is_replaced() {
        let replaced = |version: u32, serves: bool| {
            let (tag, is) = (format!("pantry-{version}"), Behaviour::good(version, 600));
            let came_with = Some(tag.clone());
            let run = Running { tag, is, since: 0, pid: 1, put_back: false };
            let slot = Slot { running: Some(run), came_with, serves, ..Slot::default() };
            is_left(&slot, false, &(2..=2), 9_000)
        };
        assert!(replaced(3, false));
        assert!(!replaced(3, true), "it is in rotation");
        assert!(!replaced(2, false), "the window admits it");
    }

    #[test]
    fn window_of_what_no_plan_includes_is_read_from_the_reason() {
        let nodes = || Sample { first: vec!["n03".parse().unwrap()], count: 1 };
        let service = || -> ServiceName { "pantry".parse().unwrap() };
        let version = |number: i64| ServiceVersion::new(number).unwrap();
        let said = |inclusion: Inclusion| {
            Reason::Store(StoreGate::Disregarded { service: service(), nodes: nodes(), inclusion })
                .to_string()
        };
        let (version, floor, ceiling) = (version(1), version(2), version(3));
        let outside = said(Inclusion::Outside { version, floor, ceiling, rolled_back: false });
        assert_eq!(outside_the_new_window(&outside), Some(("pantry", 2..=3, "n03")));
        assert_eq!(outside_the_new_window(&said(Inclusion::Open)), None, "a plan includes it");
        let unknown = Reason::Version(VersionGate::VersionUnknown { service: service(), nodes: nodes() });
        assert_eq!(outside_the_new_window(&unknown.to_string()), None, "it says nothing of a plan");
    }

    #[test]
    fn only_what_is_out_of_rotation_outside_a_window_is_replaced() {
        let replaced = |version: u32, change: fn(&mut Slot)| {
            let is = Behaviour::good(version, 600);
            let run = Running { tag: "pantry".to_owned(), is, since: 0, pid: 1, put_back: false };
            let mut slot = Slot { running: Some(run), ..Slot::default() };
            change(&mut slot);
            is_kept_outside(&slot, &(2..=3), 9_000)
        };
        assert!(replaced(1, |_| ()) && replaced(4, |_| ()));
        assert!(!replaced(2, |_| ()), "a plan includes it");
        assert!(!replaced(1, |slot| slot.serves = true), "it is in rotation");
        assert!(!replaced(1, |slot| slot.running = None), "nothing runs");
    }
}
