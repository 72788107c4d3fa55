//! What no coordinator could know when it gave an order.

use super::super::agent::IMPOSTOR;
use super::super::misled::lasted_until;
use super::super::slot::{At, Cause, Hiccup, Slot};
use super::{Facts, LAG, OLD, SEEN};
use tidegate_proto::ReleaseTag;
use tidegate_proto::record::directive::Disposition;

impl Facts {
    /// Whether an order was given while a person kept the instance out, or before a coordinator could know that they no longer
    /// do; or just after it came in again that had been out by itself for long enough to be known.
    pub(super) fn is_ordered_unknowing(&self, of: (At, Option<&Slot>), ordered_at: u64, now: u64) -> bool {
        let (at, slot) = of;
        let is_shown = self.shown.get(&at).is_some_and(|shown| ordered_at < shown + LAG && now < shown + OLD);
        let has_recovered = slot.is_some_and(|slot| {
            let was_known = matches!(
                slot.out_before,
                Some((since, Cause::Misfortune(_))) if since + OLD < slot.came_at
            );
            let is_old = now >= slot.came_at + OLD;
            was_known && !is_old && (slot.came_at..slot.came_at + LAG).contains(&ordered_at)
        });
        is_shown || has_recovered
    }

    /// Whether an agent alone, without an order, refuses what came into rotation outside the window: after the window was set,
    /// or after it had been out by itself, as its agent may still know it. What was there before, or for longer than its agent
    /// needs to see it, stays until it is drained; what heeds no disable-file goes once it does. What no store has ever admitted
    /// is not let in by its agent: it goes once that can read the window and put a disable-file.
    pub(super) fn is_refused_alone(&self, (at, slot): (At, &Slot), now: u64) -> bool {
        let window = self.services.get(at.0).and_then(|service| service.windows.last());
        let came_after = slot.came_at > window.map_or(0, |(since, ..)| *since);
        let had_failed = matches!(slot.out_before, Some((_, Cause::Misfortune(_))));
        let heeds_at = slot.hiccups.get(&Hiccup::Heedless).copied().unwrap_or(0);
        let is_seen = now >= slot.came_at.max(heeds_at) + SEEN;
        let was_out_of_reach = !self.silent.is_known(at) && self.is_kept_from_reporting(at, now);
        let is_refused = was_out_of_reach || (came_after || had_failed) && !is_seen;
        is_refused && !self.ordered_out.contains_key(&at)
    }

    /// Whether the agent of an instance lied after its release began to run there, or so short a time before that what was begun
    /// then may have been under way: what runs is unknown, and is not judged.
    pub(in crate::simulate) fn is_unknown(&self, at: At, slot: &Slot) -> bool {
        lasted_until(&self.byzantine, at.1, slot.release_since)
    }

    /// The agent of an instance starts a release. Where the last directive replaces what ran with this release, it is carried
    /// out by that: what had ended by itself was not stopped before.
    pub(in crate::simulate) fn started_by_agent(&mut self, at: At, tag: &str) {
        self.forget_changes(at);
        if self.replaced_by.get(&at).is_some_and(|ordered| ordered == tag) {
            self.stopped(at);
        }
    }

    /// Whether a directive, which is written now, says again what is carried out: the release of the last order is in rotation,
    /// and its agent takes nothing out; or it was started and did not come in since, so that its agent goes on to verify it.
    pub(in crate::simulate) fn is_carried_out(
        &self,
        (at, slot): (At, Option<&Slot>),
        disposition: &Disposition,
        now: u64,
    ) -> bool {
        let Disposition::Replace { release } = disposition else { return false };
        let tag = release.tag.as_str();
        let is_ordered = self.replaced_by.get(&at).is_some_and(|ordered| ordered == tag);
        let runs = |slot: &Slot| {
            let run = slot.alive(now).filter(|run| run.tag == tag);
            run.is_some_and(|run| slot.serves || !run.put_back && slot.came_at < run.since)
        };
        is_ordered && slot.is_some_and(runs) && !self.ordered_out.contains_key(&at)
    }

    /// The agent with this nonce admits an instance, as this release where it knows that.
    pub(in crate::simulate) fn admitted_by(
        &mut self,
        at: At,
        nonce: &str,
        release: Option<ReleaseTag>,
        now: u64,
    ) {
        if nonce == IMPOSTOR {
            self.admitted_beside.insert(at, (now, release));
        } else {
            self.admitted_beside.remove(&at);
        }
    }

    /// Whether a release that reports this version was started before its agent lost its journal, or so short a time after that
    /// that a hook may have been under way: nothing tells it from that version, unless it was admitted with its release before.
    /// The same holds where a second agent of the node, which has no journal of its start, admitted it last, as another release.
    pub(in crate::simulate) fn is_taken_for(&self, at: At, slot: &Slot, version: u32) -> bool {
        let Some(run) = slot.running.as_ref().filter(|run| run.is.says == Some(version)) else {
            return false;
        };
        let since = slot.release_since;
        let by_second = self.admitted_beside.get(&at).is_some_and(|(then, release)| {
            since <= *then && release.as_ref().is_none_or(|tag| tag.as_str() != run.tag)
        });
        by_second || lasted_until(&self.journals_lost, at.1, since)
    }

    /// The version for which the agent of an instance takes what runs after a store was lost. One that lost its journal takes a
    /// release that was started before this store was obeyed for what that says: no admission in it names the release. One that
    /// knows of no version but the answer goes by what it answers now.
    pub(in crate::simulate) fn taken_for(&self, at: At, slot: &Slot, now: u64) -> Option<u32> {
        let (until, _) = self.services.get(at.0)?.former.as_ref()?;
        if self.goes_by_answer(at) {
            return slot.said_version(now);
        }
        let says = slot.running.as_ref()?.is.says?;
        (slot.release_since < *until && self.is_taken_for(at, slot, says)).then_some(says)
    }

    /// The same of the version before the one that uses what a rollback of an upgrade of the schema undoes.
    pub(in crate::simulate) fn is_taken_for_former(&self, at: At, slot: &Slot) -> bool {
        let Some(service) = self.services.get(at.0) else { return false };
        let undone = service.undone.as_ref().map(|(needs, _)| *needs);
        let undone = [service.undoing.map(|(needs, _)| needs), undone];
        undone.into_iter().flatten().any(|needs| self.is_taken_for(at, slot, needs.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;
    use crate::simulate::silence::Counted;
    use crate::simulate::slot::{Behaviour, Running};
    use tidegate_proto::{Digest, Release, ServiceVersion};

    const PLACE: At = (0, 0);

    /// A release of version 2 that was started 10 s after the beginning.
    fn release(says: Option<u32>) -> Slot {
        let is = Behaviour { says, ..Behaviour::good(2, 0) };
        let running = Running { tag: "pantry-2".to_owned(), is, since: 10_000, pid: 1, put_back: false };
        Slot { running: Some(running), release_since: 10_000, ..Slot::default() }
    }

    /// The judge of a service whose agent lost its journal for a moment before that.
    fn facts(change: impl FnOnce(&mut ServiceFacts)) -> Facts {
        let mut service = ServiceFacts::default();
        change(&mut service);
        Facts { services: vec![service], journals_lost: [(PLACE.1, 9_000)].into(), ..Facts::default() }
    }

    #[test]
    fn lying_release_is_taken_for_what_it_says_without_a_journal() {
        let mut judged = facts(|_| ());
        assert!(judged.is_taken_for(PLACE, &release(Some(1)), 1));
        assert!(!judged.is_taken_for(PLACE, &release(Some(1)), 2), "it says another version");
        assert!(!judged.is_taken_for(PLACE, &release(None), 1), "it says what it is");
        assert!(!judged.is_taken_for((0, 1), &release(Some(1)), 1), "the journal of another agent was lost");
        judged.journals_lost.clear();
        assert!(!judged.is_taken_for(PLACE, &release(Some(1)), 1), "its journal has what was started");
    }

    #[test]
    fn heedless_newcomer_is_refused_once_it_heeds_its_file() {
        let is_refused = |came_at: u64, heedless_until: Option<u64>| {
            let judged = facts(|service| service.windows = vec![(20_000, 1, 1)]);
            let hiccups = heedless_until.map(|until| (Hiccup::Heedless, until)).into_iter().collect();
            judged.is_refused_alone((PLACE, &Slot { came_at, hiccups, ..release(None) }), 60_000)
        };
        assert!(is_refused(60_001 - SEEN, None) && !is_refused(60_000 - SEEN, None));
        assert!(is_refused(30_000, Some(60_001 - SEEN)), "it went out by the file that was there");
        assert!(!is_refused(30_000, Some(60_000 - SEEN)), "it has heeded for long enough");
        assert!(!is_refused(20_000, Some(60_000)), "it was there before the window");
    }

    /// A node joins while its agent is cut off. A rollback moves the window, and the only other instance fails.
    #[test]
    fn unadmitted_newcomer_is_refused_once_its_agent_can() {
        let broken = |change: fn(&mut Facts)| {
            let mut judged = facts(|service| {
                (service.instances, service.min_in_service) = (2, 1);
                service.windows = vec![(0, 1, 2), (20_000, 1, 1)];
            });
            judged.agents_cut.insert(PLACE.1, 60_001 - SEEN);
            change(&mut judged);
            let refused = Slot { came_at: 30_000, out: Some((60_000, Cause::Order)), ..release(None) };
            let failed = Slot { out: Some((10_000, Cause::Misfortune("its health"))), ..release(None) };
            judged.taken_out(60_000, PLACE, &[(PLACE, refused), ((0, 1), failed)].into(), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(|_| ()), None, "its agent alone refuses it");
        let came_before = |judged: &mut Facts| judged.services[0].windows.push((40_000, 1, 1));
        assert_eq!(broken(came_before), None, "it came in before the window was set");
        let away: [fn(&mut Facts); 2] = [
            |judged| judged.agents_stalled = std::mem::take(&mut judged.agents_cut),
            |judged| {
                judged.agents_cut.clear();
                judged.disks_full.insert(PLACE.1, 60_001 - SEEN - 5_000);
            },
        ];
        for change in away {
            assert_eq!(broken(change), None, "its agent was stopped, or its disk was full");
        }
        let others: [(&str, fn(&mut Facts)); 5] = [
            ("it has reached the store for long enough", |judged| {
                judged.reconnected(PLACE.1, 60_000 - SEEN);
            }),
            ("a store has admitted it", |judged| judged.silent.admitted(PLACE, 0)),
            ("a store that was lost has admitted it", |judged| {
                judged.silent.admitted(PLACE, 0);
                judged.silent.begin_again();
            }),
            ("an order takes it out", |judged| judged.directs(PLACE, &Disposition::Drain, 59_990)),
            ("the window admits it", |judged| judged.services[0].windows.push((40_000, 1, 2))),
        ];
        for (why, other) in others {
            assert_eq!(broken(other), Some(4), "{why}");
        }
    }

    #[test]
    fn lying_release_of_a_lost_store_comes_in_as_what_it_says() {
        let broken = |change: fn(&mut Facts), says: Option<u32>| {
            let mut judged = facts(|service| {
                service.windows = vec![(20_000, 1, 1)];
                service.former = Some((35_000, vec![1..=2]));
            });
            change(&mut judged);
            let taken_for = judged.taken_for(PLACE, &release(says), 60_000);
            judged.came_in(60_000, PLACE, (2, taken_for), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(|_| (), Some(1)), None);
        assert_eq!(broken(|_| (), None), Some(2), "it says what it is");
        let others: [(&str, fn(&mut Facts)); 4] = [
            ("no store was lost", |judged| judged.services[0].former = None),
            ("it was started in this store", |judged| {
                judged.services[0].former = Some((10_000, vec![1..=2]))
            }),
            ("its journal has what was started", |judged| judged.journals_lost.clear()),
            ("what it says is outside, too", |judged| judged.services[0].windows[0] = (20_000, 3, 3)),
        ];
        for (why, other) in others {
            assert_eq!(broken(other, Some(1)), Some(2), "{why}");
        }
    }

    #[test]
    fn lying_release_is_taken_for_what_it_says_by_a_second_agent() {
        let is_taken = |admissions: &[(At, &str, &str, u64)], says: Option<u32>| {
            let mut judged = Facts::default();
            for (at, nonce, tag, now) in admissions {
                judged.admitted_by(*at, nonce, Some(tag.parse().unwrap()), *now);
            }
            judged.is_taken_for(PLACE, &release(says), 1)
        };
        let second = (PLACE, IMPOSTOR, "pantry-1", 10_000);
        assert!(is_taken(&[second], Some(1)));
        assert!(!is_taken(&[second], Some(3)), "it says another version");
        assert!(!is_taken(&[second], None), "it says what it is");
        let others = [
            ("it was started later", (PLACE, IMPOSTOR, "pantry-1", 9_999)),
            ("the second agent has started it", (PLACE, IMPOSTOR, "pantry-2", 10_000)),
            ("another instance was admitted", ((0, 1), IMPOSTOR, "pantry-1", 10_000)),
        ];
        for (why, other) in others {
            assert!(!is_taken(&[other], Some(1)), "{why}");
        }
        let own = (PLACE, "nonce-0", "pantry-1", 11_000);
        assert!(!is_taken(&[second, own], Some(1)), "its own agent has its journal");
        assert!(is_taken(&[own, second], Some(1)), "the second agent admitted it last");
    }

    #[test]
    fn release_is_unknown_only_while_or_after_its_agent_lies() {
        let is_unknown = |node: usize, until: u64| {
            let judged = Facts { byzantine: [(node, until)].into(), ..Facts::default() };
            judged.is_unknown(PLACE, &Slot { release_since: 100_000, ..release(None) })
        };
        assert!(is_unknown(0, u64::MAX), "it lies");
        assert!(is_unknown(0, 40_000), "a hook may have been under way");
        assert!(!is_unknown(0, 39_999), "the next agent has started it");
        assert!(!is_unknown(1, u64::MAX), "another agent lies");
    }

    #[test]
    fn order_counts_where_a_release_began_after_the_lies() {
        let broken = |release_since: u64| {
            let out = |since: u64| Slot { out: Some((since, Cause::Order)), ..release(None) };
            let of_liar = Slot { release_since, ..out(190_000) };
            let slots = [(PLACE, out(200_000)), ((0, 1), of_liar), ((0, 2), release(None))].into();
            let mut judged = facts(|service| (service.instances, service.min_in_service) = (3, 2));
            judged.byzantine.insert(1, 40_000);
            judged.taken_out(200_000, PLACE, &slots, "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(100_000), None, "its agent may have lied of it");
        assert_eq!(broken(100_001), Some(4), "the next agent has started it");
    }

    /// An order to replace what runs with version 2.
    fn replaces() -> Disposition {
        let (tag, version) = ("pantry-2".parse().unwrap(), ServiceVersion::new(2).unwrap());
        Disposition::Replace { release: Release { tag, sha256: Digest::ABSENT, version } }
    }

    /// What had ended by itself is replaced without a stop, and hangs later. It comes back outside a reconciled window while the
    /// only other instance is drained.
    #[test]
    fn order_is_over_once_its_agent_starts_the_release() {
        let broken = |started: Option<&str>| {
            let mut judged = facts(|service| {
                (service.instances, service.min_in_service) = (2, 1);
                service.windows = vec![(0, 1, 2), (40_000, 1, 1)];
            });
            judged.directs(PLACE, &Disposition::Drain, 7_000);
            judged.directs(PLACE, &replaces(), 9_900);
            if let Some(tag) = started {
                judged.started_by_agent(PLACE, tag);
            }
            let out = |since: u64| Slot { out: Some((since, Cause::Order)), ..release(None) };
            let refused = Slot { came_at: 42_000, ..out(42_000) };
            judged.taken_out(42_000, PLACE, &[(PLACE, refused), ((0, 1), out(19_000))].into(), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(Some("pantry-2")), None, "its agent alone refuses it");
        assert_eq!(broken(Some("pantry-1")), Some(4), "its agent has not carried out the order");
        assert_eq!(broken(None), Some(4), "its agent has started nothing");
    }

    #[test]
    fn order_put_back_while_its_release_is_verified_is_over() {
        let is_over = |started: &str, change: fn(&mut Slot)| {
            let mut judged = facts(|_| ());
            judged.directs(PLACE, &replaces(), 9_900);
            judged.started_by_agent(PLACE, started);
            let mut slot = release(None);
            change(&mut slot);
            judged.is_carried_out((PLACE, Some(&slot)), &replaces(), 10_300)
        };
        let put_back = |slot: &mut Slot| slot.running.as_mut().unwrap().put_back = true;
        assert!(is_over("pantry-2", |_| ()));
        assert!(!is_over("pantry-1", |_| ()), "its agent has not started the release");
        assert!(!is_over("pantry-2", |slot| slot.came_at = 10_200), "it came in, and left again");
        assert!(!is_over("pantry-2", |slot| slot.running = None), "nothing runs");
        assert!(!is_over("pantry-2", put_back), "a person put it there");
    }

    #[test]
    fn lying_release_may_use_what_is_undone_below_it() {
        let is_excused = |change: fn(&mut ServiceFacts), says: Option<u32>| {
            facts(change).is_taken_for_former(PLACE, &release(says))
        };
        assert!(!is_excused(|_| (), Some(1)), "nothing is undone");
        assert!(is_excused(|service| service.undoing = Some((2, false)), Some(1)));
        let undone = |service: &mut ServiceFacts| service.undone = Some((2, Counted::default()));
        assert!(is_excused(undone, Some(1)));
        assert!(!is_excused(undone, None), "it says what it is");
        let later = |service: &mut ServiceFacts| service.undone = Some((3, Counted::default()));
        assert!(!is_excused(later, Some(1)), "what it uses is there");
    }
}
