//! The whole tree of keys in the store, drawn here; `key/table.rs` builds and parses them, and nothing else does. Every key
//! has one writer.
//!
//! ```text
//! <prefix>/reports/<service>/<node>             agent, leased
//! <prefix>/inventory/<service>/<node>           agent, in the admission transaction
//! <prefix>/decommissions/<service>/<node>       coordinator
//! <prefix>/windows/<service>                    coordinator
//! <prefix>/directives/<service>/<node>          coordinator
//! <prefix>/upgrades/<upgrade>                   coordinator
//! <prefix>/waves/<upgrade>/<page>               coordinator, before the roll begins
//! <prefix>/exceptions/<upgrade>/<node>          coordinator: an instance that failed or was skipped in an upgrade
//! <prefix>/active/<service>                     coordinator: the lock of the one active upgrade
//! <prefix>/active-schema/<schema>               coordinator: the same for a schema
//! <prefix>/schemas/<schema>                     coordinator
//! <prefix>/budget/<service>                     coordinator, bumped by every commit that takes instances out
//! <prefix>/certificates/<upgrade>/<part>        coordinator
//! <prefix>/events/<subject>/<seq>               coordinator, append-only
//! <prefix>/waiting/<upgrade>                    coordinator, for people
//! <prefix>/maintenance/<node>                   coordinator (an operator's request)
//! <prefix>/tokens/<token>                       coordinator: an API token and its role
//! <prefix>/reconciliation                       coordinator: an operator's confirmation of a restored store
//! <prefix>/leader                               the leading coordinator, leased
//! <prefix>/terms/<term>                         coordinator
//! <prefix>/streams/<stream>                     coordinator: settings and heads; every change of a stream rewrites it
//! <prefix>/releases/<stream>/<revision>         coordinator: one compute release, without its manifest
//! <prefix>/manifests/<digest>                   coordinator: a manifest, by its sha256; written once, never changed
//! <prefix>/release-tags/<stream>/<tag>          coordinator: the latest revision of a tag
//! <prefix>/needs/<service>                      coordinator: what the service's floor must not fall below, and for whom
//! <prefix>/evidence/<compute tag>/<storage tag> coordinator: the verdict of a compatibility run
//! <prefix>/verdicts/<service>/<tag>/<from>/<to> coordinator: the verdict of a gate job between two <version>-<sha256>
//! <prefix>/tasks/<node>/<task>                  coordinator: a named hook to run once on a node
//! <prefix>/results/<node>/<task>                agent: claimed, then its outcome; the coordinator removes both together
//! <prefix>/signals/<subject>/<compute>          coordinator: success or failure of a compute with a canary
//! <prefix>/signals/group-<group>/<node>         the node's agent, or the coordinator for an instance that has none:
//!                                               success or failure with a metadata document
//! <prefix>/groups/<group>                       coordinator: a metadata group: which document it has, and the update that runs
//! <prefix>/members/<group>                      coordinator: who belongs to it, where they are named one by one
//! <prefix>/documents/<group>/<generation>       coordinator: a metadata document; written once, never changed
//! <prefix>/exposed/<group>/<page>               coordinator: in which batch of the update each instance is
//! ```

mod prefix;
mod table;

pub use prefix::{NotAPrefix, Prefix};
pub use table::{Key, Kind};

use crate::compute::ReleaseRevision;
use crate::name::{GroupName, StreamName, UpgradeId};
use std::fmt;
use std::str::FromStr;

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// An upgrade.
    Upgrade(UpgradeId),
    /// The fleet as a whole: decommissions, maintenance.
    Fleet,
    /// The coordinators themselves: who led when.
    Leader,
    /// A release stream.
    Stream(StreamName),
    /// A metadata group.
    Group(GroupName),
}

/// What a signal is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignalSubject {
    /// A compute release in canary.
    Release(StreamName, ReleaseRevision),
}

/// A place among the events of a subject: the term that wrote it (its fence), then a count within the term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventSeq {
    /// The create revision of the leader's key.
    pub term: i64,
    /// Counted from 0 by that leader.
    pub number: u64,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upgrade(id) => write!(f, "upgrade-{id}"),
            Self::Fleet => f.write_str("fleet"),
            Self::Leader => f.write_str("leader"),
            Self::Stream(stream) => write!(f, "stream-{stream}"),
            Self::Group(group) => write!(f, "group-{group}"),
        }
    }
}

impl FromStr for Subject {
    type Err = NotAKey;
    fn from_str(text: &str) -> Result<Self, NotAKey> {
        match text {
            "fleet" => Ok(Self::Fleet),
            "leader" => Ok(Self::Leader),
            _ => {
                let upgrade =
                    || text.strip_prefix("upgrade-").and_then(|id| id.parse().ok()).map(Self::Upgrade);
                let stream = || text.strip_prefix("stream-").and_then(|id| id.parse().ok()).map(Self::Stream);
                let group = || text.strip_prefix("group-").and_then(|id| id.parse().ok()).map(Self::Group);
                upgrade().or_else(stream).or_else(group).ok_or_else(|| NotAKey(text.to_owned()))
            }
        }
    }
}

impl fmt::Display for SignalSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release(stream, revision) => write!(f, "release-{stream}-{revision}"),
        }
    }
}

impl FromStr for SignalSubject {
    type Err = NotAKey;
    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let parts = text.strip_prefix("release-").and_then(|rest| rest.rsplit_once('-'));
        parts
            .and_then(|(stream, revision)| Some(Self::Release(stream.parse().ok()?, revision.parse().ok()?)))
            .ok_or_else(|| NotAKey(text.to_owned()))
    }
}

impl fmt::Display for EventSeq {
    /// Padded, so that the order of the keys is the order of the events.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}", self.term, self.number)
    }
}

impl FromStr for EventSeq {
    type Err = NotAKey;
    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let parts =
            text.split_once('-').and_then(|(term, number)| Some((term.parse().ok()?, number.parse().ok()?)));
        parts.map(|(term, number)| Self { term, number }).ok_or_else(|| NotAKey(text.to_owned()))
    }
}

/// A key under the prefix that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a key of the tree")]
pub struct NotAKey(String);

impl FromStr for Key {
    type Err = NotAKey;
    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let mut words = text.split('/');
        let kind = words.next().and_then(Kind::of_word);
        let names: Vec<&str> = words.take(MAX_NAMES + 1).collect();
        let parsed = kind.and_then(|kind| Self::of_names(kind, &names));
        let one_form = |key: &Key| !has_number(key.kind()) || key.to_string() == text;
        parsed.filter(one_form).ok_or_else(|| NotAKey(text.chars().take(200).collect()))
    }
}

/// Whether keys of this kind hold a number or a digest, which can be spelt in several ways (`7`, `+7`, `007`). Only the
/// form that is written is a key: a second form would be a second record under the name of the first.
fn has_number(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Waves
            | Kind::Certificate
            | Kind::Event
            | Kind::Release
            | Kind::Manifest
            | Kind::Signal
            | Kind::Document
            | Kind::Exposed
            | Kind::GateVerdict
    )
}

/// How many names a key has at most, after the word of its kind.
const MAX_NAMES: usize = 4;
