//! Judges each record of a stream in the instant in which the auditor reads it.

use super::ground::{Ground, State};
use tidegate_proto::record::stream::{Head, Stream};

/// A stream's record was written.
pub(super) fn noticed(ground: &Ground, state: &mut State, name: &str, stream: &Stream, at: Option<i64>) {
    let now = ground.now();
    for head in stream.heads() {
        let key = (name.to_owned(), head.release.revision.get());
        state.facts.streams.releases.insert(key, head.release.clone());
    }
    let before = state.facts.streams.now.insert(name.to_owned(), stream.clone());
    let was = |of: fn(&Stream) -> Option<&Head>| {
        before.as_ref().and_then(|before| of(before)).map(|head| head.release.revision)
    };
    type Single = fn(&Stream) -> Option<&Head>;
    let single: [(&str, Single); 2] =
        [("deployed", |stream| stream.deployed.as_deref()), ("canary", |stream| stream.canary.as_deref())];
    for (word, of) in single {
        let Some(head) = of(stream).filter(|head| was(of) != Some(head.release.revision)) else { continue };
        let (revision, tag) = (head.release.revision, head.release.tag.as_str());
        if let Some(at) = at {
            state.log.log(now, &format!("[{at}] revision {revision} of {name} ({tag}): {word}"));
        }
        if at.is_none() || state.facts.streams.lost || state.facts.streams.promoted.contains(tag) {
            continue;
        }
        let nodes = stream.settings.prewarm.iter().flat_map(|errand| &errand.nodes);
        let lacks = |node: &&tidegate_proto::NodeId| {
            let place = ground.names().node(node.as_str());
            place.is_some_and(|place| !state.disks[place].images.there.contains(tag))
        };
        if let Some(node) = nodes.into_iter().find(lacks) {
            let text = format!("revision {revision} of {name} is {word}, and {node} has no image {tag}");
            state.facts.breach(now, 7, text);
        }
    }
}

/// A compute is shown a release: all that serves of the storage that it needs is new enough.
pub(super) fn shown(ground: &Ground, name: &str, compute: &str, revision: u64) {
    let now = ground.now();
    let mut state = ground.state();
    if state.facts.streams.lost {
        return;
    }
    let Some(release) = state.facts.streams.releases.get(&(name.to_owned(), revision)).cloned() else {
        return;
    };
    let mut found = None;
    for (service, need) in &release.requires {
        let Some(place) = ground.names().service(service.as_str()) else { continue };
        found = found.or_else(|| {
            let mut of = state.slots.iter().filter(|((of, _), slot)| *of == place && slot.serves);
            let old = of.find_map(|(at, slot)| {
                let run = slot.alive(now).filter(|run| run.is.version < need.get())?;
                (!state.facts.liars.contains(&at.1)).then_some((*at, run.is.version))
            })?;
            let instance = ground.names().instance(old.0);
            Some(format!("needs {service} {need}, and {instance} serves version {}", old.1))
        });
    }
    if let Some(found) = found {
        let text = format!("{compute} is shown revision {revision} of {name}, which {found}");
        state.facts.breach(now, 8, text);
    }
}
