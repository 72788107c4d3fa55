//! Rules 7 and 8 in the history of a store: one release of a stream is deployed, revisions only rise, history is not
//! rewritten, and no floor is below what computes may start with.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_proto::compute::EvidenceRule;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::Stream;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, ReleaseRevision, ReleaseTag, ServiceName, ServiceVersion, StreamName, Value};

use super::revision::{Revision, Written};
use super::rules::Broken;

/// Streams at one revision.
#[derive(Default)]
struct Seen {
    streams: BTreeMap<StreamName, Stream>,
    releases: BTreeMap<StreamName, BTreeMap<ReleaseRevision, ComputeRelease>>,
    windows: BTreeMap<ServiceName, Window>,
    /// Tags of compute images with the verdict of a compatibility run.
    tried: BTreeSet<ReleaseTag>,
}

pub(super) fn judge(revisions: &[Revision]) -> Vec<Broken> {
    let (mut seen, mut broken) = (Seen::default(), Vec::new());
    for revision in revisions {
        let mut found = Vec::new();
        let touched: Vec<bool> = revision
            .writes
            .iter()
            .map(|written| seen.take_in(revision.number, written, &mut found))
            .collect();
        if touched.contains(&true) {
            seen.one_is_deployed(&mut found);
            seen.floors(&mut found);
        }
        let broke = |(rule, what)| Broken { at: revision.number, rule, what };
        broken.extend(found.into_iter().map(broke));
    }
    broken
}

impl Seen {
    /// Takes in one write; whether it concerns streams or floors.
    fn take_in(&mut self, at: i64, written: &Written, found: &mut Vec<(u8, String)>) -> bool {
        match (&written.key, written.put.as_ref().map(|put| &put.value)) {
            (Key::Stream(name), Some(Value::Stream(stream))) => {
                let had = self.streams.insert(name.clone(), stream.body.clone());
                if had.is_some_and(|had| had.deployed.is_some()) && stream.body.deployed.is_none() {
                    found.push((7, format!("nothing of {name} is deployed any more")));
                }
            }
            (Key::Release(name, revision), Some(Value::Release(release))) => {
                let fresh = written.put.as_ref().is_some_and(|put| put.created == at);
                self.release(name, *revision, &release.body, fresh, found);
            }
            (Key::Release(..) | Key::Stream(_), None) => {
                found.push((7, format!("{} was removed", written.key)));
            }
            (Key::Window(service), Some(Value::Window(window))) => {
                self.windows.insert(service.clone(), window.body.clone());
            }
            (Key::Evidence(compute, _), Some(_)) => drop(self.tried.insert(compute.clone())),
            _ => return false,
        }
        true
    }

    fn release(
        &mut self,
        name: &StreamName,
        revision: ReleaseRevision,
        release: &ComputeRelease,
        fresh: bool,
        found: &mut Vec<(u8, String)>,
    ) {
        let of = self.releases.entry(name.clone()).or_default();
        match of.get(&revision) {
            Some(had) => {
                let same = had.digest == release.digest
                    && had.tag == release.tag
                    && had.version == release.version
                    && had.requires == release.requires;
                if fresh || !same {
                    let how = if fresh { "created again" } else { "rewritten" };
                    let (was, is) = (&had.tag, &release.tag);
                    found.push((7, format!("revision {revision} of {name} was {how}: {was}, then {is}")));
                }
            }
            None => {
                let last = of.last_key_value();
                if last.is_some_and(|(last, _)| *last >= revision) {
                    found.push((7, format!("revision {revision} of {name} came late")));
                }
                let same = last.is_some_and(|(_, last)| last.digest == release.digest);
                if same && release.rollback_of.is_none() {
                    found.push((7, format!("revision {revision} of {name} is that before once more")));
                }
            }
        }
        let goes_out = matches!(release.status, ReleaseStatus::Deployed | ReleaseStatus::Canary);
        let untried = release.evidence == EvidenceRule::Required && !self.tried.contains(&release.tag);
        if goes_out && untried {
            found.push((8, format!("revision {revision} of {name} went out without evidence")));
        }
        of.insert(revision, release.clone());
    }

    fn one_is_deployed(&self, found: &mut Vec<(u8, String)>) {
        for (name, stream) in &self.streams {
            let none = BTreeMap::new();
            let of = self.releases.get(name).unwrap_or(&none).iter();
            let deployed = of.filter(|(_, release)| release.status == ReleaseStatus::Deployed);
            let deployed: Vec<ReleaseRevision> = deployed.map(|(revision, _)| *revision).collect();
            let named: Vec<ReleaseRevision> =
                stream.deployed.iter().map(|head| head.release.revision).collect();
            if deployed != named {
                found.push((7, format!("{deployed:?} of {name} are deployed, its record says {named:?}")));
            }
        }
    }

    /// What computes may start with, or run, finds the floor that it needs.
    fn floors(&self, found: &mut Vec<(u8, String)>) {
        for (name, stream) in &self.streams {
            let pins = stream.pins.values().filter_map(|pin| stream.head(pin.revision));
            let single = stream.deployed.as_deref().into_iter().chain(stream.canary.as_deref());
            for head in single.chain(pins) {
                let release = &head.release;
                for (service, need) in &release.requires {
                    self.floor(name, release.revision, (service, *need), found);
                }
            }
        }
    }

    fn floor(
        &self,
        name: &StreamName,
        revision: ReleaseRevision,
        (service, need): (&ServiceName, ServiceVersion),
        found: &mut Vec<(u8, String)>,
    ) {
        // Every version is at or above the lowest.
        let floor = self.windows.get(service).map_or(ServiceVersion::ABSENT, |window| window.floor);
        if floor < need {
            let text = format!("revision {revision} of {name} needs {service} {need}, its floor is {floor}");
            found.push((8, text));
        }
    }
}
