//! A world with one release stream above the storage service that the other stories upgrade, and what is asked of it.

use crate::sim::{World, service};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::ask::release::{self, Asked};
use tidegate_planner::ask::{Asker, Refusal};
use tidegate_planner::{Action, Fleet, Moment, Reason, Stored, plan};
use tidegate_proto::commit::Commit;
use tidegate_proto::compute::ReleaseRequest;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::need::Need;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus, TagRecord};
use tidegate_proto::record::report::Identity;
use tidegate_proto::record::stream::{Stream, StreamSettings};
use tidegate_proto::record::task::{Outcome, TaskResult};
use tidegate_proto::{Key, NodeId, ReleaseRevision, ReleaseTag, Revision, ServiceVersion, StreamName, Value};

pub(super) fn stream() -> StreamName {
    "compute".parse().unwrap()
}

pub(super) fn revision(number: u64) -> ReleaseRevision {
    ReleaseRevision::new(number).unwrap()
}

pub(super) fn asker(why: &str) -> Asker {
    Asker { who: "anna".into(), why: why.into(), accepts: BTreeSet::new() }
}

/// A result that the agent of a node writes.
pub(super) fn reported(node: &NodeId, outcome: Outcome) -> TaskResult {
    let nonce = node.as_str().replacen('n', "nonce", 1);
    let by = Some(Identity { nonce, boot: "b".to_owned() });
    TaskResult { by, ..TaskResult::new(outcome, Timestamp(0)) }
}

/// A request of version `version`, with changes in JSON.
pub(super) fn request(version: u64, change: Json) -> ReleaseRequest {
    let mut value = json!({"version": version, "tag": format!("release-{version}")});
    value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

pub(super) fn settings(change: Json) -> StreamSettings {
    serde_json::from_value(change).unwrap()
}

impl World {
    fn asked(
        &mut self,
        ask: impl FnOnce(&Fleet, &Moment) -> Result<Asked, Refusal>,
    ) -> Result<Asked, Refusal> {
        let asked = ask(self.store.fleet(), &self.moment())?;
        if let Some(commit) = &asked.commit {
            assert!(self.store.commit(commit), "no other writer is here");
            self.events += 1;
            self.uncounted.clear();
        }
        Ok(asked)
    }

    pub(crate) fn tag_record(&self, tag: &ReleaseTag) -> Option<Stored<TagRecord>> {
        match self.store.keys.get(&Key::ReleaseTag(stream(), tag.clone()))? {
            (Value::ReleaseTag(record), at, _) => Some(Stored { record: record.clone(), at: Revision(*at) }),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn release_record(&self, number: u64) -> Option<Stored<ComputeRelease>> {
        match self.store.keys.get(&Key::Release(stream(), revision(number)))? {
            (Value::Release(record), at, _) => Some(Stored { record: record.clone(), at: Revision(*at) }),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn create(&mut self, version: u64, change: Json) -> Result<Asked, Refusal> {
        let request = request(version, change);
        let tag = self.tag_record(&request.tag);
        self.asked(|fleet, moment| {
            release::create(fleet, moment, &stream(), tag.as_ref(), &request, &asker("ci"))
        })
    }

    /// Creates a release and lets it go out; its revision.
    pub(crate) fn release(&mut self, version: u64, change: Json) -> u64 {
        let asked = self.create(version, change).unwrap();
        self.settle();
        let number = asked.revision.unwrap().get();
        assert_eq!(self.status(number), ReleaseStatus::Deployed);
        number
    }

    pub(crate) fn go_back(&mut self, to: u64) -> Result<Asked, Refusal> {
        self.go_back_with(to, true)
    }

    pub(crate) fn go_back_with(&mut self, to: u64, prewarm: bool) -> Result<Asked, Refusal> {
        let target = self.release_record(to).unwrap_or_else(|| panic!("there is no revision {to}"));
        let asker = asker("it is bad");
        self.asked(|fleet, moment| release::roll_back(fleet, moment, &stream(), &target, prewarm, &asker))
    }

    pub(crate) fn configure(&mut self, change: Json) -> Result<Asked, Refusal> {
        let settings = settings(change);
        self.asked(|fleet, moment| release::configure(fleet, moment, &stream(), &settings, &asker("")))
    }

    pub(crate) fn approve(&mut self, number: u64) -> Result<Asked, Refusal> {
        self.asked(|fleet, moment| {
            release::approve(fleet, moment, &stream(), revision(number), &asker("looks good"))
        })
    }

    pub(crate) fn promote(&mut self, number: u64, fraction: Option<f64>) -> Result<Asked, Refusal> {
        let fraction = fraction.map(|share| tidegate_proto::Fraction::new(share).unwrap());
        self.asked(|fleet, moment| {
            release::promote(fleet, moment, &stream(), revision(number), fraction, &asker("go on"))
        })
    }

    /// What a run of the compatibility suite of a release with this storage ended with.
    pub(super) fn record_evidence(&mut self, (compute, storage): (&str, &str), verdict: Verdict) {
        let (compute, storage) = (compute.parse().unwrap(), storage.parse().unwrap());
        let (fleet, moment, asker) = (self.store.fleet(), self.moment(), asker("412 tests"));
        let commit = release::evidence(fleet, &moment, &compute, &storage, verdict, None, &asker).unwrap();
        assert!(self.store.commit(&commit));
        self.events += 1;
    }

    pub(crate) fn pin(&mut self, compute: &str, number: u64) -> Result<Asked, Refusal> {
        let compute = compute.parse().unwrap();
        self.asked(|fleet, moment| {
            release::pin(fleet, moment, &stream(), &compute, revision(number), &asker("a customer"))
        })
    }

    pub(crate) fn unpin(&mut self, compute: &str) -> Result<Asked, Refusal> {
        let compute = compute.parse().unwrap();
        self.asked(|fleet, moment| release::unpin(fleet, moment, &stream(), &compute, &asker("")))
    }

    pub(crate) fn answers(&mut self, number: u64, answers: bool) -> Result<Asked, Refusal> {
        self.asked(|fleet, moment| {
            release::available(fleet, moment, &stream(), revision(number), answers, &asker(""))
        })
    }

    pub(crate) fn signal(&mut self, number: u64, compute: &str, success: bool) -> Result<Asked, Refusal> {
        let compute = compute.parse().unwrap();
        self.asked(|fleet, moment| {
            release::signal(fleet, moment, &stream(), revision(number), &compute, success, &asker(""))
        })
    }

    pub(crate) fn retry(&mut self, number: u64) -> Result<Asked, Refusal> {
        self.asked(|fleet, moment| {
            release::retry(fleet, moment, &stream(), revision(number), &asker("mended"))
        })
    }

    pub(crate) fn run_computes(&mut self, counts: &[(&str, u64)]) -> Result<Asked, Refusal> {
        let counts: BTreeMap<ReleaseTag, u64> =
            counts.iter().map(|(tag, count)| (tag.parse().unwrap(), *count)).collect();
        let past = counts
            .keys()
            .filter_map(|tag| {
                let record = self.release_record(self.tag_record(tag)?.revision.get())?;
                Some((tag.clone(), record.record.body))
            })
            .collect();
        self.asked(|fleet, moment| release::running(fleet, moment, &stream(), &counts, &past, &asker("")))
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, ms: u64) {
        *self.uncounted.entry(stream()).or_default() += ms;
    }

    /// Turns until nothing changes; the last plan's reasons, by revision.
    pub(crate) fn settle(&mut self) -> BTreeMap<u64, Vec<Reason>> {
        for _ in 0..1_000 {
            let planned = plan(self.store.fleet(), &self.moment());
            if planned.actions.is_empty() {
                let mine = planned.releases.into_iter().filter(|((name, _), _)| *name == stream());
                return mine.map(|((_, revision), reasons)| (revision.get(), reasons)).collect();
            }
            self.turn();
            self.uncounted.clear();
            self.check_releases();
        }
        panic!("it never came to rest");
    }

    pub(crate) fn stream(&self) -> &Stored<Stream> {
        self.store.fleet().stream(&stream()).expect("the stream is there")
    }

    pub(crate) fn status(&self, number: u64) -> ReleaseStatus {
        self.release_record(number).unwrap_or_else(|| panic!("there is no revision {number}")).status
    }

    pub(crate) fn deployed(&self) -> Option<u64> {
        self.store.fleet().stream(&stream())?.deployed.as_ref().map(|head| head.release.revision.get())
    }

    pub(crate) fn need(&self) -> Option<u32> {
        match self.store.keys.get(&Key::Need(crate::sim::service())) {
            Some((Value::Need(record), _, _)) => {
                let need: &Need = &record.body;
                need.highest().map(|(_, holder)| holder.minimum.get())
            }
            _ => None,
        }
    }

    pub(crate) fn releases(&self) -> impl Iterator<Item = &ComputeRelease> {
        self.store.keys.values().filter_map(|(value, ..)| match value {
            Value::Release(record) => Some(&record.body),
            _ => None,
        })
    }

    /// What holds at every revision: rules 7 and 8.
    pub(crate) fn check_releases(&self) {
        let Some(stream) = self.store.fleet().stream(&stream()) else { return };
        let deployed: Vec<u64> = self
            .releases()
            .filter(|release| release.status == ReleaseStatus::Deployed)
            .map(|release| release.revision.get())
            .collect();
        assert_eq!(
            deployed,
            self.deployed().into_iter().collect::<Vec<_>>(),
            "one is deployed, and the records say so"
        );
        if self.releases().any(|release| release.deployed_at.is_some()) {
            assert_eq!(deployed.len(), 1, "exactly one is deployed once one has been");
        }
        for head in stream.heads() {
            let record = self.release_record(head.release.revision.get()).expect("a head has a record");
            assert_eq!(record.record.body, head.release, "the head is the record");
        }
        let fleet = self.store.fleet();
        let needs = tidegate_planner::release::need::of_stream(stream);
        for (service, holder) in &needs {
            let stored = fleet.need(service).and_then(|need| need.streams.get(&self::stream()));
            assert_eq!(stored, Some(holder), "what {service} is needed for is written down");
        }
        for (service, need) in fleet.needs() {
            if !needs.contains_key(service) {
                assert!(!need.streams.contains_key(&self::stream()), "a need that nothing has any more");
            }
            let floor =
                fleet.service(service).and_then(|s| s.window()).filter(|w| !w.is_open()).map(|w| w.floor);
            // It follows a need only as far as a disregarded instance allows.
            let is_held = fleet.disregarded().any(|(of, ..)| of == service);
            if let (Some(floor), Some((_, holder))) = (floor, need.highest()) {
                let is_enough = floor >= holder.minimum || is_held;
                assert!(is_enough, "the floor of {service} fell to {floor} below {holder:?}");
            }
        }
    }
}

/// The commits of what would be done now.
pub(super) fn commits(world: &World) -> Vec<Commit> {
    plan(world.store.fleet(), &world.moment())
        .actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Commit(planned) => Some(planned.commit),
            _ => None,
        })
        .collect()
}

/// The floor of storage that another tool upgrades; none where it has no window.
pub(super) fn watched_floor(world: &World) -> Option<(u32, bool)> {
    match &world.store.keys.get(&Key::Window(service()))?.0 {
        Value::Window(window) => Some((window.body.floor.get(), window.body.ceiling == ServiceVersion::MAX)),
        other => panic!("{other:?}"),
    }
}
