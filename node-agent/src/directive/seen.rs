//! What one look at an instance has seen, as plain values.

use crate::host::Alive;
use crate::host::HookState;
use crate::journal::{Journal, Known, Order, Phase};
use crate::quote::printable;
use tidegate_proto::record::report::{BalancerReport, Health};
use tidegate_proto::{ReleaseTag, Revision, ServiceVersion, mutant};
use tokio::time::Instant;

/// One look.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub now: Instant,
    /// Whether the store can be reached, and is the one that was obeyed so far.
    pub store: bool,
    /// Whether the service's process runs.
    pub alive: Alive,
    /// What its probe answered.
    pub probe: Probed,
    /// What its readiness URL answered, undebounced.
    pub ready: bool,
    /// That answer comes from the disable-file: it says nothing about readiness.
    pub masked: bool,
    /// The status hook has said more than once that the service does not run.
    pub gone: bool,
    /// The status hook says that the service runs, which does not listen. Asked before a start only.
    pub runs: bool,
    /// What the addresses answered, in words.
    pub said: Said,
    /// Readiness, debounced.
    pub health: Health,
    pub file: DisableFile,
    /// What its health URL answered.
    pub url: Url,
    /// What the balancers say, where they were asked.
    pub balancers: Balancers,
    /// Requests in flight, by the counter that is configured.
    pub in_flight: InFlight,
    /// The window that the store has; outer: whether that is known.
    pub window: Option<Option<Known>>,
    /// The newest directive that was read.
    pub wanted: Option<Order>,
    /// Where a person has reconciled the store with what this agent obeyed, and that was not taken in yet.
    pub reconciled: Option<Revision>,
    /// A person has disregarded what this agent obeyed, and the store was behind that.
    pub disregarded: bool,
    /// The running version must be admitted again: the agent has just begun, or its lease was lost.
    pub readmit: bool,
    /// The store was neither read nor found away since the agent began: the first answer is awaited.
    pub unasked: bool,
    /// The version and the release of the last admission that the store has, where the journal lacks it
    /// (`link/inputs.rs`, `unjournalled`).
    pub recorded: Option<(ServiceVersion, ReleaseTag)>,
    /// The state of staging.
    pub staging: Staging,
    /// Where hooks replace code: the stop hook while it stops, is fresh or refused; else the start hook. The start of a process
    /// has ended where that holds its lock.
    pub hook: HookState,
    /// The machine was booted since the process that the journal names was started.
    pub booted: bool,
}

/// What the addresses of a service answered, in words for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The readiness URL.
    pub ready: String,
    /// The health URL.
    pub health: String,
}

/// Requests in flight, by the counter that is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// No counter is configured, or it was not asked in this look.
    NotAsked,
    /// So many.
    Counted(u32),
    /// The counter did not answer: unknown is not none.
    Unknown,
    /// Nothing listens where the counter answers. Alone that is no count either.
    Refused,
}

impl InFlight {
    /// How many, where that was counted.
    pub fn counted(self) -> Option<u32> {
        match self {
            Self::Counted(count) => Some(count),
            Self::NotAsked | Self::Unknown | Self::Refused => None,
        }
    }
}

/// What a probe answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Probed {
    /// The version that runs.
    Version(ServiceVersion),
    /// None, and why.
    Failed(String),
    /// No answer in its time.
    Late,
}

impl Probed {
    /// The version, if it was learned.
    pub(crate) fn version(&self) -> Option<ServiceVersion> {
        match self {
            Self::Version(version) => Some(*version),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisableFile {
    /// There is none.
    Absent,
    /// The agent's own.
    Own,
    /// A person's: made or changed by one.
    Foreign,
}

/// What the health URL answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Url {
    /// 200.
    Good,
    /// 503.
    Unavailable,
    /// Nothing listens there, nor at the readiness URL: connections are refused.
    NoListener,
    /// Something else, or nothing.
    Other,
}

/// What the balancers say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Balancers {
    /// None is configured.
    None,
    /// Not asked in this look.
    NotAsked,
    /// Each has answered.
    Said {
        /// Every one sends new requests.
        up: bool,
        /// No one does.
        down: bool,
        /// Sessions that they still have open.
        sessions: u32,
        /// What each says.
        each: Vec<BalancerReport>,
    },
    /// One could not be asked.
    Unreadable(String),
}

/// The state of staging of the release that a directive wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Staging {
    /// Not needed, or present and verified.
    Ready,
    /// Under way.
    Pending,
    /// It failed, and why.
    Failed(String),
}

impl Seen {
    /// Whether nothing of the service runs, in `phase`: its lock is free; or, where hooks replace code and there is no
    /// lock, the stop hook came to its end and nothing has answered since.
    pub(crate) fn nothing_runs(&self, phase: &Phase) -> bool {
        self.alive == Alive::No || self.alive == Alive::Silent && *phase == Phase::Stopped
    }

    /// Whether anything shows that nothing of the service runs: the same, or the status hook has denied that it runs. A start
    /// needs more: the stop hook's end.
    pub(crate) fn shows_nothing_runs(&self, phase: &Phase) -> bool {
        self.nothing_runs(phase) || self.gone
    }

    /// The last answers of probe, readiness URL and health URL, for people.
    pub(crate) fn last_answers(&self) -> String {
        let probe = match &self.probe {
            Probed::Version(version) => format!("version {version}"),
            Probed::Failed(why) => printable(why),
            Probed::Late => "no answer in its time".to_owned(),
        };
        format!(
            "last answers: probe: {probe}; ready_url: {}; health_url: {}",
            self.said.ready, self.said.health
        )
    }

    /// Whether nothing of the service listens any more: neither its readiness URL nor its health URL nor its counter.
    pub(crate) fn nothing_listens(&self) -> bool {
        self.alive == Alive::Silent && self.url == Url::NoListener && self.in_flight == InFlight::Refused
    }

    /// Nothing in flight: by the counter where one is configured, and by the balancers' sessions where they were asked.
    /// A source that does not answer is unknown, and unknown is not idle. A program that closed its listener may still
    /// work on requests that it has: without a lock that shows that nothing runs, it is idle only where nothing of it listens,
    /// its counter included, and the balancers, which see the connections of requests under way, have no session.
    pub(crate) fn is_idle(&self) -> bool {
        let sessions = match &self.balancers {
            Balancers::Said { sessions, .. } => Some(*sessions),
            _ => None,
        };
        match (self.in_flight, sessions) {
            _ if self.alive == Alive::No || mutant::is("work-in-flight-is-not-awaited") => true,
            (InFlight::Refused, Some(0)) => {
                self.nothing_listens() && !mutant::is("nothing-that-listens-is-no-evidence")
            }
            (InFlight::Unknown | InFlight::Refused, _) | (InFlight::NotAsked, None) => false,
            (counted, sessions) => counted.counted().unwrap_or(0) == 0 && sessions.unwrap_or(0) == 0,
        }
    }

    /// Whether nothing of what was started since the last confirmed stop was in rotation, and its disable-file keeps that so.
    pub(crate) fn was_never_shown(&self, journal: &Journal) -> bool {
        journal.unexposed && self.file == DisableFile::Own && self.url != Url::Good
    }

    /// Whether it is hidden, and ready as far as its disable-file lets that be known.
    pub(crate) fn is_hidden_and_ready(&self) -> bool {
        self.file != DisableFile::Absent && (self.ready || self.masked)
    }

    /// Whether its probe hangs while it may get requests: its agent falls silent then.
    pub(crate) fn hangs(&self, journal: &Journal) -> bool {
        let expected = journal.phase.expects_answers() && !self.was_never_shown(journal);
        expected && self.probe == Probed::Late
    }

    /// Whether something shows that the service still works on requests, or that it runs.
    pub(crate) fn shows_work(&self) -> bool {
        let counted = self.in_flight.counted().is_some_and(|count| count > 0);
        let sessions = matches!(self.balancers, Balancers::Said { sessions, .. } if sessions > 0);
        self.alive == Alive::Yes || counted || sessions
    }
}
