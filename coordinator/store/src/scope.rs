//! A part of the tree, and the range of keys that it is in the store. Builds no key itself: `Prefix` does.

use std::fmt;
use tidegate_proto::{Key, Prefix, key::Kind};

/// A part of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything below the prefix.
    All,
    /// Every key of a kind.
    Kind(Kind),
    /// Every key of a kind for one owner: a service, an upgrade, a subject of events.
    Within(Kind, String),
    /// One key.
    Key(Key),
}

impl Scope {
    /// Where it lies in the store.
    pub(crate) fn range(&self, prefix: &Prefix) -> Range {
        match self {
            Self::All => Range::Below(prefix.all()),
            Self::Kind(kind) => match kind.single() {
                Some(key) => Range::One(prefix.key(&key)),
                None => Range::Below(prefix.all_of(*kind)),
            },
            Self::Within(kind, owner) => Range::Below(prefix.all_within(*kind, owner)),
            Self::Key(key) => Range::One(prefix.key(key)),
        }
    }

    /// Whether it may hold the keys of a whole fleet.
    pub(crate) fn is_broad(&self) -> bool {
        matches!(self, Self::All) || matches!(self, Self::Kind(kind) if kind.single().is_none())
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all keys"),
            Self::Kind(kind) => f.write_str(kind.word()),
            Self::Within(kind, owner) => write!(f, "{}/{owner}", kind.word()),
            Self::Key(key) => fmt::Display::fmt(key, f),
        }
    }
}

/// A range of keys of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Range {
    /// This key.
    One(String),
    /// Every key that begins so.
    Below(String),
}

impl Range {
    /// The first key that it may hold.
    pub(crate) fn start(&self) -> &str {
        match self {
            Self::One(key) | Self::Below(key) => key,
        }
    }

    /// The first key behind it, as the store's calls want it; empty for a single key.
    pub(crate) fn end(&self) -> Vec<u8> {
        match self {
            Self::One(_) => Vec::new(),
            // What our keys begin with ends in a slash, so the next prefix is one byte further.
            Self::Below(start) => {
                let mut end = start.clone().into_bytes();
                if let Some(last) = end.last_mut() {
                    *last += 1;
                }
                end
            }
        }
    }

    /// Whether a key lies in it.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        match self {
            Self::One(one) => one.as_bytes() == key,
            Self::Below(start) => key.starts_with(start.as_bytes()),
        }
    }

    /// The ranges of some scopes, without those that lie in others.
    pub(crate) fn of_all(scopes: &[Scope], prefix: &Prefix) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for range in scopes.iter().map(|scope| scope.range(prefix)) {
            if ranges.iter().any(|have| have.covers(&range)) {
                continue;
            }
            ranges.retain(|have| !range.covers(have));
            ranges.push(range);
        }
        ranges
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(a), Self::One(b)) => a == b,
            (Self::One(_), Self::Below(_)) => false,
            (Self::Below(_), _) => self.holds(other.start().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_inside_another_is_watched_once() {
        let prefix = Prefix::default();
        let window = Scope::Key(Key::Window("pantry".parse().unwrap()));
        let scopes = [window.clone(), Scope::Kind(Kind::Window), window, Scope::Kind(Kind::Leader)];
        let ranges = Range::of_all(&scopes, &prefix);
        assert_eq!(
            ranges,
            [Range::Below("/tidegate/windows/".into()), Range::One("/tidegate/leader".into())]
        );
    }

    #[test]
    fn a_range_ends_before_the_next_kind() {
        let active = Scope::Kind(Kind::Active).range(&Prefix::default());
        assert!(active.holds(b"/tidegate/active/pantry"));
        assert!(!active.holds(b"/tidegate/active-schema/x"));
        assert_eq!(active.end(), b"/tidegate/active0");
    }
}
