//! The whole history of a store, revision by revision, and whether any rule was broken in it.
//!
//! Nothing of the planner is asked: what must hold is said here once more, in fewer words, from the records alone.
//! `seen` puts the records of one revision together, `rules` and `releases` judge each step from one revision to the next,
//! `lasting` judges what is written once, `groups` metadata groups, `live` what depends on time, `in_use` says what an upgrade had to leave, `tally` counts what was done how often,
//! `falsify` falsifies one.

pub mod falsify;
mod groups;
mod in_use;
mod instance;
mod lasting;
pub mod live;
mod needless;
mod releases;
mod revision;
mod rules;
mod seen;
mod streams;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use etcd_client::{Client, EventType, KeyValue, WatchOptions};
use thiserror::Error;
use tidegate_proto::{InstanceId, Key, NodeId, Prefix, Value};

pub use revision::{LIE, Put, Revision, Written};
pub use rules::Broken;
pub use tally::{Deeds, Tally};

/// How long the store may take to send its history.
const LIMIT: Duration = Duration::from_secs(30);

/// A history.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Every revision that wrote something, in order.
    pub revisions: Vec<Revision>,
    /// Agents that were started again, by their node, each after a revision: what the one before it had said goes with its
    /// lease, and the new one was admitted under its own.
    pub restarts: Vec<(NodeId, i64)>,
    /// Instances whose agent was started without its journal, each after a revision: nothing of what the one before it had
    /// reported is known to it.
    pub without_journal: Vec<(InstanceId, i64)>,
    /// Keys whose record cannot be read.
    pub spoilt: BTreeSet<Key>,
    /// Revisions in which a person put back what such a record was: no coordinator wrote them.
    pub by_hand: BTreeSet<i64>,
    /// Revisions in which something else wrote in place of an agent that a simulation had killed.
    pub lies: BTreeSet<i64>,
    /// When the auditor saw each revision, in milliseconds. Empty in a history that was read afterwards.
    pub seen_at: BTreeMap<i64, u64>,
    /// When a leader was stopped and when it went on, in milliseconds, one after the other: it led all that time.
    pub stops: Vec<(u64, u64)>,
    /// When requests of coordinators were late or lost, in milliseconds, one time after the other: it goes on where it ends at
    /// `u64::MAX`.
    pub delays: Vec<(u64, u64)>,
    /// Of a copy that took the place of another store: the revision at which it was made, and when it did, in milliseconds.
    pub copied: Option<(i64, u64)>,
}

/// How much later than the auditor a coordinator that is not stopped may see a revision, in milliseconds.
const LATE: u64 = 2_000;

/// The same while requests are late, and until those that were sent then have arrived: the commits of a turn follow each
/// other, and each rests on what was seen before the first.
const DELAYED: u64 = 6_000;

/// Why a history could not be had.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The store did not answer.
    #[error("could not read the store's history")]
    Store(#[from] etcd_client::Error),
    /// It has forgotten its beginning.
    #[error("the store's history before revision {0} was compacted away")]
    Compacted(i64),
    /// It stopped in the midst of it.
    #[error("the history was read up to revision {read} of {whole} only")]
    Short {
        /// The last revision that it sent.
        read: i64,
        /// The last that there is.
        whole: i64,
    },
    /// A key or a record that cannot be read.
    #[error("{key} at revision {at} cannot be read: {why}")]
    Unreadable {
        /// The key.
        key: String,
        /// The revision.
        at: i64,
        /// What is wrong with it.
        why: String,
    },
}

impl Trace {
    /// Reads the history of a prefix from its beginning to now.
    ///
    /// # Errors
    /// [`TraceError`].
    pub async fn read(endpoint: &str, prefix: &Prefix) -> Result<Self, TraceError> {
        let mut client = Client::connect([endpoint], None).await?;
        let now = client.get(prefix.all(), None).await?;
        let whole = now.header().map_or(0, etcd_client::ResponseHeader::revision);
        let mut trace = Self::default();
        // A long history is more than one message may hold.
        let options =
            WatchOptions::new().with_prefix().with_start_revision(1).with_progress_notify().with_fragment();
        let mut stream = client.watch(prefix.all(), Some(options)).await?;
        let (mut read, mut is_whole) = (0, false);
        while !is_whole {
            if read >= whole {
                // The last revision may come in several messages: a sign of progress comes after all of them.
                stream.request_progress().await?;
            }
            let next = tokio::time::timeout(LIMIT, stream.message()).await;
            let message = next.map_err(|_| TraceError::Short { read, whole })??;
            let message = message.ok_or(TraceError::Short { read, whole })?;
            if message.compact_revision() > 0 {
                return Err(TraceError::Compacted(message.compact_revision()));
            }
            for event in message.events() {
                let Some(kv) = event.kv() else { continue };
                read = kv.mod_revision();
                if read <= whole {
                    trace.take_in(prefix, kv, event.event_type() == EventType::Delete)?;
                }
            }
            if message.events().is_empty() && !message.created() {
                // What the store has beyond the last event is not under this prefix.
                read = read.max(message.header().map_or(0, etcd_client::ResponseHeader::revision));
                is_whole = read >= whole;
            }
        }
        Ok(trace)
    }

    /// Takes in one event of a watch.
    ///
    /// # Errors
    /// [`TraceError::Unreadable`].
    pub fn take_in(&mut self, prefix: &Prefix, kv: &KeyValue, gone: bool) -> Result<(), TraceError> {
        let at = kv.mod_revision();
        let unreadable = |why: String| TraceError::Unreadable {
            key: String::from_utf8_lossy(kv.key()).into_owned(),
            at,
            why,
        };
        let key = match prefix.parse(kv.key()) {
            Some(key) => key.map_err(|e| unreadable(e.to_string()))?,
            None => return Ok(()),
        };
        let put = match gone {
            true => None,
            false => {
                let value = Value::decode(&key, kv.value()).map_err(|e| unreadable(e.to_string()))?;
                Some(Put { value, created: kv.create_revision(), lease: kv.lease() })
            }
        };
        // Only a key that is gone has no version.
        let written = Written { key, put, gone: kv.version() == 0 };
        match self.revisions.last_mut() {
            Some(last) if last.number == at => last.writes.push(written),
            _ => self.revisions.push(Revision { number: at, writes: vec![written] }),
        }
        Ok(())
    }

    /// The state at its end, to be judged further as it is written.
    pub fn live(&self) -> live::Live {
        live::Live::after(self)
    }

    /// The agent of a node is started again now.
    pub(crate) fn note_restart(&mut self, node: &str) {
        let at = self.last();
        self.restarts.extend(node.parse().ok().map(|node| (node, at)));
    }

    /// The agent of an instance is started without its journal now.
    pub(crate) fn note_lost_journal(&mut self, instance: InstanceId) {
        let at = self.last();
        self.without_journal.push((instance, at));
    }

    /// From now on requests of coordinators are late or lost, or are not any more.
    pub(crate) fn note_network(&mut self, is_bad: bool, now: u64) {
        let goes_on = self.delays.last_mut().filter(|(_, ended)| *ended == u64::MAX);
        match (goes_on, is_bad) {
            (None, true) => self.delays.push((now, u64::MAX)),
            (Some((_, ended)), false) => *ended = now,
            _ => {}
        }
    }

    /// The last revision that wrote something.
    fn last(&self) -> i64 {
        self.revisions.last().map_or(0, |revision| revision.number)
    }

    /// Takes over the starts of agents and the stops of leaders that came after this history was kept, from the history of
    /// the store that followed.
    pub(crate) fn take_over_processes(&mut self, later: &Self) {
        self.restarts.clone_from(&later.restarts);
        self.stops.clone_from(&later.stops);
        self.delays.clone_from(&later.delays);
        let since = later.without_journal.iter().skip(self.without_journal.len());
        // They were after all that is kept, whatever the revision in the other store.
        self.without_journal.extend(since.map(|(instance, _)| (instance.clone(), i64::MAX)));
    }

    /// Goes back to a revision at which a copy of the store was made: what was written to the store afterwards is not in the
    /// copy's history. An agent that was started again afterwards was started before the copy took the store's place.
    pub fn go_back_to(&mut self, made: i64) {
        self.revisions.retain(|revision| revision.number <= made);
        self.seen_at.retain(|number, _| *number <= made);
        self.by_hand.retain(|number| *number <= made);
        self.lies.retain(|number| *number <= made);
        self.restarts.iter_mut().for_each(|(_, at)| *at = (*at).min(made));
        self.without_journal.iter_mut().for_each(|(_, at)| *at = (*at).min(made));
    }

    /// The last revision that a coordinator had seen for certain when it wrote this one. A leader sees nothing while it is
    /// stopped: that time does not count.
    fn known_at(&self, number: i64) -> i64 {
        let Some(now) = self.seen_at.get(&number) else { return number - 1 };
        let late = self.late_at(*now);
        let known = |(_, at): &(&i64, &u64)| *at + late <= *now;
        self.seen_at.range(..number).rev().find(known).map_or(0, |(number, _)| *number)
    }

    /// How much later than the auditor a coordinator may see what there is now, in milliseconds.
    fn late_at(&self, now: u64) -> u64 {
        let is_delayed = |(began, ended): &(u64, u64)| *began <= now && now < ended.saturating_add(DELAYED);
        let usual = if self.delays.iter().any(is_delayed) { DELAYED } else { LATE };
        let before = self.stops.iter().rev().filter(|(_, ended)| *ended <= now);
        before.fold(usual, |late, (began, ended)| match ended + late > now {
            true => late + (ended - began),
            false => late,
        })
    }

    /// Whether a revision of a copy may have been planned on the store that was there before: its leader led that one, too, and
    /// did not have to know of the copy yet. Its request may have been under way.
    fn is_of_former_view(&self, number: i64, before: &seen::Seen) -> bool {
        let (Some((made, at)), Some(now)) = (self.copied, self.seen_at.get(&number)) else { return false };
        let led_before = before.leader.as_ref().is_some_and(|leader| leader.revision <= made);
        number > made && led_before && *now < at + self.late_at(*now)
    }

    /// Every breach of a rule; none in a history that is good.
    pub fn breaches(&self) -> Vec<Broken> {
        let mut broken = streams::judge(&self.revisions);
        let is_foreign = |number| self.by_hand.contains(&number) || self.lies.contains(&number);
        broken.extend(lasting::judge(&self.revisions, is_foreign));
        broken.extend(groups::judge(&self.revisions, is_foreign));
        let agents = rules::Agents {
            restarts: &self.restarts,
            without_journal: &self.without_journal,
            lies: &self.lies,
        };
        // Each takes in every revision, one after the other: a copy of all records for each revision would cost more.
        let (mut before, mut after) = (seen::Seen::default(), seen::Seen::default());
        for revision in &self.revisions {
            after.take_in(revision);
            if !self.by_hand.contains(&revision.number) {
                let known = rules::Known {
                    last: self.known_at(revision.number),
                    of_former_view: self.is_of_former_view(revision.number, &before),
                };
                broken.extend(rules::judge(agents, &before, revision, &after, known));
            }
            before.take_in(revision);
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(node: &str) -> InstanceId {
        InstanceId::new("pantry".parse().unwrap(), node.parse().unwrap())
    }

    #[test]
    fn journal_lost_in_another_store_is_lost_after_the_copy() {
        let kept =
            Trace { without_journal: vec![(instance("n1"), 40), (instance("n2"), 70)], ..Trace::default() };
        let mut later = kept.clone();
        later.go_back_to(1);
        later.note_lost_journal(instance("n3"));
        let mut copied = kept;
        copied.take_over_processes(&later);
        copied.go_back_to(60);
        let lost = [("n1", 40), ("n2", 60), ("n3", 60)].map(|(node, at)| (instance(node), at));
        assert_eq!(copied.without_journal, lost);
    }

    #[test]
    fn stopped_leader_knows_what_it_had_seen_before() {
        // Each revision is seen a second after the one before it, and the tenth is judged.
        let known_after = |stops: &[(u64, u64)]| {
            let seen_at = (1..=12).zip((1..=12).map(|n| n * 1_000)).collect();
            Trace { seen_at, stops: stops.to_vec(), ..Trace::default() }.known_at(10)
        };
        assert_eq!(known_after(&[]), 8);
        assert_eq!(known_after(&[(7_000, 10_000)]), 5);
        assert_eq!(known_after(&[(8_500, 9_500)]), 7);
        assert_eq!(known_after(&[(5_000, 8_000)]), 8, "it has had its two seconds since then");
        assert_eq!(known_after(&[(9_000, 11_000)]), 8, "the stop ends later");
        assert_eq!(known_after(&[(4_500, 6_500), (7_500, 9_500)]), 4, "half a second, one, and half of one");
    }

    /// Several commits of one turn arrive late, one after the other.
    #[test]
    fn leader_in_a_bad_network_knows_what_it_had_seen_before() {
        let known_after = |began: u64, ended: Option<u64>| {
            let mut later = Trace::default();
            later.note_network(true, began);
            later.note_network(true, began + 1);
            ended.into_iter().for_each(|ended| later.note_network(false, ended));
            let seen_at = (1..=12).zip((1..=12).map(|n| n * 1_000)).collect();
            let mut trace = Trace { seen_at, ..Trace::default() };
            trace.take_over_processes(&later);
            trace.known_at(10)
        };
        assert_eq!(known_after(9_000, None), 4);
        assert_eq!(known_after(1_000, Some(4_001)), 4, "what was sent then may have been under way");
        assert_eq!(known_after(1_000, Some(4_000)), 8, "it has arrived");
        assert_eq!(known_after(10_001, None), 8, "it is good still");
    }

    #[test]
    fn leader_stopped_before_its_store_was_lost_is_late_after_it() {
        let mut copied = Trace::default();
        copied.take_over_processes(&Trace { stops: vec![(7_000, 9_000)], ..Trace::default() });
        copied.seen_at.extend([(1, 6_500), (2, 9_500)]);
        assert_eq!(copied.known_at(2), 0);
    }
}
