//! The table of keys: each kind, the word that its keys begin with, and the names that follow.

use super::{EventSeq, SignalSubject, Subject};
use crate::compute::ReleaseRevision;
use crate::metadata::MetadataGeneration;
use crate::name::{
    ComputeId, GroupName, NodeId, SchemaName, ServiceName, StreamName, TaskId, TermId, TokenId, UpgradeId,
};
use crate::{Digest, GateHop, ReleaseTag};
use std::fmt;

/// What the subject of a signal about metadata begins with.
const GROUP: &str = "group-";

/// Each row is a kind, its word, and its names with their types; how a number is padded follows its type.
macro_rules! keys {
    ($(
        $(#[$doc:meta])*
        $kind:ident $word:literal $(($($name:ident: $type:ty $(= $padding:literal)?),+))?;
    )*) => {
        /// The kinds of key: the first word of each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is the key of the same name below")]
        pub enum Kind {
            $($kind,)*
            GateVerdict,
        }

        impl Kind {
            /// All of them.
            pub const ALL: [Self; [$($word,)* VERDICTS].len()] = [$(Self::$kind,)* Self::GateVerdict];

            /// The first word of its keys.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                    Self::GateVerdict => VERDICTS,
                }
            }
        }

        /// A key below the prefix.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($(#[$doc])* $kind $(($($type),+))?,)*
            /// What a gate job found on a tag, of an upgrade from one artifact to the other.
            GateVerdict(Box<GateHop>),
            /// A word of an instance about a metadata document.
            GroupSignal(GroupName, NodeId),
        }

        impl Key {
            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind { .. } => Kind::$kind,)*
                    Self::GateVerdict(_) => Kind::GateVerdict,
                    Self::GroupSignal(..) => Kind::Signal,
                }
            }

            /// The key of a kind with these names.
            pub(super) fn of_names(kind: Kind, names: &[&str]) -> Option<Self> {
                if let (Kind::Signal, [subject, node]) = (kind, names)
                    && let Some(group) = subject.strip_prefix(GROUP)
                {
                    return Some(Self::GroupSignal(group.parse().ok()?, node.parse().ok()?));
                }
                let mut rest = names.iter();
                let key = match kind {
                    $(Kind::$kind => Self::$kind $(($(rest.next()?.parse::<$type>().ok()?),+))?,)*
                    Kind::GateVerdict => return GateHop::of_names(names).map(Box::new).map(Self::GateVerdict),
                };
                rest.next().is_none().then_some(key)
            }
        }

        impl fmt::Display for Key {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.kind().word())?;
                match self {
                    $(Self::$kind $(($($name),+))? => {
                        $($(write!(f, concat!("/{", $($padding,)? "}"), $name)?;)+)?
                    })*
                    Self::GateVerdict(hop) => write!(f, "/{hop}")?,
                    Self::GroupSignal(group, node) => write!(f, "/{GROUP}{group}/{node}")?,
                }
                Ok(())
            }
        }
    };
}

/// The word of a [`Key::GateVerdict`], which has the four names of a hop.
const VERDICTS: &str = "verdicts";

keys! {
    /// What an agent says of an instance now.
    Report "reports" (service: ServiceName, node: NodeId);
    /// An instance that was admitted, ever.
    Inventory "inventory" (service: ServiceName, node: NodeId);
    /// A declaration by a person that an instance is gone.
    Decommission "decommissions" (service: ServiceName, node: NodeId);
    /// The versions that may be admitted.
    Window "windows" (service: ServiceName);
    /// What the coordinator wants of an instance.
    Directive "directives" (service: ServiceName, node: NodeId);
    /// An upgrade.
    Upgrade "upgrades" (id: UpgradeId);
    /// A page of who is in which wave.
    Waves "waves" (id: UpgradeId, page: u32 = ":06");
    /// An instance that failed or was skipped in an upgrade.
    Exception "exceptions" (id: UpgradeId, node: NodeId);
    /// The lock of a service.
    Active "active" (service: ServiceName);
    /// The lock of a schema.
    ActiveSchema "active-schema" (id: SchemaName);
    /// What is known of a schema.
    Schema "schemas" (id: SchemaName);
    /// Bumped by every commit that takes instances out.
    Budget "budget" (service: ServiceName);
    /// A page of a certificate.
    Certificate "certificates" (id: UpgradeId, page: u32 = ":06");
    /// An event.
    Event "events" (subject: Subject, seq: EventSeq);
    /// The latest reasons for waiting.
    Waiting "waiting" (id: UpgradeId);
    /// A node that a person keeps out.
    Maintenance "maintenance" (node: NodeId);
    /// Who may call: the digest of a bearer token, or the subject of a certificate.
    Token "tokens" (id: TokenId);
    /// A declaration by a person that a restored store is the one to obey.
    Reconciliation "reconciliation";
    /// Who leads.
    Leader "leader";
    /// A leadership that was.
    Term "terms" (id: TermId);
    /// A release stream.
    Stream "streams" (stream: StreamName);
    /// A compute release.
    Release "releases" (stream: StreamName, revision: ReleaseRevision = ":012");
    /// A manifest, by the sha256 of its canonical form.
    Manifest "manifests" (digest: Digest);
    /// Where the latest revision of a tag is.
    ReleaseTag "release-tags" (stream: StreamName, tag: ReleaseTag);
    /// What the floor of a service must not fall below.
    Need "needs" (service: ServiceName);
    /// A compatibility run of a compute tag against a storage tag.
    Evidence "evidence" (compute: ReleaseTag, storage: ReleaseTag);
    /// A signal of a compute about a canary.
    Signal "signals" (subject: SignalSubject, compute: ComputeId);
    /// A metadata group.
    Group "groups" (group: GroupName);
    /// Who belongs to a metadata group.
    Members "members" (group: GroupName);
    /// A metadata document.
    Document "documents" (group: GroupName, generation: MetadataGeneration = ":012");
    /// A page of who is in which batch of an update of metadata.
    Exposed "exposed" (group: GroupName, page: u32 = ":06");
    /// A hook to run on a node.
    Task "tasks" (node: NodeId, task: TaskId);
    /// What came of it.
    TaskResult "results" (node: NodeId, task: TaskId);
}

impl Kind {
    /// The key of a kind that has one key only.
    pub fn single(self) -> Option<Key> {
        match self {
            Self::Leader => Some(Key::Leader),
            Self::Reconciliation => Some(Key::Reconciliation),
            _ => None,
        }
    }

    pub(super) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}
