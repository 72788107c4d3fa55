//! What people do where the start of an upgrade is refused, as where the store was lost with the upgrade that it held.

use super::judge::ServiceFacts;
use super::operator::{Command, Operator, understood, within};
use super::testbed::Testbed;
use super::world::World;

/// What comes of a start that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is tried again.
    Again,
    /// Every instance runs what it goes to, and its floor is committed; where the store was lost and no other upgrade waits for
    /// that floor, also without it.
    Done,
}

/// After so many refusals each person who had cordoned a node has uncordoned it, as far as they know.
const ALL_UNCORDONED: u32 = 8;

/// Does what the refusal names, and says how it goes on; `refusals` = how often the start was refused.
pub(super) async fn refused(
    world: &mut World,
    service: usize,
    to: u32,
    (why, refusals): (&str, u32),
) -> Refused {
    if refusals >= ALL_UNCORDONED {
        uncordon(world, why).await;
    }
    if has_form(world, service, why).await {
        set_window(world, why).await;
    }
    world.goes_on_with.extend(release_in(why).map(|tag| (service, tag)));
    let needs_floor = !world.store_lost || world.scenario.is_waited_for(service);
    by_what_runs(&world.testbed, service, to, needs_floor)
}

/// How it goes on, by what runs and what is committed.
fn by_what_runs(testbed: &Testbed, service: usize, to: u32, needs_floor: bool) -> Refused {
    let (now, state) = (testbed.now(), testbed.state());
    let mut running = state.slots.iter().filter(|((of, _), _)| *of == service);
    let everywhere = running.all(|(_, slot)| slot.alive(now).is_some_and(|run| run.is.version == to));
    let is_enough = !needs_floor || has_floor(&state.facts.services[service], to);
    match everywhere && is_enough {
        true => Refused::Done,
        false => Refused::Again,
    }
}

/// Whether the store has a window of the service that admits nothing below a version. An agent that carries out
/// a directive of a rollback from before the store was lost goes on with it, although the new version still runs.
fn has_floor(facts: &ServiceFacts, version: u32) -> bool {
    let window = facts.windows.last().filter(|_| !facts.has_no_window);
    window.is_some_and(|(_, floor, _)| *floor >= version)
}

/// Whether the database has what a version uses, where the refusal says that it must before a window admits that version
/// alone.
async fn has_form(world: &mut World, service: usize, why: &str) -> bool {
    let schema = world.scenario.owned_schema(service);
    let Some((version, schema)) = form_in(why).zip(schema) else { return true };
    let unfilled = world.scenario.schemas[schema].meets_unfilled(version);
    let read = world.databases[schema].read_all(version, unfilled).await;
    if let Err(wrong) = &read {
        world.testbed.log(format!("the database lacks what version {version} uses: {}", wrong.0));
    }
    read.is_ok()
}

/// The version whose form a refusal says that the database must have.
fn form_in(why: &str) -> Option<u32> {
    let (_, version) = why.split_once("the database has what version ")?;
    version.split_once(' ')?.0.parse().ok()
}

/// The release that a refusal names as that of an upgrade which was cut off.
fn release_in(why: &str) -> Option<String> {
    let (_, named) = why.split_once("with the release that it had: start it with ")?;
    Some(named.split([' ', ';', ',']).next()?.to_owned())
}

/// Sets the window as the refusal says: `tidegate fleet window …`.
async fn set_window(world: &World, why: &str) {
    let Some(command) = window_in(why, world.store_lost) else { return };
    let done = within(Operator::new(&world.coordinators).act(&command)).await;
    world.testbed.log(format!("{command:?}: {done:?}"));
}

/// Uncordons the nodes that the refusal names, where a restored store may have them cordoned again, or a cordon was carried
/// out whose answer was not waited for.
async fn uncordon(world: &World, why: &str) {
    for node in cordoned_in(why) {
        if !world.store_lost && !world.operators.may_have_cordoned(node) {
            continue;
        }
        let command = Command::Uncordon(node.to_owned());
        let done = within(Operator::new(&world.coordinators).act(&command)).await;
        world.testbed.log(format!("{command:?}: {done:?}"));
        if done.is_ok() {
            world.operators.uncordoned(node);
        }
    }
}

/// The nodes that a refusal names as cordoned.
fn cordoned_in(why: &str) -> Vec<&str> {
    let Some((_, named)) = why.split_once("in maintenance (uncordon it first): ") else { return Vec::new() };
    let nodes = named.split(';').next().unwrap_or_default().split(", ");
    nodes.filter_map(|node| node.split_whitespace().next()).collect()
}

/// The first window that a refusal names. That of a hop which was cut off is for a store that was lost, and where a person is
/// to choose the versions, another advice is followed.
fn window_in(why: &str, store_lost: bool) -> Option<Command> {
    let parts: Vec<&str> = why.split('`').collect();
    let named = parts.windows(2).filter(|pair| store_lost || !pair[0].ends_with(" was cut off: "));
    let mut commands = named.map(|pair| understood(pair[1]));
    commands.find(|command| matches!(command, Command::Window(..)))
}

#[cfg(test)]
mod tests {
    use super::super::event_log::EventLog;
    use super::super::judge::Facts;
    use super::super::names::Names;
    use super::super::slot::Behaviour;
    use super::*;

    #[test]
    fn window_is_read_from_the_refusal_that_fits_the_store() {
        let cut_off = "above `from` (1) (where an upgrade to 2 was cut off: `tidegate fleet window pantry \
                       --floor 1 --ceiling 2 --why …`, then start it again; otherwise stop it) on: n01";
        let open = "refused (admit it: `tidegate fleet window pantry --floor … --ceiling …`): n01; \
                    the hop has not completed: `tidegate fleet window pantry --floor 1 --ceiling 1 --why …`";
        let set = |ceiling| Some(Command::Window("pantry".to_owned(), 1, ceiling));
        assert_eq!(window_in(cut_off, true), set(2));
        assert_eq!(window_in(cut_off, false), None, "no upgrade was cut off");
        assert_eq!([true, false].map(|lost| window_in(open, lost)), [set(1), set(1)]);
    }

    #[test]
    fn cordoned_nodes_are_read_from_the_refusal() {
        let named = |nodes: &str| {
            format!(
                "preflight found what would stop the upgrade: larder: in maintenance (uncordon it first): \
                 {nodes}; larder: version 2 is not staged on n03"
            )
        };
        assert_eq!(cordoned_in(&named("n00")), ["n00"]);
        assert_eq!(cordoned_in(&named("n00, n01 and 3 more")), ["n00", "n01"]);
        assert!(cordoned_in("larder: no report from (bring it back, or decommission it): n00").is_empty());
    }

    #[test]
    fn version_whose_form_must_be_there_is_read_from_the_refusal() {
        let ends = "where the database has what version 3 uses, `tidegate fleet window pantry --floor 3 \
                    --ceiling 3 --why …` ends the hop; otherwise start a release of version 2 there";
        assert_eq!(form_in(ends), Some(3));
        assert_eq!(form_in("`tidegate fleet window pantry --floor 3 --ceiling 3` ends the hop"), None);
    }

    #[test]
    fn release_of_a_cut_off_upgrade_is_read_from_the_refusal() {
        let why = |ends: &str| {
            format!(
                "at `to` (2), but not running the release larder-2-mended, on n00: an upgrade that was cut off goes on \
                 with the release that it had: {ends}; larder: version 2 is not staged on n01"
            )
        };
        assert_eq!(release_in(&why("start it with larder-2")).as_deref(), Some("larder-2"));
        assert_eq!(release_in(&why("start it with larder-2 (sha256 00ff)")).as_deref(), Some("larder-2"));
        assert_eq!(release_in(&why("of larder-2, larder-2b choose one. On each instance")), None);
    }

    #[test]
    fn new_version_without_a_committed_floor_is_not_enough() {
        let after = |windows: &[(u64, u32, u32)], has_no_window: bool| ServiceFacts {
            windows: windows.to_vec(),
            has_no_window,
            ..ServiceFacts::default()
        };
        assert!(!has_floor(&after(&[], true), 2), "none was ever committed");
        assert!(
            !has_floor(&after(&[(0, 1, 2), (1, 1, 1)], false), 2),
            "it was reconciled to the former version"
        );
        assert!(!has_floor(&after(&[(0, 1, 1), (1, 1, 2)], false), 2), "its hop was cut off");
        assert!(!has_floor(&after(&[(0, 2, 2)], true), 2), "the store that had it was lost");
        assert!(has_floor(&after(&[(0, 1, 2), (1, 2, 2)], false), 2), "a person ended the hop");
        assert!(has_floor(&after(&[(0, 2, u32::MAX)], false), 2), "it is bounded from below alone");
    }

    /// What comes of a refused start to version 2 on two nodes that run these versions.
    fn outcome(versions: [u32; 2], floor: u32, needs_floor: bool, change: fn(&Testbed)) -> Refused {
        let names =
            Names { services: vec!["pantry".to_owned()], nodes: ["n00", "n01"].map(str::to_owned).to_vec() };
        let releases = [1, 2].map(|version| (format!("pantry-{version}"), Behaviour::good(version, 0)));
        let service = ServiceFacts { windows: vec![(0, floor, 2)], ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let testbed = Testbed::new(names, releases.into(), EventLog::new(false), facts);
        for (node, version) in versions.into_iter().enumerate() {
            testbed.start((0, node), &format!("pantry-{version}"));
        }
        change(&testbed);
        by_what_runs(&testbed, 0, 2, needs_floor)
    }

    #[tokio::test(start_paused = true)]
    async fn refused_start_is_done_once_all_run_its_version() {
        assert_eq!(outcome([2, 2], 2, true, |_| ()), Refused::Done);
        assert_eq!(outcome([2, 2], 1, false, |_| ()), Refused::Done, "the store that had its floor was lost");
        assert_eq!(outcome([2, 2], 1, true, |_| ()), Refused::Again, "no floor is committed");
        assert_eq!(outcome([1, 2], 2, true, |_| ()), Refused::Again, "one runs the former version");
        assert_eq!(outcome([1, 2], 1, false, |_| ()), Refused::Again, "one runs the former version");
        let ended = |testbed: &Testbed| testbed.crash((0, 1));
        assert_eq!(outcome([2, 2], 2, true, ended), Refused::Again, "nothing runs on one node");
    }
}
