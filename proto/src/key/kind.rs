//! The kinds of key, each with its word.

use super::Key;

/// The kinds of key: the first word of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the key of the same name above")]
pub enum Kind {
    Report,
    Inventory,
    Decommission,
    Window,
    Directive,
    Upgrade,
    Waves,
    Exception,
    Active,
    ActiveSchema,
    Schema,
    Budget,
    Certificate,
    Event,
    Waiting,
    Maintenance,
    Token,
    Reconciliation,
    Leader,
    Term,
    Stream,
    Release,
    Manifest,
    ReleaseTag,
    Need,
    Evidence,
    GateVerdict,
    Signal,
    Task,
    TaskResult,
    Group,
    Members,
    Document,
    Exposed,
}

impl Kind {
    /// All of them, in the order of the drawing.
    pub const ALL: [Self; 34] = [
        Self::Report,
        Self::Inventory,
        Self::Decommission,
        Self::Window,
        Self::Directive,
        Self::Upgrade,
        Self::Waves,
        Self::Exception,
        Self::Active,
        Self::ActiveSchema,
        Self::Schema,
        Self::Budget,
        Self::Certificate,
        Self::Event,
        Self::Waiting,
        Self::Maintenance,
        Self::Token,
        Self::Reconciliation,
        Self::Leader,
        Self::Term,
        Self::Stream,
        Self::Release,
        Self::Manifest,
        Self::ReleaseTag,
        Self::Need,
        Self::Evidence,
        Self::GateVerdict,
        Self::Signal,
        Self::Task,
        Self::TaskResult,
        Self::Group,
        Self::Members,
        Self::Document,
        Self::Exposed,
    ];

    /// The first word of its keys.
    pub fn word(self) -> &'static str {
        match self {
            Self::Report => "reports",
            Self::Inventory => "inventory",
            Self::Decommission => "decommissions",
            Self::Window => "windows",
            Self::Directive => "directives",
            Self::Upgrade => "upgrades",
            Self::Waves => "waves",
            Self::Exception => "exceptions",
            Self::Active => "active",
            Self::ActiveSchema => "active-schema",
            Self::Schema => "schemas",
            Self::Budget => "budget",
            Self::Certificate => "certificates",
            Self::Event => "events",
            Self::Waiting => "waiting",
            Self::Maintenance => "maintenance",
            Self::Token => "tokens",
            Self::Reconciliation => "reconciliation",
            Self::Leader => "leader",
            Self::Term => "terms",
            Self::Stream => "streams",
            Self::Release => "releases",
            Self::Manifest => "manifests",
            Self::ReleaseTag => "release-tags",
            Self::Need => "needs",
            Self::Evidence => "evidence",
            Self::GateVerdict => "verdicts",
            Self::Signal => "signals",
            Self::Task => "tasks",
            Self::TaskResult => "results",
            Self::Group => "groups",
            Self::Members => "members",
            Self::Document => "documents",
            Self::Exposed => "exposed",
        }
    }

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
