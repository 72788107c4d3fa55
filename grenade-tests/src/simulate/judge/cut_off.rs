//! Instances that no component can refuse, because their agents have obeyed no window and cannot obey one.

use super::{Facts, SEEN};
use crate::simulate::agent::AGAIN;
use crate::simulate::slot::At;

impl Facts {
    /// The agent of a node reaches the store again, or is started with a line that does.
    pub(in crate::simulate) fn reconnected(&mut self, node: usize, now: u64) {
        if let Some(until) = self.agents_cut.get_mut(&node) {
            *until = now.min(*until);
        }
    }

    /// Whether no component could refuse an instance: no store has ever admitted it, or it came while the store had no window;
    /// and its agent, which has acknowledged no window, does not run, is stopped or is cut off from the store, or was `SEEN` ago.
    /// On a full disk it can neither note the window nor put a disable-file; where it ended there, it is started again `AGAIN`
    /// later.
    pub(super) fn is_cut_off_unbound(&self, at: At, now: u64) -> bool {
        let restart = AGAIN.as_secs() * 1_000;
        let away = [(&self.agents_cut, 0), (&self.agents_stalled, 0), (&self.disks_full, restart)];
        let is_cut = away.into_iter().any(|(of_nodes, pause)| {
            of_nodes.get(&at.1).is_some_and(|until| now < until.saturating_add(pause + SEEN))
        });
        is_cut && !self.bound.contains(&at) && (self.unbound.contains(&at) || !self.silent.is_known(at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;

    const PLACE: At = (0, 0);

    /// The judge of one service.
    fn facts(change: impl FnOnce(&mut ServiceFacts)) -> Facts {
        let mut service = ServiceFacts::default();
        change(&mut service);
        Facts { services: vec![service], ..Facts::default() }
    }

    /// A rollback moves the window while the release of a new node hangs, before its agent has read any.
    #[test]
    fn cut_off_agent_of_an_unadmitted_instance_refuses_nothing() {
        let broken = |until: Option<u64>, change: fn(&mut Facts)| {
            let mut judged = facts(|service| service.windows = vec![(0, 1, 1)]);
            judged.agents_cut.extend(until.map(|until| (PLACE.1, until)));
            change(&mut judged);
            judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(Some(u64::MAX), |_| ()), None);
        let reconnected = |judged: &mut Facts| judged.reconnected(PLACE.1, 60_000 - SEEN);
        assert_eq!(broken(Some(u64::MAX), reconnected), Some(2), "it has reached the store for long enough");
        assert_eq!(broken(Some(60_001 - SEEN), |_| ()), None, "its agent cannot have read the window yet");
        assert_eq!(broken(None, |_| ()), Some(2), "it was never cut off");
        let stopped = |judged: &mut Facts| judged.agents_stalled.extend([(PLACE.1, u64::MAX)]);
        assert_eq!(broken(None, stopped), None, "its agent looks at nothing");
        assert_eq!(broken(Some(60_000 - SEEN), stopped), None, "it reaches the store, and is stopped");
        let went_on = |judged: &mut Facts| judged.agents_stalled.extend([(PLACE.1, 60_000 - SEEN)]);
        assert_eq!(broken(None, went_on), Some(2), "its agent has gone on for long enough");
        let bound = |judged: &mut Facts| judged.bound.extend([PLACE]);
        assert_eq!(broken(Some(u64::MAX), bound), Some(2), "its agent has acknowledged a window");
        let admitted = |judged: &mut Facts| judged.silent.admitted(PLACE, 0);
        assert_eq!(broken(Some(u64::MAX), admitted), Some(2), "a store has admitted it");
    }

    /// The disk of a new node is full while its release hangs, and its agent ends at each start. A rollback moves the window.
    #[test]
    fn agent_of_an_unadmitted_instance_hides_none_on_a_full_disk() {
        let broken = |node: usize, until: u64, change: fn(&mut Facts)| {
            let mut judged = facts(|service| service.windows = vec![(0, 1, 1)]);
            judged.disks_full.insert(node, until);
            change(&mut judged);
            judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(PLACE.1, u64::MAX, |_| ()), None);
        let restarted = 60_000 - SEEN - AGAIN.as_secs() * 1_000;
        assert_eq!(broken(PLACE.1, restarted + 1, |_| ()), None, "it may have been started again just now");
        assert_eq!(broken(PLACE.1, restarted, |_| ()), Some(2), "it has run for long enough");
        assert_eq!(broken(PLACE.1 + 1, u64::MAX, |_| ()), Some(2), "the disk of another node is full");
        let bound = |judged: &mut Facts| judged.bound.extend([PLACE]);
        assert_eq!(broken(PLACE.1, u64::MAX, bound), Some(2), "its agent has acknowledged a window");
        let admitted = |judged: &mut Facts| judged.silent.admitted(PLACE, 0);
        assert_eq!(broken(PLACE.1, u64::MAX, admitted), Some(2), "a store has admitted it");
    }

    /// A blank store without a window admits a new node, whose agent is cut off then. A person reconciles the store without it.
    #[test]
    fn cut_off_newcomer_of_a_blank_store_is_not_refused() {
        let broken = |has_no_window: bool, started: u32, change: fn(&mut Facts)| {
            let mut judged = facts(|service| {
                (service.windows, service.has_no_window) = (vec![(0, 2, 2)], has_no_window);
            });
            judged.silent.admitted(PLACE, 0);
            judged.started(PLACE, started);
            judged.services[0].has_no_window = false;
            judged.agents_cut.insert(PLACE.1, u64::MAX);
            change(&mut judged);
            judged.came_in(60_000, PLACE, (1, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(true, 1, |_| ()), None);
        assert_eq!(broken(false, 1, |_| ()), Some(2), "the store had the window");
        assert_eq!(broken(true, 2, |_| ()), Some(2), "it was started inside the lost window");
        let bound = |judged: &mut Facts| judged.bound.extend([PLACE]);
        assert_eq!(broken(true, 1, bound), Some(2), "its agent has acknowledged a window");
        let reconnected = |judged: &mut Facts| judged.reconnected(PLACE.1, 60_000 - SEEN);
        assert_eq!(broken(true, 1, reconnected), Some(2), "it has reached the store for long enough");
    }
}
