//! The set of keys that a request names: one key, an interval, or everything from a key on.
//!
//! etcd writes this as a key and a `range_end`: empty means the one key, a single zero byte means no upper end.

use std::ops::Bound;

/// A set of keys, as a `(key, range_end)` pair names it. Never holds an empty first key from a checked request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    start: Vec<u8>,
    end: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// Only the start key itself.
    Single,
    /// Every key from the start up to, not including, this one.
    Before(Vec<u8>),
    /// Every key from the start on.
    Unbounded,
}

impl KeyRange {
    /// Reads etcd's pair.
    pub(crate) fn new(key: &[u8], range_end: &[u8]) -> Self {
        let end = match range_end {
            [] => End::Single,
            [0] => End::Unbounded,
            end => End::Before(end.to_vec()),
        };
        Self { start: key.to_vec(), end }
    }

    /// The one key, if the range is one key.
    pub(crate) fn single(&self) -> Option<&[u8]> {
        matches!(self.end, End::Single).then_some(self.start.as_slice())
    }

    /// Whether the interval's end is at or before its start, so that no key can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.end, End::Before(end) if *end <= self.start)
    }

    /// Whether a key is in the range.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            End::Single => key == self.start,
            End::Before(end) => key >= self.start.as_slice() && key < end.as_slice(),
            End::Unbounded => key >= self.start.as_slice(),
        }
    }

    /// Bounds for a `BTreeMap`, or `None` where the range is empty (for which `BTreeMap::range` would panic).
    pub(crate) fn bounds(&self) -> Option<(Bound<&[u8]>, Bound<&[u8]>)> {
        if self.is_empty() {
            return None;
        }
        let start = self.start.as_slice();
        Some(match &self.end {
            End::Single => (Bound::Included(start), Bound::Included(start)),
            End::Before(end) => (Bound::Included(start), Bound::Excluded(end.as_slice())),
            End::Unbounded => (Bound::Included(start), Bound::Unbounded),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::KeyRange;

    #[test]
    fn range_of_one_key_has_that_key_alone() {
        let range = KeyRange::new(b"b", b"");
        assert!(range.contains(b"b"));
        assert!(!range.contains(b"ba"));
        assert_eq!(range.single(), Some(b"b".as_slice()));
    }

    #[test]
    fn an_interval_leaves_its_end_out() {
        let range = KeyRange::new(b"b", b"d");
        assert!(range.contains(b"b") && range.contains(b"cz"));
        assert!(!range.contains(b"d") && !range.contains(b"a"));
    }

    #[test]
    fn a_zero_byte_as_end_means_no_end() {
        let range = KeyRange::new(b"b", b"\0");
        assert!(range.contains(b"\xff\xff"));
        assert!(!range.contains(b"a"));
    }

    #[test]
    fn an_end_before_the_start_holds_nothing() {
        let range = KeyRange::new(b"d", b"b");
        assert!(range.is_empty());
        assert!(range.bounds().is_none());
        assert!(!range.contains(b"c"));
    }
}
