//! Falsified histories of release streams. Each brings the records of a stream of its own, so that any history will do: a
//! release that needs storage at version 2 goes out, and one record is false.

use std::collections::BTreeMap;

use tidegate_proto::compute::canonical;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::manifest::Manifest;
use tidegate_proto::record::need::{Hold, Holder, Need};
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus, TagRecord};
use tidegate_proto::record::stream::{Head, Latest, Stream};
use tidegate_proto::record::window::Window;
use tidegate_proto::{
    Digest, Key, ReleaseRevision, ReleaseVersion, ServiceName, ServiceVersion, StreamName, Value,
};

use super::super::{Put, Trace, Written};
use super::{append, next};

/// What the releases need.
const NEEDS: i64 = 2;

struct Stage<'a> {
    trace: &'a mut Trace,
    stream: StreamName,
    storage: ServiceName,
}

impl<'a> Stage<'a> {
    fn new(trace: &'a mut Trace) -> Option<Self> {
        Some(Self { trace, stream: "computes".parse().ok()?, storage: "pageserver".parse().ok()? })
    }

    fn release(&self, number: u64, status: ReleaseStatus) -> Option<ComputeRelease> {
        let digest = Digest::of(&number.to_be_bytes());
        let requires = BTreeMap::from([(self.storage.clone(), ServiceVersion::new(NEEDS).ok()?)]);
        Some(ComputeRelease {
            revision: ReleaseRevision::new(number).ok()?,
            version: ReleaseVersion::new(number).ok()?,
            tag: format!("release-{number}").parse().ok()?,
            branch: "main".parse().ok()?,
            requires,
            evidence: tidegate_proto::compute::EvidenceRule::None,
            canary: None,
            posted: None,
            manifest: Self::digest(),
            digest,
            rollback_of: None,
            status,
            because: String::new(),
            by: "ci".to_owned(),
            created_at: Timestamp(0),
            approved: None,
            deployed_at: None,
        })
    }

    fn put(&self, key: Key, value: Value, created: Option<i64>) -> Written {
        let created = created.unwrap_or_else(|| next(self.trace));
        Written { key, put: Some(Put { value, created, lease: 0 }), gone: false }
    }

    /// The digest of the manifest of each.
    fn digest() -> Digest {
        Digest::of(canonical(&manifest(1).manifest).as_bytes())
    }

    fn manifest(&self, number: u64) -> Written {
        self.put(Key::Manifest(Self::digest()), manifest(number).into(), None)
    }

    fn tag(&self, release: &ComputeRelease, version: ReleaseVersion) -> Written {
        let key = Key::ReleaseTag(self.stream.clone(), release.tag.clone());
        self.put(key, TagRecord { revision: release.revision, version }.into(), None)
    }

    /// A release that is made, with its manifest and its tag.
    fn made(&self, release: &ComputeRelease) -> [Written; 3] {
        [self.stored(release, None), self.manifest(1), self.tag(release, release.version)]
    }

    /// A release under its own key.
    fn stored(&self, release: &ComputeRelease, created: Option<i64>) -> Written {
        self.put(Key::Release(self.stream.clone(), release.revision), release.clone().into(), created)
    }

    /// The stream with this one deployed.
    fn stream(&self, deployed: Option<&ComputeRelease>) -> Written {
        let latest = deployed.map(|r| Latest { revision: r.revision, digest: r.digest });
        let deployed = deployed.map(|release| Box::new(Head::new(release.clone())));
        let stream = Stream { latest, deployed, ..Stream::default() };
        self.put(Key::Stream(self.stream.clone()), stream.into(), None)
    }

    fn window(&self, floor: i64) -> Option<Written> {
        let (floor, ceiling) = (ServiceVersion::new(floor).ok()?, ServiceVersion::new(NEEDS).ok()?);
        let window = Window { floor, ceiling, set_by: "storage-2".parse().ok()?, contracted: None };
        Some(self.put(Key::Window(self.storage.clone()), window.into(), None))
    }

    fn need(&self, release: &ComputeRelease) -> Option<Written> {
        let holder = Holder {
            minimum: ServiceVersion::new(NEEDS).ok()?,
            revision: release.revision,
            tag: release.tag.clone(),
            version: release.version,
            hold: Hold::Deployed,
        };
        let need = Need { streams: BTreeMap::from([(self.stream.clone(), holder)]) };
        Some(self.put(Key::Need(self.storage.clone()), need.into(), None))
    }

    /// Storage with a floor, then the first release deployed over it.
    fn deployed_over(&mut self, floor: i64) -> Option<ComputeRelease> {
        let window = self.window(floor)?;
        append(self.trace, vec![window]);
        let release = self.release(1, ReleaseStatus::Deployed)?;
        let mut writes = vec![self.need(&release)?, self.stream(Some(&release))];
        writes.extend(self.made(&release));
        append(self.trace, writes);
        Some(release)
    }
}

pub(super) fn two_are_deployed(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    stage.deployed_over(NEEDS)?;
    let second = stage.release(2, ReleaseStatus::Deployed)?;
    let mut writes = vec![stage.stream(Some(&second))];
    writes.extend(stage.made(&second));
    append(stage.trace, writes);
    Some(())
}

pub(super) fn none_is_deployed(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    let created = next(stage.trace) + 1;
    stage.deployed_over(NEEDS)?;
    let superseded = stage.release(1, ReleaseStatus::Superseded)?;
    let writes = vec![stage.stored(&superseded, Some(created)), stage.stream(None)];
    append(stage.trace, writes);
    Some(())
}

pub(super) fn revision_is_given_twice(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    let first = stage.deployed_over(NEEDS)?;
    let writes = vec![stage.stored(&first, None)];
    append(stage.trace, writes);
    Some(())
}

pub(super) fn release_is_removed(trace: &mut Trace) -> Option<()> {
    let stage = Stage::new(trace)?;
    let waits = stage.release(1, ReleaseStatus::Pending)?;
    let mut writes = vec![stage.stream(None)];
    writes.extend(stage.made(&waits));
    append(stage.trace, writes);
    let key = Key::Release(stage.stream.clone(), waits.revision);
    append(stage.trace, vec![Written { key, put: None, gone: true }]);
    Some(())
}

pub(super) fn meets_old_storage(trace: &mut Trace) -> Option<()> {
    Stage::new(trace)?.deployed_over(NEEDS - 1).map(drop)
}

pub(super) fn need_is_not_written(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    stage.deployed_over(NEEDS)?;
    super::lose(stage.trace, |written| matches!(written.key, Key::Need(_)))
}

pub(super) fn floor_falls_below_a_need(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    stage.deployed_over(NEEDS)?;
    let lowered = stage.window(NEEDS - 1)?;
    append(stage.trace, vec![lowered]);
    Some(())
}

pub(super) fn manifest_is_changed(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    stage.deployed_over(NEEDS)?;
    let other = stage.manifest(2);
    append(stage.trace, vec![other]);
    Some(())
}

pub(super) fn tag_is_moved(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    let release = stage.deployed_over(NEEDS)?;
    let moved = stage.tag(&release, ReleaseVersion::new(2).ok()?);
    append(stage.trace, vec![moved]);
    Some(())
}

pub(super) fn settings_change_unnamed(trace: &mut Trace) -> Option<()> {
    let mut stage = Stage::new(trace)?;
    let release = stage.deployed_over(NEEDS)?;
    let mut changed = stage.stream(Some(&release));
    if let Some(Put { value: Value::Stream(stream), .. }) = &mut changed.put {
        stream.body.settings.minimum_available += 1;
    }
    append(stage.trace, vec![changed]);
    Some(())
}

fn manifest(number: u64) -> Manifest {
    Manifest { manifest: serde_json::json!({ "image": number }) }
}

#[cfg(test)]
mod tests {
    use super::super::super::rules::Broken;
    use super::super::FalseRecord;
    use super::*;

    /// The breaches of the rules for releases; not of the fence, because this history has no leader.
    fn broken(trace: &Trace) -> Vec<u8> {
        let of = |broken: &Broken| [7, 8].contains(&broken.rule).then_some(broken.rule);
        trace.breaches().iter().filter_map(of).collect()
    }

    #[test]
    fn release_over_new_storage_breaks_no_rule() {
        let mut trace = Trace::default();
        Stage::new(&mut trace).unwrap().deployed_over(NEEDS).unwrap();
        assert_eq!(broken(&trace), [0u8; 0]);
    }

    #[test]
    fn each_falsified_release_is_found_by_its_rule_alone() {
        for record in FalseRecord::ALL.into_iter().filter(|record| matches!(record.rule(), 7 | 8)) {
            let mut trace = Trace::default();
            record.apply(&mut trace).unwrap();
            let found = broken(&trace);
            assert!(
                !found.is_empty() && found.iter().all(|rule| *rule == record.rule()),
                "{record:?}: {found:?}"
            );
        }
    }
}
