//! A node's position in the order of names, as a small number: sets of places are bits, found without touching a name,
//! and still follow the order of names.

use std::collections::BTreeMap;
use tidegate_proto::NodeId;

/// A place. Its order is that of the names; it moves only where room is made for a newcomer beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u32);

/// How far apart names that come one after the other are placed: the first that come between two of them find room.
const STEP: usize = 2;

/// A free place.
const FREE: u32 = u32::MAX;

/// How many places a window has at least, in which room is made. A power of two, as all windows are.
const SMALLEST: usize = 8;

/// Who had to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) slot: usize,
    pub(super) from: Place,
    pub(super) to: Place,
}

/// The places of all names. A name's slot says when it came, counted from 0; none is ever given twice.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    by_name: BTreeMap<NodeId, u32>,
    /// By slot.
    places: Vec<Place>,
    /// By place: the slot, or `FREE`.
    slots: Vec<u32>,
}

impl Places {
    /// The places of names that came in this order, each once: found at once, for less than one after the other.
    pub(super) fn of_all(names: impl Iterator<Item = NodeId>) -> Self {
        let by_name: BTreeMap<NodeId, u32> = names.zip(0..).collect();
        let mut places = vec![Place(FREE); by_name.len()];
        let mut slots = vec![FREE; by_name.len() * STEP];
        for (slot, at) in by_name.values().zip((0..).step_by(STEP)) {
            places[*slot as usize] = Place(at as u32);
            slots[at] = *slot;
        }
        Self { by_name, places, slots }
    }

    /// Every slot, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().filter(|slot| **slot != FREE).map(|slot| *slot as usize)
    }

    /// The slot at a place that was given.
    pub(super) fn slot(&self, place: Place) -> usize {
        self.slots[place.0 as usize] as usize
    }

    /// The place of a slot.
    pub(super) fn of(&self, slot: usize) -> Place {
        self.places[slot]
    }

    /// Places a name that has no place yet, in the next slot. Returns the names that were moved to make room for it.
    pub(super) fn place(&mut self, node: NodeId) -> Vec<Moved> {
        let slot = self.places.len() as u32;
        let before = self.by_name.range(..&node).next_back().map(|(_, slot)| self.at(*slot));
        let behind = self.by_name.range(&node..).next().map(|(_, slot)| self.at(*slot));
        self.by_name.insert(node, slot);
        let first = before.map_or(0, |before| before + 1);
        match behind {
            None => self.stand(slot, before.map_or(0, |before| before + STEP)),
            Some(behind) if first < behind => self.stand(slot, first + (behind - first) / 2),
            Some(behind) => return self.make_room(slot, behind),
        }
        Vec::new()
    }

    fn at(&self, slot: u32) -> usize {
        self.places[slot as usize].0 as usize
    }

    /// Room for a newcomer right before the one at `behind`: the smallest window around that is not too full is spread
    /// out evenly. The larger a window, the emptier it must be, so that the next to come find room in a smaller one,
    /// and on average only a few have to move.
    fn make_room(&mut self, slot: u32, behind: usize) -> Vec<Moved> {
        let mut size = SMALLEST;
        let (start, mut here) = loop {
            let start = behind / size * size;
            let window = self.slots.iter().skip(start).take(size);
            let here: Vec<u32> = window.copied().filter(|slot| *slot != FREE).collect();
            if here.len() < most(size) {
                break (start, here);
            }
            size *= 2;
        };
        let next = self.slots[behind];
        here.insert(here.iter().position(|slot| *slot == next).unwrap_or(0), slot);
        self.spread_out(start, size, &here)
    }

    /// These, in this order, at equal distances.
    fn spread_out(&mut self, start: usize, size: usize, here: &[u32]) -> Vec<Moved> {
        let end = self.slots.len().min(start + size);
        self.slots[start..end].fill(FREE);
        let mut moved = Vec::new();
        for (n, slot) in here.iter().enumerate() {
            let from = self.places.get(*slot as usize).copied();
            self.stand(*slot, start + n * size / here.len());
            let (slot, to) = (*slot as usize, self.places[*slot as usize]);
            moved.extend(from.filter(|from| *from != to).map(|from| Moved { slot, from, to }));
        }
        moved
    }

    fn stand(&mut self, slot: u32, at: usize) {
        if self.slots.len() <= at {
            self.slots.resize(at + 1, FREE);
        }
        self.slots[at] = slot;
        let place = Place(at as u32);
        match self.places.get_mut(slot as usize) {
            Some(former) => *former = place,
            None => self.places.push(place),
        }
    }
}

/// How many a window may hold: nearly all of a small one, half of one that holds a million.
fn most(size: usize) -> usize {
    size - size * size.ilog2() as usize / 40
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u64) -> NodeId {
        format!("n{n:06}").parse().unwrap()
    }

    /// Places these in this order; how often one had to move.
    fn moves(names: impl Iterator<Item = u64>) -> usize {
        let mut places = Places::default();
        let mut stands = Vec::new();
        let mut moves = 0;
        for name in names {
            for Moved { slot, from, to } in places.place(node(name)) {
                assert_eq!(std::mem::replace(&mut stands[slot], to), from, "a move names where it came from");
                moves += 1;
            }
            stands.push(places.of(stands.len()));
        }
        assert_eq!(stands, places.places, "what is not named has not moved");
        let by_name: Vec<usize> = places.by_name.values().map(|slot| *slot as usize).collect();
        assert_eq!(places.iter().collect::<Vec<_>>(), by_name, "the places go by the names");
        assert!(by_name.iter().all(|slot| places.slot(places.of(*slot)) == *slot));
        moves
    }

    #[test]
    fn names_that_come_all_at_once_go_by_the_names_and_leave_room() {
        let came: Vec<u64> = (0..3000).map(|n| n * 1103 % 3001).collect();
        let mut places = Places::of_all(came.iter().map(|n| node(2 * n)));
        let names = |places: &Places| places.iter().map(|slot| places.places[slot]).collect::<Vec<_>>();
        assert!(names(&places).is_sorted() && names(&places).len() == came.len());
        let mut sorted = came.clone();
        sorted.sort_unstable();
        assert!(places.iter().map(|slot| came[slot]).eq(sorted));
        assert_eq!(places.place(node(2 * came[7] + 1)), [], "between two of them there is room");
        assert_eq!(places.iter().count(), came.len() + 1);
        assert_eq!(Places::of_all(std::iter::empty()).iter().count(), 0);
    }

    #[test]
    fn names_added_in_order_move_few_places() {
        assert_eq!(moves(0..3000), 0);
        let shuffled = moves((0..3000).map(|n| n * 1103 % 3001));
        assert!(shuffled < 10 * 3000, "{shuffled}");
        let backwards = moves((0..3000).rev());
        assert!(backwards < 100 * 3000, "{backwards}");
    }

    #[test]
    fn many_that_come_at_one_place_move_few_on_average() {
        let among_others = (0..3000).chain(8000..11_000);
        let rising = moves(among_others.clone().chain(4000..7000));
        assert!(rising < 100 * 3000, "{rising}");
        let inward =
            moves(among_others.chain((0..3000).map(|n| if n % 2 == 0 { 4000 + n } else { 8000 - n })));
        assert!(inward < 100 * 3000, "{inward}");
    }
}
