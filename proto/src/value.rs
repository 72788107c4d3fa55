//! The record that belongs to each kind of key, so that a key and bytes are read in one way only.

use crate::key::{Key, Kind};
use crate::record::{
    Malformed, Record,
    active::Active,
    budget::Budget,
    certificate::CertificatePage,
    decommission::Decommission,
    directive::Directive,
    event::Event,
    evidence::Evidence,
    exception::Exception,
    gate::GateVerdict,
    group::{Document, ExposedPage, Group, NamedMembers},
    inventory::Inventory,
    leader,
    maintenance::Maintenance,
    manifest::Manifest,
    need::Need,
    reconciliation::Reconciliation,
    release::{ComputeRelease, TagRecord},
    report::Report,
    schema::Schema,
    signal::Signal,
    stream::Stream,
    task::{Task, TaskResult},
    token::Token,
    upgrade::Upgrade,
    waiting::Waiting,
    waves::WavePage,
    window::Window,
};

macro_rules! values {
    ($($(#[$doc:meta])* $variant:ident($body:ty) = $kind:path,)*) => {
        /// A record of any kind.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Value {
            $($(#[$doc])* $variant(Record<$body>),)*
        }

        impl Value {
            /// Reads the record that `key` promises.
            pub fn decode(key: &Key, bytes: &[u8]) -> Result<Self, Malformed> {
                match key.kind() {
                    $($kind => Record::decode(bytes).map(Self::$variant),)*
                }
            }

            /// The bytes to store.
            pub fn encode(&self) -> Vec<u8> {
                match self {
                    $(Self::$variant(record) => record.encode(),)*
                }
            }

            /// The kind of key that it belongs under.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            /// Whether a newer version wrote it.
            pub fn is_newer(&self) -> bool {
                match self {
                    $(Self::$variant(record) => record.is_newer(),)*
                }
            }
        }

        $(impl From<$body> for Value {
            fn from(body: $body) -> Self {
                Self::$variant(Record::new(body))
            }
        }

        impl From<Record<$body>> for Value {
            fn from(record: Record<$body>) -> Self {
                Self::$variant(record)
            }
        })*
    };
}

values! {
    /// See [`Report`].
    Report(Report) = Kind::Report,
    /// See [`Inventory`].
    Inventory(Inventory) = Kind::Inventory,
    /// See [`Decommission`].
    Decommission(Decommission) = Kind::Decommission,
    /// See [`Window`].
    Window(Window) = Kind::Window,
    /// See [`Directive`].
    Directive(Directive) = Kind::Directive,
    /// See [`Upgrade`].
    Upgrade(Upgrade) = Kind::Upgrade,
    /// See [`WavePage`].
    Waves(WavePage) = Kind::Waves,
    /// See [`Exception`].
    Exception(Exception) = Kind::Exception,
    /// The lock of a service; see [`Active`].
    Active(Active) = Kind::Active,
    /// The lock of a schema.
    ActiveSchema(ActiveSchema) = Kind::ActiveSchema,
    /// See [`Schema`].
    Schema(Schema) = Kind::Schema,
    /// See [`Budget`].
    Budget(Budget) = Kind::Budget,
    /// See [`CertificatePage`].
    Certificate(CertificatePage) = Kind::Certificate,
    /// See [`Event`].
    Event(Event) = Kind::Event,
    /// See [`Waiting`].
    Waiting(Waiting) = Kind::Waiting,
    /// See [`Maintenance`].
    Maintenance(Maintenance) = Kind::Maintenance,
    /// See [`Token`].
    Token(Token) = Kind::Token,
    /// See [`Reconciliation`].
    Reconciliation(Reconciliation) = Kind::Reconciliation,
    /// See [`leader::Leader`].
    Leader(leader::Leader) = Kind::Leader,
    /// See [`leader::Term`].
    Term(leader::Term) = Kind::Term,
    /// See [`Stream`].
    Stream(Stream) = Kind::Stream,
    /// See [`ComputeRelease`].
    Release(ComputeRelease) = Kind::Release,
    /// See [`Manifest`].
    Manifest(Manifest) = Kind::Manifest,
    /// See [`TagRecord`].
    ReleaseTag(TagRecord) = Kind::ReleaseTag,
    /// See [`Need`].
    Need(Need) = Kind::Need,
    /// See [`Evidence`].
    Evidence(Evidence) = Kind::Evidence,
    /// See [`GateVerdict`].
    GateVerdict(GateVerdict) = Kind::GateVerdict,
    /// See [`Signal`].
    Signal(Signal) = Kind::Signal,
    /// See [`Task`].
    Task(Task) = Kind::Task,
    /// See [`TaskResult`].
    TaskResult(TaskResult) = Kind::TaskResult,
    /// See [`Group`].
    Group(Group) = Kind::Group,
    /// See [`NamedMembers`].
    Members(NamedMembers) = Kind::Members,
    /// See [`Document`].
    Document(Document) = Kind::Document,
    /// See [`ExposedPage`].
    Exposed(ExposedPage) = Kind::Exposed,
}

/// The lock of a schema has the same body as that of a service, and is a type of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ActiveSchema(pub Active);

impl crate::record::Body for ActiveSchema {
    const SCHEMA: u32 = 1;
}
