//! A change of one stream in the making: what it was, what it becomes, and the one way in which its commit is built.
//!
//! # Invariants
//! * Every commit compares the leader's key and the stream's mod_revision: two changes of a stream never both happen.
//! * Whatever the change does to a release is written under that release's own key in the same transaction, and so is
//!   what it changes in the needs; so are the removals withdrawn of images that it makes wanted again.

use crate::fleet::{Fleet, Stored};
use crate::gate::version::below;
use crate::moment::Moment;
use crate::release::need;
use crate::release::status::{Move, Refused, transition};
use crate::stream::image;
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::{EventSeq, Subject};
use tidegate_proto::record::event::Event;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{Head, Latest, Running, Stream};
use tidegate_proto::{Key, ReleaseRevision, Revision, StreamName, Value, mutant};

/// A change of a stream.
pub(crate) struct Change<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) moment: &'a Moment,
    pub(crate) name: &'a StreamName,
    stored: Option<&'a Stored<Stream>>,
    /// What it becomes: the counts carried on, for a start.
    pub(crate) stream: Stream,
    /// Releases that left the heads, as they left.
    departed: Vec<ComputeRelease>,
    extra: Commit,
    events: Vec<(Key, Event)>,
}

/// What a change is, in the words of its event.
pub(crate) struct StreamEvent<'a> {
    pub(crate) who: &'a str,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) because: String,
    /// Which of the events of this turn it is.
    pub(crate) number: u64,
}

impl<'a> Change<'a> {
    /// A change of the stream as it is seen, or of one that is not there yet.
    pub(crate) fn of(fleet: &'a Fleet, moment: &'a Moment, name: &'a StreamName) -> Self {
        let stored = fleet.stream(name);
        let mut stream = stored.map_or_else(Stream::default, |stored| stored.record.body.clone());
        carry_on(&mut stream, moment.uncounted.get(name).copied().unwrap_or(0));
        Self {
            fleet,
            moment,
            name,
            stored,
            stream,
            departed: Vec::new(),
            extra: Commit::new(),
            events: Vec::new(),
        }
    }

    /// The mod_revision of the stream as it is seen.
    pub(crate) fn at(&self) -> Revision {
        self.stored.map_or(Revision::ABSENT, |stored| stored.at)
    }

    /// Adds what must hold besides.
    pub(crate) fn relies_on(&mut self, compares: impl IntoIterator<Item = Precondition>) {
        self.extra.when.extend(compares);
    }

    /// Adds what is written besides.
    pub(crate) fn also(&mut self, change: impl FnOnce(Commit) -> Commit) {
        self.extra = change(std::mem::take(&mut self.extra));
    }

    /// A new revision waits.
    pub(crate) fn created(&mut self, release: ComputeRelease) {
        self.stream.latest = Some(Latest { revision: release.revision, digest: release.digest });
        let highest = self.stream.branches.entry(release.branch.clone()).or_insert(release.version);
        *highest = release.version.max(*highest);
        self.stream.pending.push(Head::new(release));
    }

    /// A waiting release, or the canary, begins to be what new computes start with. What was deployed is superseded,
    /// and so is every release before it that waits or is in canary.
    pub(crate) fn goes_out(&mut self, revision: ReleaseRevision) -> Result<(), Refused> {
        let Some(mut head) = self.take(revision) else { return Ok(()) };
        step(&mut head, Move::GoOut)?;
        head.release.deployed_at = Some(self.moment.wall);
        (head.on_trial, head.fraction, head.salted) = (false, None, false);
        if !mutant::is("superseded-is-forgotten") {
            self.overtaken_by(revision)?;
        }
        self.runs_as(&head.release);
        self.stream.deployed = Some(Box::new(head));
        Ok(())
    }

    /// A waiting release begins its canary. A manual strategy does not wait for the canary that there is: that one is
    /// superseded.
    pub(crate) fn begins_canary(
        &mut self,
        revision: ReleaseRevision,
        fraction: tidegate_proto::Fraction,
    ) -> Result<(), Refused> {
        let Some(mut head) = self.take(revision) else { return Ok(()) };
        step(&mut head, Move::BeginCanary)?;
        (head.on_trial, head.fraction, head.canary_ms) = (false, Some(fraction), 0);
        head.salted = true;
        self.runs_as(&head.release);
        match self.stream.canary.replace(Box::new(head)) {
            Some(former) => self.superseded(*former),
            None => Ok(()),
        }
    }

    /// Computes that run the tag of what goes out need from now on what it requires.
    fn runs_as(&mut self, release: &ComputeRelease) {
        if let Some(running) = self.stream.running.get_mut(&release.tag) {
            *running = Running::of(running.count, Some(release));
        }
    }

    /// A waiting release, or the canary, has failed.
    pub(crate) fn fails(&mut self, revision: ReleaseRevision, because: &str) -> Result<(), Refused> {
        let Some(mut head) = self.take(revision) else { return Ok(()) };
        step(&mut head, Move::Fail)?;
        head.release.because = because.to_owned();
        (head.on_trial, head.fraction, head.salted) = (false, None, false);
        self.keep(head);
        Ok(())
    }

    /// Resets a failed release to waiting, as if it had just been created; its hooks run again.
    pub(crate) fn tried_again(&mut self, revision: ReleaseRevision) -> Result<(), Refused> {
        let failed =
            |head: &Head| head.release.revision == revision && head.release.status == ReleaseStatus::Error;
        if let Some(at) = self.stream.kept.iter().position(failed) {
            let mut head = Head::new(self.stream.kept[at].release.clone());
            step(&mut head, Move::TryAgain)?;
            head.attempt = self.stream.kept.remove(at).attempt + 1;
            self.stream.pending.push(head);
            self.stream.pending.sort_by_key(|head| head.release.revision);
        }
        Ok(())
    }

    /// What could not be removed is tried again.
    pub(crate) fn removed_again(&mut self, revision: ReleaseRevision) {
        for head in self.stream.kept.iter_mut().filter(|head| head.release.revision == revision) {
            head.attempt += 1;
        }
    }

    /// Whether a release is kept as it was before this change.
    pub(crate) fn was_kept(&self, head: &Head) -> bool {
        let same = |former: &Head| {
            former.release.revision == head.release.revision && former.release.status == head.release.status
        };
        self.stored.is_some_and(|stored| stored.kept.iter().any(same))
    }

    /// A kept release is collected.
    pub(crate) fn collected(&mut self, revision: ReleaseRevision, because: &str) -> Result<(), Refused> {
        if let Some(head) = self.stream.kept.iter_mut().find(|head| head.release.revision == revision) {
            step(head, Move::Collect)?;
            head.release.because = because.to_owned();
        }
        Ok(())
    }

    /// Nothing will happen to a kept release any more: it is history only.
    pub(crate) fn departs(&mut self, revision: ReleaseRevision) {
        if let Some(at) = self.stream.kept.iter().position(|head| head.release.revision == revision) {
            self.departed.push(self.stream.kept.remove(at).release);
        }
    }

    /// The head of a release that waits or is in canary, taken out of its place.
    fn take(&mut self, revision: ReleaseRevision) -> Option<Head> {
        if let Some(head) = self.stream.canary.take_if(|head| head.release.revision == revision) {
            return Some(*head);
        }
        let at = self.stream.pending.iter().position(|head| head.release.revision == revision)?;
        Some(self.stream.pending.remove(at))
    }

    fn overtaken_by(&mut self, revision: ReleaseRevision) -> Result<(), Refused> {
        let (before, after) = std::mem::take(&mut self.stream.pending)
            .into_iter()
            .partition(|head| head.release.revision < revision);
        self.stream.pending = after;
        let canary = self.stream.canary.take_if(|head| head.release.revision < revision);
        let deployed = self.stream.deployed.take();
        for head in deployed.into_iter().chain(canary).map(|head| *head).chain::<Vec<Head>>(before) {
            self.superseded(head)?;
        }
        Ok(())
    }

    fn superseded(&mut self, mut head: Head) -> Result<(), Refused> {
        step(&mut head, Move::Overtake)?;
        (head.on_trial, head.fraction, head.salted) = (false, None, false);
        self.keep(head);
        Ok(())
    }

    /// In order of revisions.
    fn keep(&mut self, mut head: Head) {
        head.superseded_ms = 0;
        let revision = head.release.revision;
        let at = self.stream.kept.partition_point(|kept| kept.release.revision < revision);
        self.stream.kept.insert(at, head);
    }

    /// Adds an event.
    pub(crate) fn record(&mut self, events: StreamEvent<'_>) {
        let seq = EventSeq { term: self.moment.leader.revision.0, number: events.number };
        let key = Key::Event(Subject::Stream(self.name.clone()), seq);
        let event = Event {
            from: events.from,
            to: events.to,
            because: events.because,
            who: events.who.to_owned(),
            at: self.moment.wall,
        };
        self.events.push((key, event));
    }

    /// The commit, with its events; counts that go on have none.
    pub(crate) fn commit(mut self) -> Commit {
        self.names_what_runs_below();
        let key = Key::Stream(self.name.clone());
        let at = self.at();
        let commit = match mutant::is("stream-is-not-compared") {
            true => Commit::new(),
            false => Commit::new().when(Precondition::At(key.clone(), at)),
        };
        let commit = self.releases(commit);
        let mut commit = need::rewritten(self.fleet, commit, self.name, &self.stream);
        for compared in self.extra.when {
            if !commit.when.contains(&compared) {
                commit.when.push(compared);
            }
        }
        commit.writes.extend(self.extra.writes);
        let written: Value = match self.stored {
            Some(stored) => stored.record.with(self.stream.clone()).into(),
            None => self.stream.clone().into(),
        };
        let events = self.events.into_iter();
        let commit = events.fold(commit.put(key, written), |commit, (key, event)| {
            commit.when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, event)
        });
        // Last, because it takes the room that the others leave.
        image::withdrawn(self.fleet, commit, self.name, &self.stream)
    }

    /// Adds to the event what already runs less than the stream begins to need.
    fn names_what_runs_below(&mut self) {
        let below = below::begun_below(self.fleet, self.name, &need::of_stream(&self.stream));
        let Some((_, event)) = self.events.last_mut() else { return };
        for sentence in below {
            let separator = if event.because.is_empty() { "" } else { "; " };
            event.because = format!("{}{separator}{sentence}", event.because);
        }
    }

    /// Every release that is not as it was, under its own key.
    fn releases(&self, commit: Commit) -> Commit {
        let before: BTreeMap<ReleaseRevision, &ComputeRelease> = self
            .stored
            .iter()
            .flat_map(|stored| stored.heads())
            .map(|head| (head.release.revision, &head.release))
            .collect();
        let after = self.stream.heads().map(|head| &head.release).chain(&self.departed);
        after.filter(|release| before.get(&release.revision) != Some(release)).fold(
            commit,
            |commit, release| {
                let key = Key::Release(self.name.clone(), release.revision);
                let commit = match before.contains_key(&release.revision) {
                    true => commit,
                    false => commit.when(Precondition::At(key.clone(), Revision::ABSENT)),
                };
                commit.put(key, release.clone())
            },
        )
    }
}

fn step(head: &mut Head, happened: Move) -> Result<(), Refused> {
    head.release.status = transition(head.release.status, happened)?;
    head.release.because.clear();
    Ok(())
}

/// The current counts: the record says where they began, this leader counted on since it saw the record.
pub(crate) fn carry_on(stream: &mut Stream, ms: u64) {
    if let Some(canary) = &mut stream.canary {
        canary.canary_ms += ms;
    }
    for head in &mut stream.pending {
        head.trial_ms += if head.on_trial { ms } else { 0 };
        head.available_ms += if head.available == Some(true) { ms } else { 0 };
    }
    for head in &mut stream.kept {
        head.superseded_ms += if head.release.status == ReleaseStatus::Superseded { ms } else { 0 };
    }
}
