//! Places in groups, and the number in each: what an index is made of.

use super::marks::Marks;
use super::place::Place;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// How many there are of each; none has a count of 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tally<K>(BTreeMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Tally<K> {
    /// One is another than it was, comes, or goes.
    pub(super) fn shift(&mut self, before: Option<&K>, after: Option<&K>) {
        if before == after {
            return;
        }
        if let Some(key) = before {
            self.less(key);
        }
        if let Some(key) = after {
            match self.0.get_mut(key) {
                Some(count) => *count += 1,
                None => drop(self.0.insert(key.clone(), 1)),
            }
        }
    }

    fn less(&mut self, key: &K) {
        match self.0.get_mut(key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.0.remove(key)),
        }
    }

    pub(super) fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// The keys with a count above 0, in their order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    /// Whether there is any at or behind a key.
    pub(super) fn reaches(&self, key: K) -> bool {
        self.0.range(key..).next().is_some()
    }
}

/// Places, each in at most one group; they go by the groups, then by the names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Groups<K>(BTreeMap<K, Group>);

/// No group is empty.
#[derive(Debug, Clone, Default, PartialEq)]
struct Group {
    count: usize,
    marks: Marks,
}

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Groups<K> {
    /// A place is in another group than it was, comes, or goes. Where nothing changes, nothing is searched.
    pub(super) fn shift(&mut self, place: Place, before: Option<K>, after: Option<K>) {
        if before == after {
            return;
        }
        if let Some(key) = before
            && let Some(group) = self.0.get_mut(&key)
        {
            group.count -= usize::from(group.marks.remove(place));
            if group.marks.is_empty() {
                self.0.remove(&key);
            }
        }
        if let Some(key) = after {
            let group = self.0.entry(key).or_default();
            group.count += usize::from(group.marks.insert(place));
        }
    }

    pub(super) fn count(&self, keys: impl RangeBounds<K>) -> usize {
        self.0.range(keys).map(|(_, group)| group.count).sum()
    }

    pub(super) fn places(&self, keys: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = Place> {
        self.0.range(keys).flat_map(|(_, group)| group.marks.iter())
    }
}
