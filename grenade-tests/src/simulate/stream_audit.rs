//! Judges each record of a stream in the instant in which the auditor reads it.

use super::judge::OLD;
use super::testbed::{State, Testbed};
use tidegate_proto::ComputeId;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::stream::{Head, Pin, Stream};

/// A stream's record was written.
pub(super) fn noticed(testbed: &Testbed, state: &mut State, name: &str, stream: &Stream, at: Option<i64>) {
    let now = testbed.now();
    for head in stream.heads() {
        let key = (name.to_owned(), head.release.revision.get());
        state.facts.streams.releases.insert(key, head.release.clone());
    }
    let before = state.facts.streams.now.insert(name.to_owned(), stream.clone());
    let was = |of: fn(&Stream) -> Option<&Head>| {
        before.as_ref().and_then(|before| of(before)).map(|head| head.release.revision)
    };
    for (compute, pin) in new_pins(before.as_ref(), stream) {
        let revision = pin.revision.get();
        let release = state.facts.streams.releases.get(&(name.to_owned(), revision));
        let misled = release.is_some_and(|release| is_misled(testbed, state, release, now));
        let key = (name.to_owned(), compute.to_string(), revision);
        // One that is pinned again is judged by what storage says then.
        match misled {
            true => state.facts.streams.misled_pins.insert(key),
            false => state.facts.streams.misled_pins.remove(&key),
        };
    }
    type Single = fn(&Stream) -> Option<&Head>;
    let single: [(&str, Single); 2] =
        [("deployed", |stream| stream.deployed.as_deref()), ("canary", |stream| stream.canary.as_deref())];
    for (word, of) in single {
        let Some(head) = of(stream).filter(|head| was(of) != Some(head.release.revision)) else { continue };
        let (revision, tag) = (head.release.revision, head.release.tag.as_str());
        if let Some(at) = at {
            state.log.log(now, &format!("[{at}] revision {revision} of {name} ({tag}): {word}"));
        }
        if is_misled(testbed, state, &head.release, now) {
            state.facts.streams.misled.insert((name.to_owned(), revision.get()));
        }
        if at.is_none() || state.facts.streams.lost || state.facts.streams.promoted.contains(tag) {
            continue;
        }
        let nodes = stream.settings.prewarm.iter().flat_map(|task| &task.nodes);
        let lacks = |node: &&tidegate_proto::NodeId| {
            let place = testbed.names().node(node.as_str());
            let is_there = |place: usize| state.disks[place].images.there.contains(tag);
            place.is_some_and(|place| !is_there(place) && !state.facts.streams.false_results.contains(&place))
        };
        if let Some(node) = nodes.into_iter().find(lacks) {
            let text = format!("revision {revision} of {name} is {word}, and {node} has no image {tag}");
            state.facts.breach(now, 7, text);
        }
    }
}

/// The pins that a record has and the one before it did not.
fn new_pins<'a>(
    before: Option<&'a Stream>,
    stream: &'a Stream,
) -> impl Iterator<Item = (&'a ComputeId, &'a Pin)> {
    let held = move |compute: &ComputeId| before.and_then(|before| before.pins.get(compute));
    stream
        .pins
        .iter()
        .filter(move |(compute, pin)| held(compute).is_none_or(|held| held.revision != pin.revision))
}

/// Whether an instance of what a release needs said another version than it is when the release went out, or a compute was
/// pinned to it: where all do so at once, nothing tells.
fn is_misled(testbed: &Testbed, state: &State, release: &ComputeRelease, now: u64) -> bool {
    let places: Vec<usize> =
        release.requires.keys().filter_map(|service| testbed.names().service(service.as_str())).collect();
    let mut of = state.slots.iter().filter(|((of, _), _)| places.contains(of));
    of.any(|(_, slot)| slot.lied_since(now.saturating_sub(OLD), now))
}

/// Whether computes may start with a revision by the record of its stream as it is now.
fn is_current(stream: &Stream, revision: u64) -> bool {
    let heads = stream.deployed.iter().chain(&stream.canary).map(|head| head.release.revision);
    let pinned = stream.pins.values().map(|pin| pin.revision);
    heads.chain(pinned).any(|of| of.get() == revision)
}

/// A compute is shown a release: all that serves of the storage that it needs, as far as any component can know of it, is new
/// enough. A coordinator that does not follow the store, as one that was just reconnected, answers from memory: the release may
/// have been withdrawn since, and the storage rolled back.
pub(super) fn shown(testbed: &Testbed, name: &str, (compute, revision): (&str, u64), follows: bool) {
    let now = testbed.now();
    let mut state = testbed.state();
    let key = (name.to_owned(), revision);
    let pin = (name.to_owned(), compute.to_owned(), revision);
    let streams = &state.facts.streams;
    let is_outdated = !follows && streams.now.get(name).is_none_or(|stream| !is_current(stream, revision));
    if streams.lost || is_outdated || streams.misled.contains(&key) || streams.misled_pins.contains(&pin) {
        return;
    }
    let Some(release) = state.facts.streams.releases.get(&key).cloned() else {
        return;
    };
    let mut found = None;
    for (service, need) in &release.requires {
        let Some(place) = testbed.names().service(service.as_str()) else { continue };
        found = found.or_else(|| {
            let mut of = state.slots.iter().filter(|((of, _), slot)| *of == place && slot.serves);
            let old = of.find_map(|(at, slot)| {
                let run = slot.alive(now).filter(|run| run.is.version < need.get())?;
                let is_known = !state.facts.is_unknown(*at, slot) && !state.facts.is_unheard_of(*at, now);
                is_known.then_some((*at, run.is.version))
            })?;
            let instance = testbed.names().instance(old.0);
            Some(format!("needs {service} {need}, and {instance} serves version {}", old.1))
        });
    }
    if let Some(found) = found {
        let text = format!("{compute} is shown revision {revision} of {name}, which {found}");
        state.facts.breach(now, 8, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::event_log::EventLog;
    use crate::simulate::judge::{Facts, ServiceFacts};
    use crate::simulate::names::Names;
    use crate::simulate::slot::{At, Behaviour};
    use serde_json::json;

    const PLACE: At = (0, 0);

    /// The rules that are broken where a compute is shown a release that needs version 2, and an instance serves version 1.
    fn broken(change: impl FnOnce(&mut Facts)) -> Vec<u8> {
        broken_by(true, change)
    }

    /// The same where the coordinator that answers follows the store, or does not.
    fn broken_by(follows: bool, change: impl FnOnce(&mut Facts)) -> Vec<u8> {
        let digest = "0".repeat(64);
        let release = json!({
            "revision": 1, "version": 1, "tag": "release-1", "branch": "b", "manifest": digest,
            "digest": digest, "requires": {"pantry": 2}, "status": "deployed", "by": "op", "created_at": 0,
        });
        let mut facts = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
        let key = ("compute".to_owned(), 1);
        facts.streams.releases.insert(key, serde_json::from_value(release).unwrap());
        change(&mut facts);
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let releases = [("pantry-1".to_owned(), Behaviour::good(1, 0))].into();
        let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
        testbed.start(PLACE, "pantry-1");
        shown(&testbed, "compute", ("ep-0", 1), follows);
        let state = testbed.state();
        state.facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    /// It was withdrawn, and its storage rolled back, while the coordinator that answers was cut off.
    #[tokio::test(start_paused = true)]
    async fn release_shown_from_memory_may_be_withdrawn() {
        let deployed = |revision: u64| {
            move |facts: &mut Facts| {
                let mut head: serde_json::Value = json!({"canary_ms": 0});
                let key = ("compute".to_owned(), 1);
                head["release"] = serde_json::to_value(&facts.streams.releases[&key]).unwrap();
                head["release"]["revision"] = json!(revision);
                let stream = serde_json::from_value(json!({"deployed": head})).unwrap();
                facts.streams.now.insert("compute".to_owned(), stream);
            }
        };
        assert!(broken_by(false, deployed(2)).is_empty(), "it does not follow the store yet");
        assert_eq!(broken_by(true, deployed(2)), [8], "it follows the store");
        assert_eq!(broken_by(false, deployed(1)), [8], "the release is deployed still");
    }

    fn is_cut_off(facts: &mut Facts) {
        facts.agents_cut.insert(PLACE.1, u64::MAX);
    }

    /// It joined below the floor that an upgrade then raised.
    #[tokio::test(start_paused = true)]
    async fn release_may_meet_what_no_component_can_know() {
        assert_eq!(broken(|_| ()), [8]);
        assert!(broken(is_cut_off).is_empty(), "its agent has never reported");
        let is_admitted = |facts: &mut Facts| {
            is_cut_off(facts);
            facts.silent.admitted(PLACE, 0);
        };
        assert_eq!(broken(is_admitted), [8], "the store knows of it");
    }

    /// Its node was switched off, and is on again before the upgrade that went on without it raises the floor.
    #[tokio::test(start_paused = true)]
    async fn release_may_meet_what_returns_without_its_agent() {
        let is_gone = |facts: &mut Facts| {
            facts.silent.admitted(PLACE, 0);
            facts.silent.decommissioned(PLACE);
        };
        assert_eq!(broken(is_gone), [8], "its agent can report");
        let without_agent = |change: fn(&mut Facts)| {
            broken(|facts| {
                is_gone(facts);
                is_cut_off(facts);
                change(facts);
            })
        };
        assert!(without_agent(|_| ()).is_empty(), "its agent does not run");
        let has_reported = |facts: &mut Facts| facts.silent.reported(PLACE, 0);
        assert_eq!(without_agent(has_reported), [8], "it counts again since its report");
    }

    fn pinned(revision: u64) -> Stream {
        let pin = json!({"revision": revision, "who": "op", "why": "it stays", "at": 0});
        serde_json::from_value(json!({"pins": {"ep-4": pin}})).unwrap()
    }

    #[test]
    fn pin_is_new_where_its_compute_had_another_revision() {
        let (none, first, second) = (Stream::default(), pinned(1), pinned(2));
        assert_eq!(new_pins(None, &first).count(), 1);
        assert_eq!(new_pins(Some(&none), &first).count(), 1);
        assert_eq!(new_pins(Some(&first), &first).count(), 0);
        assert_eq!(new_pins(Some(&first), &second).count(), 1);
        assert_eq!(new_pins(Some(&first), &none).count(), 0);
    }
}
