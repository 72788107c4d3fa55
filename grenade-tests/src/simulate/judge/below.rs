//! Instances below a floor that was raised while no component could know of them.

use super::Facts;
use crate::simulate::slot::At;
use std::collections::BTreeSet;

impl Facts {
    /// A window of a service is committed: notes which agents cannot report now. What keeps them from that later, or did before,
    /// says nothing of it.
    pub(in crate::simulate) fn notes_unheard(&mut self, place: usize, now: u64) {
        let away = [&self.agents_cut, &self.agents_stalled, &self.disks_full];
        let nodes: BTreeSet<usize> = away.into_iter().flat_map(|of_nodes| of_nodes.keys().copied()).collect();
        let is_unheard = |node: &usize| self.is_kept_from_reporting((place, *node), now);
        let unheard: Vec<usize> = nodes.into_iter().filter(is_unheard).collect();
        if let Some(service) = self.services.get_mut(place) {
            service.unheard.extend(unheard.into_iter().map(|node| (now, node)));
        }
    }

    /// Whether no component can have known that an instance runs a version, since then, as the floor rose above that: it was
    /// started later, or its agent could not report.
    pub(in crate::simulate) fn came_below(&self, at: At, version: u32, since: u64) -> bool {
        self.services.get(at.0).is_some_and(|service| {
            let rose = service.is_below_since(version);
            rose <= since || service.unheard.contains(&(rose, at.1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SEEN, ServiceFacts};
    use super::*;

    const PLACE: At = (0, 0);

    /// A blank store raises the floor while it has not heard of an instance below it.
    #[test]
    fn floor_may_rise_above_what_could_not_report() {
        let came_below_after = |since: u64, before: fn(&mut Facts), after: fn(&mut Facts)| {
            let windows = vec![(0, 1, 2), (60_000, 2, 2)];
            let service = ServiceFacts { windows, ..ServiceFacts::default() };
            let mut judged = Facts { services: vec![service], ..Facts::default() };
            before(&mut judged);
            judged.notes_unheard(PLACE.0, 60_000);
            after(&mut judged);
            judged.came_below(PLACE, 1, since)
        };
        let came_below = |since: u64, before: fn(&mut Facts)| came_below_after(since, before, |_| ());
        assert!(came_below(60_000, |_| ()), "it was started once the floor had risen");
        assert!(!came_below(59_999, |_| ()), "its agent could report");
        let ended = |judged: &mut Facts| judged.agent_ended(PLACE.1, 60_001);
        assert!(!came_below_after(0, |_| (), ended), "its agent could report, and ended later");
        let away = |judged: &mut Facts| judged.agent_ended(PLACE.1, 30_000);
        let is_back = |judged: &mut Facts| judged.agent_started(PLACE.1, 70_000);
        assert!(came_below_after(0, away, is_back), "its node was away");
        let started = |judged: &mut Facts| {
            judged.agent_ended(PLACE.1, 30_000);
            judged.agent_started(PLACE.1, 60_001 - SEEN);
        };
        assert!(came_below(60_001 - SEEN, started), "it was started too late to be heard");
        let reconnected = |judged: &mut Facts| judged.agents_cut.extend([(PLACE.1, 60_000 - SEEN)]);
        assert!(!came_below(0, reconnected), "its agent has reached the store for long enough");
        let lowered = |judged: &mut Facts| judged.services[0].windows.push((61_000, 1, 2));
        assert!(!came_below_after(60_000, |_| (), lowered), "the window admits it");
    }
}
