//! The whole tree of keys in the store: drawn, built and parsed here and nowhere else. Every key has one writer.
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
//! <prefix>/maintenance/<node>                   coordinator (an operator's wish)
//! <prefix>/tokens/<token>                       coordinator: who may call, and as what
//! <prefix>/reconciliation                       coordinator: a person's word that a restored store is the one to obey
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
//! <prefix>/signals/<subject>/<compute>          coordinator: how a compute fared with a canary
//! <prefix>/signals/group-<group>/<node>         the node's agent, or the coordinator for an instance that has none: how it
//!                                               fared with a metadata document
//! <prefix>/groups/<group>                       coordinator: a metadata group: which document it has, and the update that runs
//! <prefix>/members/<group>                      coordinator: who belongs to it, where they are named one by one
//! <prefix>/documents/<group>/<generation>       coordinator: a metadata document; written once, never changed
//! <prefix>/exposed/<group>/<page>               coordinator: in which batch of the update each instance is
//! ```

mod kind;
mod prefix;

pub use kind::Kind;
pub use prefix::{NotAPrefix, Prefix};

use crate::compute::ReleaseRevision;
use crate::metadata::MetadataGeneration;
use crate::name::{
    ComputeId, GroupName, NodeId, SchemaName, ServiceName, StreamName, TaskId, TermId, TokenId, UpgradeId,
};
use crate::{Digest, GateHop, ReleaseTag};
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

/// A key below the prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What an agent says of an instance now.
    Report(ServiceName, NodeId),
    /// An instance that was admitted, ever.
    Inventory(ServiceName, NodeId),
    /// A person's word that an instance is gone.
    Decommission(ServiceName, NodeId),
    /// The versions that may be admitted.
    Window(ServiceName),
    /// What the coordinator wants of an instance.
    Directive(ServiceName, NodeId),
    /// An upgrade.
    Upgrade(UpgradeId),
    /// A page of who is in which wave.
    Waves(UpgradeId, u32),
    /// An instance that failed or was skipped in an upgrade.
    Exception(UpgradeId, NodeId),
    /// The lock of a service.
    Active(ServiceName),
    /// The lock of a schema.
    ActiveSchema(SchemaName),
    /// What is known of a schema.
    Schema(SchemaName),
    /// Bumped by every commit that takes instances out.
    Budget(ServiceName),
    /// A page of a certificate.
    Certificate(UpgradeId, u32),
    /// An event.
    Event(Subject, EventSeq),
    /// The latest reasons for waiting.
    Waiting(UpgradeId),
    /// A node that a person keeps out.
    Maintenance(NodeId),
    /// Who may call: the digest of a bearer token, or the subject of a certificate.
    Token(TokenId),
    /// A person's word that a restored store is the one to obey.
    Reconciliation,
    /// Who leads.
    Leader,
    /// A leadership that was.
    Term(TermId),
    /// A release stream.
    Stream(StreamName),
    /// A compute release.
    Release(StreamName, ReleaseRevision),
    /// A manifest, by the sha256 of its canonical form.
    Manifest(Digest),
    /// Where the latest revision of a tag is.
    ReleaseTag(StreamName, ReleaseTag),
    /// What the floor of a service must not fall below.
    Need(ServiceName),
    /// A compatibility run of a compute tag against a storage tag.
    Evidence(ReleaseTag, ReleaseTag),
    /// What a gate job found on a tag, of an upgrade from one artifact to the other.
    GateVerdict(Box<GateHop>),
    /// A word of a compute about a canary.
    Signal(SignalSubject, ComputeId),
    /// A word of an instance about a metadata document.
    GroupSignal(GroupName, NodeId),
    /// A metadata group.
    Group(GroupName),
    /// Who belongs to a metadata group.
    Members(GroupName),
    /// A metadata document.
    Document(GroupName, MetadataGeneration),
    /// A page of who is in which batch of an update of metadata.
    Exposed(GroupName, u32),
    /// A hook to run on a node.
    Task(NodeId, TaskId),
    /// What came of it.
    TaskResult(NodeId, TaskId),
}

impl Key {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Report(..) => Kind::Report,
            Self::Inventory(..) => Kind::Inventory,
            Self::Decommission(..) => Kind::Decommission,
            Self::Window(_) => Kind::Window,
            Self::Directive(..) => Kind::Directive,
            Self::Upgrade(_) => Kind::Upgrade,
            Self::Waves(..) => Kind::Waves,
            Self::Exception(..) => Kind::Exception,
            Self::Active(_) => Kind::Active,
            Self::ActiveSchema(_) => Kind::ActiveSchema,
            Self::Schema(_) => Kind::Schema,
            Self::Budget(_) => Kind::Budget,
            Self::Certificate(..) => Kind::Certificate,
            Self::Event(..) => Kind::Event,
            Self::Waiting(_) => Kind::Waiting,
            Self::Maintenance(_) => Kind::Maintenance,
            Self::Token(_) => Kind::Token,
            Self::Reconciliation => Kind::Reconciliation,
            Self::Leader => Kind::Leader,
            Self::Term(_) => Kind::Term,
            Self::Stream(_) => Kind::Stream,
            Self::Release(..) => Kind::Release,
            Self::Manifest(_) => Kind::Manifest,
            Self::ReleaseTag(..) => Kind::ReleaseTag,
            Self::Need(_) => Kind::Need,
            Self::Evidence(..) => Kind::Evidence,
            Self::GateVerdict(..) => Kind::GateVerdict,
            Self::Signal(..) | Self::GroupSignal(..) => Kind::Signal,
            Self::Group(_) => Kind::Group,
            Self::Members(_) => Kind::Members,
            Self::Document(..) => Kind::Document,
            Self::Exposed(..) => Kind::Exposed,
            Self::Task(..) => Kind::Task,
            Self::TaskResult(..) => Kind::TaskResult,
        }
    }
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

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.kind().word();
        match self {
            Self::Report(service, node)
            | Self::Inventory(service, node)
            | Self::Decommission(service, node)
            | Self::Directive(service, node) => write!(f, "{word}/{service}/{node}"),
            Self::Window(service) | Self::Active(service) | Self::Budget(service) => {
                write!(f, "{word}/{service}")
            }
            Self::Upgrade(id) | Self::Waiting(id) => write!(f, "{word}/{id}"),
            Self::Waves(id, page) | Self::Certificate(id, page) => write!(f, "{word}/{id}/{page:06}"),
            Self::Exception(id, node) => write!(f, "{word}/{id}/{node}"),
            Self::ActiveSchema(id) | Self::Schema(id) => write!(f, "{word}/{id}"),
            Self::Event(subject, seq) => write!(f, "{word}/{subject}/{seq}"),
            Self::Maintenance(node) => write!(f, "{word}/{node}"),
            Self::Token(id) => write!(f, "{word}/{id}"),
            Self::Reconciliation | Self::Leader => f.write_str(word),
            Self::Term(id) => write!(f, "{word}/{id}"),
            Self::Stream(stream) => write!(f, "{word}/{stream}"),
            Self::Release(stream, revision) => write!(f, "{word}/{stream}/{revision:012}"),
            Self::Manifest(digest) => write!(f, "{word}/{digest}"),
            Self::ReleaseTag(stream, tag) => write!(f, "{word}/{stream}/{tag}"),
            Self::Need(service) => write!(f, "{word}/{service}"),
            Self::Evidence(compute, storage) => write!(f, "{word}/{compute}/{storage}"),
            Self::GateVerdict(hop) => write!(f, "{word}/{hop}"),
            Self::Signal(subject, compute) => write!(f, "{word}/{subject}/{compute}"),
            Self::GroupSignal(group, node) => write!(f, "{word}/{GROUP}{group}/{node}"),
            Self::Group(group) | Self::Members(group) => write!(f, "{word}/{group}"),
            Self::Document(group, generation) => write!(f, "{word}/{group}/{generation:012}"),
            Self::Exposed(group, page) => write!(f, "{word}/{group}/{page:06}"),
            Self::Task(node, task) | Self::TaskResult(node, task) => write!(f, "{word}/{node}/{task}"),
        }
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
        let parsed = kind.and_then(|kind| match names[..] {
            [] => kind.single(),
            [name] => single(kind, name),
            [owner, name] => double(kind, owner, name),
            _ if kind == Kind::GateVerdict => GateHop::of_names(&names).map(Box::new).map(Key::GateVerdict),
            _ => None,
        });
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

/// What the subject of a signal about metadata begins with.
const GROUP: &str = "group-";

fn single(kind: Kind, name: &str) -> Option<Key> {
    Some(match kind {
        Kind::Window => Key::Window(name.parse().ok()?),
        Kind::Upgrade => Key::Upgrade(name.parse().ok()?),
        Kind::Active => Key::Active(name.parse().ok()?),
        Kind::ActiveSchema => Key::ActiveSchema(name.parse().ok()?),
        Kind::Schema => Key::Schema(name.parse().ok()?),
        Kind::Budget => Key::Budget(name.parse().ok()?),
        Kind::Waiting => Key::Waiting(name.parse().ok()?),
        Kind::Maintenance => Key::Maintenance(name.parse().ok()?),
        Kind::Token => Key::Token(name.parse().ok()?),
        Kind::Term => Key::Term(name.parse().ok()?),
        Kind::Stream => Key::Stream(name.parse().ok()?),
        Kind::Manifest => Key::Manifest(name.parse().ok()?),
        Kind::Need => Key::Need(name.parse().ok()?),
        Kind::Group => Key::Group(name.parse().ok()?),
        Kind::Members => Key::Members(name.parse().ok()?),
        _ => return None,
    })
}

fn double(kind: Kind, owner: &str, name: &str) -> Option<Key> {
    Some(match kind {
        Kind::Report => Key::Report(owner.parse().ok()?, name.parse().ok()?),
        Kind::Inventory => Key::Inventory(owner.parse().ok()?, name.parse().ok()?),
        Kind::Decommission => Key::Decommission(owner.parse().ok()?, name.parse().ok()?),
        Kind::Directive => Key::Directive(owner.parse().ok()?, name.parse().ok()?),
        Kind::Waves => Key::Waves(owner.parse().ok()?, name.parse().ok()?),
        Kind::Exception => Key::Exception(owner.parse().ok()?, name.parse().ok()?),
        Kind::Certificate => Key::Certificate(owner.parse().ok()?, name.parse().ok()?),
        Kind::Event => Key::Event(owner.parse().ok()?, name.parse().ok()?),
        Kind::Release => Key::Release(owner.parse().ok()?, name.parse().ok()?),
        Kind::ReleaseTag => Key::ReleaseTag(owner.parse().ok()?, name.parse().ok()?),
        Kind::Evidence => Key::Evidence(owner.parse().ok()?, name.parse().ok()?),
        Kind::Signal if owner.starts_with(GROUP) => {
            Key::GroupSignal(owner.strip_prefix(GROUP)?.parse().ok()?, name.parse().ok()?)
        }
        Kind::Signal => Key::Signal(owner.parse().ok()?, name.parse().ok()?),
        Kind::Document => Key::Document(owner.parse().ok()?, name.parse().ok()?),
        Kind::Exposed => Key::Exposed(owner.parse().ok()?, name.parse().ok()?),
        Kind::Task => Key::Task(owner.parse().ok()?, name.parse().ok()?),
        Kind::TaskResult => Key::TaskResult(owner.parse().ok()?, name.parse().ok()?),
        _ => return None,
    })
}
