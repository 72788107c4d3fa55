//! How faults end.

use crate::simulate::slot::At;
use crate::simulate::tamper::Spoilt;
use tidegate_proto::Key;

/// How a fault is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::simulate) enum Undo {
    /// The network is good again.
    Weather,
    /// An agent reaches the store again.
    AgentLine(usize),
    /// A coordinator does.
    CoordinatorLine(usize),
    /// Watches go on.
    Watches,
    /// Each request arrives once.
    Requests,
    /// A coordinator is started again.
    StartCoordinator(usize),
    /// A coordinator goes on.
    ThawCoordinator(usize),
    /// An agent is started again.
    StartAgent(usize),
    /// A node has power again.
    Boot(usize),
    /// An unreadable record is removed.
    Garbage(Key),
    /// What a record was before it became unreadable is put back.
    Record(Spoilt),
    /// The machine of an agent that lies is rebuilt.
    Liar(usize),
    /// An agent goes on.
    ThawAgent(usize),
    /// There is space again.
    Disk(usize),
    /// A person removes their disable-file.
    Show(At),
    /// A person starts the version of a service that its window admits, where an older one was put back.
    RightVersion(usize),
    /// The database is back.
    Database(usize),
    /// Databases are as fast as before.
    Fast,
    /// The database that an older copy had replaced is back.
    Newest(usize),
    /// The second agent ends.
    Impostor(usize),
    /// A person resumes.
    Resume(String),
    /// A person uncordons a node.
    Uncordon(usize),
}

impl Undo {
    /// Whether it ends what a person did: nothing else is disturbed by that.
    pub(in crate::simulate) fn is_of_an_operator(&self) -> bool {
        matches!(self, Self::Resume(_) | Self::Uncordon(_) | Self::Show(_) | Self::RightVersion(_))
    }
}
