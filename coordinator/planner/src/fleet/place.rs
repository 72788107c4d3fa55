//! Where a node stands in the order of names, as a number: sets of places are searched without touching a name, and
//! still go by the names.

use std::collections::BTreeMap;
use tidegate_proto::NodeId;

/// A place. Its order is that of the names; it never moves, but for `Places::place` making room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    order: u64,
    /// Counted from 0 as nodes come; none is ever given twice.
    pub(super) slot: usize,
}

impl Place {
    /// Before every place that is given.
    pub(super) const FIRST: Self = Self { order: 0, slot: 0 };
    /// Behind every place that is given.
    pub(super) const LAST: Self = Self { order: u64::MAX, slot: usize::MAX };
}

/// How far apart neighbours are placed where there is room: two thousand million names fit one after the other on either
/// side of the first, and thirty between two neighbours, however they come, before all have to move.
const STEP: u64 = 1 << 32;

/// The places of all names.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(BTreeMap<NodeId, Place>);

impl Places {
    /// Every place, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeId, Place)> {
        self.0.iter().map(|(node, place)| (node, *place))
    }

    /// Places a name that has no place yet. Tells whether it made room by moving all of them.
    pub(super) fn place(&mut self, node: NodeId) -> (Place, bool) {
        let slot = self.0.len();
        let before = self.0.range(..&node).next_back().map_or(0, |(_, place)| place.order);
        let behind = self.0.range(&node..).next().map_or(u64::MAX, |(_, place)| place.order);
        match between(before, behind) {
            Some(order) => {
                let place = Place { order, slot };
                self.0.insert(node, place);
                (place, false)
            }
            None => {
                self.0.insert(node.clone(), Place { order: before, slot });
                self.spread_out();
                (self.0[&node], true)
            }
        }
    }

    /// All of them anew, at equal distances.
    fn spread_out(&mut self) {
        let distance = u64::MAX / (self.0.len() as u64 + 1);
        for (place, n) in self.0.values_mut().zip(1..) {
            place.order = distance * n;
        }
    }
}

/// An order between two others: the middle for the first of all, then a step from a neighbour that stands at an end,
/// or behind the one before, so that names that come one after the other do not halve the room each time.
fn between(before: u64, behind: u64) -> Option<u64> {
    let room = behind - before;
    match (before, behind) {
        (0, u64::MAX) => Some(u64::MAX / 2),
        (0, _) => Some(behind - STEP.min(room / 2)),
        _ => Some(before + STEP.min(room / 2)),
    }
    .filter(|order| before < *order && *order < behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u64) -> NodeId {
        format!("n{n:06}").parse().unwrap()
    }

    /// Places these in this order; how often all had to move.
    fn moves(names: impl Iterator<Item = u64>) -> usize {
        let mut places = Places::default();
        let moved = names.filter(|n| places.place(node(*n)).1).count();
        assert!(places.0.values().is_sorted_by(|a, b| a.order < b.order), "the places go by the names");
        let slots: std::collections::BTreeSet<usize> = places.0.values().map(|place| place.slot).collect();
        assert_eq!(slots.len(), places.0.len(), "no slot is given twice");
        moved
    }

    #[test]
    fn names_that_come_in_an_order_seldom_move_the_others() {
        assert_eq!(moves(0..3000), 0);
        assert_eq!(moves((0..3000).rev()), 0);
        assert_eq!(moves((0..3000).map(|n| n * 7919 % 3001)), 0);
        assert_eq!(moves([9000].into_iter().chain(0..3000)), 1, "once, while they are few");
    }

    #[test]
    fn where_there_is_no_room_all_are_placed_anew() {
        // From both ends to the middle: each name halves what is left between the two before it.
        let inward = (0..400).map(|n| if n % 2 == 0 { n } else { 1000 - n });
        assert!(moves(inward) > 0);
    }
}
