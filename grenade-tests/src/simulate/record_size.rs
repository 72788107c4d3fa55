//! No record grows with the fleet (rule 11): that of an upgrade names no instance for each that failed, and quotes each
//! text in part only.

use tidegate_proto::Key;

/// The largest record of an upgrade, in bytes. What it holds for good is within 2 KiB, also with every approval, gate and
/// migration that a world has; a pause and the cause of a rollback quote a failure of 500 characters or five causes of a
/// stall: within 4 KiB each.
const LARGEST: usize = 12 * 1024;

/// What is wrong with the size of a record.
pub(super) fn judge(key: &Key, bytes: usize) -> Option<String> {
    let grows = matches!(key, Key::Upgrade(_)) && bytes > LARGEST;
    grows.then(|| format!("the record {key} has {bytes} bytes, more than {LARGEST}"))
}

/// How large commits are.
#[derive(Debug, Default)]
pub(super) struct CommitSizes {
    /// The last revision, and how much it wrote so far.
    last: (i64, usize),
    /// The most that one revision wrote, keys and records together, in bytes.
    pub largest: usize,
}

impl CommitSizes {
    /// A revision wrote so many bytes under one more key.
    pub(super) fn take_in(&mut self, revision: i64, bytes: usize) {
        let before = if self.last.0 == revision { self.last.1 } else { 0 };
        self.last = (revision, before + bytes);
        self.largest = self.largest.max(before + bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_record_of_an_upgrade_is_found() {
        let upgrade = Key::Upgrade("u0".parse().unwrap());
        assert_eq!(judge(&upgrade, LARGEST), None);
        assert!(judge(&upgrade, LARGEST + 1).is_some());
        assert_eq!(judge(&Key::Window("pantry".parse().unwrap()), LARGEST + 1), None);
    }

    #[test]
    fn keys_of_one_revision_are_added_up() {
        let mut sizes = CommitSizes::default();
        [(2, 10), (2, 5), (3, 12)].into_iter().for_each(|(revision, bytes)| sizes.take_in(revision, bytes));
        assert_eq!(sizes.largest, 15);
    }
}
