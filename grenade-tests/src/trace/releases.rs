//! Rules 7 and 8 in a history: of each stream one release is deployed, and storage is never older than what is out needs.

use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, ServiceName, ServiceVersion, StreamName, Value};

use super::Written;
use super::rules::{Judge, RECONCILIATION};
use super::seen::Seen;

/// Judges what a revision wrote of streams, releases, needs and floors.
pub(super) fn judge(judge: &mut Judge<'_>) {
    let revision = judge.revision;
    for Written { key, put, .. } in &revision.writes {
        match (key, put.as_ref().map(|put| (&put.value, put.created))) {
            (Key::Release(stream, number), None) => {
                judge.holds(7, false, || format!("revision {number} of {stream} was removed"));
            }
            (Key::Release(stream, _), Some((Value::Release(release), created))) => {
                is_appended(judge, stream, &release.body, created == revision.number);
            }
            (Key::Stream(stream), Some((Value::Stream(body), _))) => goes_out(judge, stream, &body.body),
            (Key::Window(service), _) => floor_is_enough(judge, service),
            _ => {}
        }
    }
    let writes_stream = |stream: &StreamName| {
        let of_it = |w: &Written| matches!(&w.key, Key::Stream(of) | Key::Release(of, _) if of == stream);
        revision.writes.iter().any(of_it)
    };
    let after = judge.after;
    for stream in after.streams.keys().filter(|stream| writes_stream(stream)) {
        one_is_deployed(judge, stream);
    }
}

/// Revisions rise, and what a release is never changes.
fn is_appended(judge: &mut Judge<'_>, stream: &StreamName, release: &ComputeRelease, is_new: bool) {
    let number = release.revision;
    let before = judge.before.releases.get(stream);
    match before.and_then(|releases| releases.get(&number)) {
        Some(former) => {
            judge.holds(7, !is_new, || format!("revision {number} of {stream} was given twice"));
            judge.holds(7, is_same(former, release), || {
                format!("revision {number} of {stream} was rewritten")
            });
        }
        None => {
            let newest = before.and_then(|releases| releases.keys().last());
            judge.holds(7, newest.is_none_or(|newest| *newest < number), || {
                format!("revision {number} of {stream} came after {newest:?}")
            });
        }
    }
}

/// Whether two records say the same of a release, but for what became of it.
fn is_same(one: &ComputeRelease, other: &ComputeRelease) -> bool {
    let lasting = |r: &ComputeRelease| (r.digest, r.manifest, r.version, r.tag.clone(), r.requires.clone());
    lasting(one) == lasting(other)
}

/// Exactly the release is deployed that the stream names, and one is once one was.
fn one_is_deployed(judge: &mut Judge<'_>, stream: &StreamName) {
    let named = |seen: &Seen| {
        seen.streams.get(stream).and_then(|s| s.deployed.as_ref()).map(|head| head.release.revision)
    };
    let (was, is) = (named(judge.before), named(judge.after));
    judge.holds(7, was.is_none() || is.is_some(), || format!("no release of {stream} is deployed any more"));
    let releases = judge.after.releases.get(stream);
    let deployed = releases.into_iter().flatten().filter(|(_, r)| r.status == ReleaseStatus::Deployed);
    let deployed: Vec<_> = deployed.map(|(number, _)| *number).collect();
    judge.holds(7, deployed == is.into_iter().collect::<Vec<_>>(), || {
        format!("{stream} names {is:?} as deployed, and {deployed:?} are")
    });
}

/// What begins to be used meets storage that is new enough, and its need is written down with it.
fn goes_out(judge: &mut Judge<'_>, stream: &StreamName, body: &Stream) {
    let former = judge.before.streams.get(stream);
    let out = |of: &Stream| -> Vec<Head> {
        let (deployed, canary) = (of.deployed.as_deref(), of.canary.as_deref());
        deployed.into_iter().chain(canary).cloned().collect()
    };
    let was: Vec<_> =
        former.map(out).unwrap_or_default().into_iter().map(|head| head.release.revision).collect();
    for head in out(body) {
        let release = &head.release;
        for (service, minimum) in &release.requires {
            let need = judge.after.needs.get(service).and_then(|need| need.streams.get(stream));
            judge.holds(8, need.is_some_and(|holder| holder.minimum >= *minimum), || {
                format!("{} of {stream} is out, and its need of {service} is {need:?}", release.tag)
            });
            if !was.contains(&release.revision) {
                let storage = storage(judge.before, service);
                judge.holds(8, storage.is_some_and(|lowest| lowest >= *minimum), || {
                    format!("{} of {stream} needs {service} at {minimum}, found {storage:?}", release.tag)
                });
            }
        }
    }
}

/// The lowest version of a service that is promised: its floor, or where it is only watched what runs.
fn storage(seen: &Seen, service: &ServiceName) -> Option<ServiceVersion> {
    let window = seen.windows.get(service).map(|window| &window.body);
    match window.filter(|window| window.ceiling != ServiceVersion::MAX) {
        Some(window) => Some(window.floor),
        None => {
            let each: Vec<_> = seen.fleet(service).map(|(_, instance)| instance.version()).collect();
            each.into_iter().min().flatten()
        }
    }
}

/// No floor falls below a need that stands. A need may stand before its release is out, and wait for the floor: what is out
/// is judged in `streams`.
fn floor_is_enough(judge: &mut Judge<'_>, service: &ServiceName) {
    let highest = judge.after.needs.get(service).and_then(|need| need.highest());
    let (Some((stream, holder)), Some(window)) = (highest, judge.after.windows.get(service)) else { return };
    let window: &Window = &window.body;
    let is_reconciled = window.set_by.as_str() == RECONCILIATION;
    let former = judge.before.windows.get(service);
    let falls = former.is_some_and(|former| window.floor < former.body.floor);
    judge.holds(8, window.floor >= holder.minimum || is_reconciled || !falls, || {
        format!(
            "the floor of {service} is {}, and {} of {stream} needs {}",
            window.floor, holder.tag, holder.minimum
        )
    });
}
