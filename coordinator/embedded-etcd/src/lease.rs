//! Leases: which exist, until when, and which keys are attached to them. Pure: the present is an argument.
//!
//! Deadlines live in memory only. After a restart, and after a stall of this process, every lease restarts with its
//! whole TTL: its holder could not have renewed it meanwhile, so its silence says nothing.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use crate::{mutant, refusal::Refusal};

/// How often the present is noted while there are leases, so that a stall of this process is not taken for a long wait.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Shortest TTL that is granted, in seconds: what etcd grants at its default election timeout.
pub(crate) const MIN_TTL: i64 = 2;

/// Longest TTL that is granted, in seconds: etcd's limit.
pub(crate) const MAX_TTL: i64 = 9_000_000_000;

/// How long this process may go without looking at its leases before it takes itself to have been stopped. Four
/// times the expiry tick: a busy machine is late by tenths of a second, a stopped process by much more.
pub(crate) const STALL: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Lease {
    ttl: i64,
    deadline: Instant,
    keys: BTreeSet<Vec<u8>>,
}

/// What `time_to_live` returns about a lease, times in seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remaining {
    pub(crate) granted: i64,
    pub(crate) left: i64,
    pub(crate) keys: Vec<Vec<u8>>,
}

/// All leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: HashMap<i64, Lease>,
    deadlines: BTreeSet<(Instant, i64)>,
    looked: Option<Instant>,
    stood_still: bool,
}

fn deadline(now: Instant, ttl: i64) -> Instant {
    let seconds = u64::try_from(ttl).unwrap_or(0);
    now.checked_add(Duration::from_secs(seconds)).unwrap_or(now)
}

impl Leases {
    /// Every lease with its TTL in seconds, by id.
    pub(crate) fn ttls(&self) -> Vec<(i64, i64)> {
        let mut ttls: Vec<_> = self.leases.iter().map(|(id, lease)| (*id, lease.ttl)).collect();
        ttls.sort_unstable();
        ttls
    }

    /// Whether a lease exists; id 0 never does.
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// The store answers no request now: the next look gives every lease its whole TTL again.
    pub(crate) fn stand_still(&mut self) {
        self.stood_still = true;
    }

    /// Notes the present. Called before anything else is asked of the leases; where the last call was longer ago
    /// than [`STALL`], or the store answered no request since, every lease gets its whole TTL again. Returns whether that
    /// happened.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        let last = self.looked.replace(now);
        let late = last.is_some_and(|last| now.duration_since(last) > STALL);
        let stalled = (std::mem::take(&mut self.stood_still) || late) && !self.leases.is_empty();
        if stalled {
            self.deadlines.clear();
            for (&id, lease) in &mut self.leases {
                lease.deadline = deadline(now, lease.ttl);
                self.deadlines.insert((lease.deadline, id));
            }
        }
        stalled
    }

    /// Makes a lease; answers the TTL that was granted.
    pub(crate) fn grant(&mut self, id: i64, ttl: i64, now: Instant) -> Result<i64, Refusal> {
        if ttl > MAX_TTL {
            return Err(Refusal::LeaseTtlTooLarge);
        }
        if self.contains(id) {
            return Err(Refusal::LeaseExists);
        }
        let ttl = ttl.max(MIN_TTL);
        let lease = Lease { ttl, deadline: deadline(now, ttl), keys: BTreeSet::new() };
        self.deadlines.insert((lease.deadline, id));
        self.leases.insert(id, lease);
        Ok(ttl)
    }

    /// Restarts a lease's TTL; answers it, or `None` if there is no such lease or it has lapsed.
    pub(crate) fn keep_alive(&mut self, id: i64, now: Instant) -> Option<i64> {
        if !self.contains(id) && mutant::is("lease-is-revived-by-a-late-keep-alive") {
            return self.grant(id, MIN_TTL, now).ok();
        }
        let lease = self.leases.get_mut(&id).filter(|lease| lease.deadline > now)?;
        self.deadlines.remove(&(lease.deadline, id));
        lease.deadline = deadline(now, lease.ttl);
        self.deadlines.insert((lease.deadline, id));
        Some(lease.ttl)
    }

    /// Forgets a lease; answers the keys that hung on it, in order, or `None` if there is no such lease.
    pub(crate) fn remove(&mut self, id: i64) -> Option<BTreeSet<Vec<u8>>> {
        let lease = self.leases.remove(&id)?;
        self.deadlines.remove(&(lease.deadline, id));
        Some(lease.keys)
    }

    /// Takes a key from one lease to another; 0 is none.
    pub(crate) fn move_key(&mut self, key: &[u8], from: i64, to: i64) {
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            lease.keys.insert(key.to_vec());
        }
    }

    /// How long a lease has left, in whole seconds rounded down, or `None` if there is no such lease.
    pub(crate) fn remaining(&self, id: i64, now: Instant) -> Option<Remaining> {
        let lease = self.leases.get(&id)?;
        let left = lease.deadline.saturating_duration_since(now).as_secs();
        Some(Remaining {
            granted: lease.ttl,
            left: i64::try_from(left).unwrap_or(i64::MAX),
            keys: lease.keys.iter().cloned().collect(),
        })
    }

    /// All leases, the one that lapses first at the front.
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.deadlines.iter().map(|&(_, id)| id).collect()
    }

    /// When the first lease lapses.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The lease that has lapsed by `now`, the longest overdue first.
    pub(crate) fn lapsed(&self, now: Instant) -> Option<i64> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|&(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_lapses_after_its_ttl_unless_kept_alive() {
        let start = Instant::now();
        let mut leases = Leases::default();
        assert_eq!(leases.grant(7, 5, start), Ok(5));
        assert_eq!(leases.keep_alive(7, seconds(start, 4)), Some(5));
        assert_eq!(leases.lapsed(seconds(start, 8)), None);
        assert_eq!(leases.lapsed(seconds(start, 9)), Some(7));
        assert_eq!(leases.keep_alive(7, seconds(start, 9)), None);
    }

    #[test]
    fn stall_gives_every_lease_its_whole_ttl_again() {
        let start = Instant::now();
        let mut leases = Leases::default();
        leases.look(start);
        assert_eq!(leases.grant(7, 5, start), Ok(5));
        assert!(!leases.look(seconds(start, 1)));
        assert!(leases.look(seconds(start, 60)));
        assert_eq!(leases.lapsed(seconds(start, 64)), None);
        assert_eq!(leases.lapsed(seconds(start, 65)), Some(7));
    }

    #[test]
    fn store_that_stood_still_gives_every_lease_its_whole_ttl() {
        let start = Instant::now();
        let mut leases = Leases::default();
        leases.look(start);
        assert_eq!(leases.grant(7, 5, start), Ok(5));
        leases.stand_still();
        assert!(leases.look(seconds(start, 1)), "also where that was short");
        assert_eq!(leases.lapsed(seconds(start, 5)), None);
        assert!(!leases.look(seconds(start, 2)), "once");
    }

    #[test]
    fn the_ttl_has_a_floor_and_a_ceiling() {
        let mut leases = Leases::default();
        assert_eq!(leases.grant(1, -3, Instant::now()), Ok(MIN_TTL));
        assert_eq!(leases.grant(2, MAX_TTL + 1, Instant::now()), Err(Refusal::LeaseTtlTooLarge));
        assert_eq!(leases.grant(1, 10, Instant::now()), Err(Refusal::LeaseExists));
    }

    #[test]
    fn a_key_hangs_on_one_lease_at_a_time() {
        let now = Instant::now();
        let mut leases = Leases::default();
        leases.grant(1, 10, now).unwrap();
        leases.grant(2, 10, now).unwrap();
        leases.move_key(b"k", 0, 1);
        leases.move_key(b"k", 1, 2);
        assert_eq!(leases.remove(1), Some(BTreeSet::new()));
        assert_eq!(leases.remove(2), Some(BTreeSet::from([b"k".to_vec()])));
    }
}
