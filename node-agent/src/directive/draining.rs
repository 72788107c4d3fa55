//! Draining: disabled, refused by the health URL, deregistered at the balancers, idle; each is seen before the next
//! counts. Nothing is stopped before.

use super::accept;
use super::act::Act;
use super::decide::Context;
use super::presumption;
use super::seen::{Balancers, DisableFile, InFlight, Staging, Url};
use crate::host::Alive;
use crate::journal::Phase;
use std::time::Duration;
use tidegate_proto::mutant;
use tidegate_proto::record::directive::{Disposition, Drain, Evidence, OnDeadline};
use tidegate_proto::record::report::{MAY_HAVE_STOPPED, NOT_LEFT};

/// A health check that looks at the disable-file does so within this time.
const HEEDED_WITHIN: Duration = Duration::from_secs(30);

/// Why an instance does not count as out of rotation.
enum Lacks {
    /// Its health URL was not seen to answer 503.
    Refusal,
    /// The settle time has not passed: so long it is.
    Settling(Duration),
    /// A balancer that was asked still sends requests.
    Balancer(String),
    /// A balancer did not answer.
    Answer(String),
}

impl Context<'_> {
    pub(super) fn draining(&self) -> Act {
        if let Some(declined) = self.declines() {
            return declined;
        }
        let drain = self.directive().map(|d| d.drain.clone()).unwrap_or_default();
        let replace = matches!(self.disposition(), Some(Disposition::Replace { .. }));
        match &self.seen.staging {
            // Nothing is taken out for a release that is not there.
            Staging::Pending if replace => return Act::Wait,
            Staging::Failed(reason) if replace => {
                let hidden = self.seen.file == DisableFile::Own;
                return Act::Enter(Phase::failed("staging", reason.clone(), hidden));
            }
            _ => {}
        }
        if drain.evidence == Evidence::Haproxy && self.service.balancers.is_empty() {
            let reason =
                "the drain needs the state of a balancer, and this agent's configuration names no balancer";
            return Act::Enter(self.not_drained("draining", reason));
        }
        if self.seen.file == DisableFile::Absent {
            return if self.seen.store { Act::Disable } else { Act::Wait };
        }
        if mutant::is("touched-is-drained") {
            return Act::Enter(Phase::Drained { forced: false });
        }
        if accept::is_untouched(self.journal, self.seen) && !self.timers.has_listened() {
            let unnoticed = self.is_unnoticed();
            return if unnoticed { Act::Wait } else { Act::Enter(Phase::Drained { forced: false }) };
        }
        let deregistered = self.deregistered(&drain);
        match &deregistered {
            Ok(()) if self.timers.idle() || self.is_declared_stopped() => {
                return Act::Enter(Phase::Drained { forced: false });
            }
            Err(Lacks::Refusal) if self.is_not_heeded() => {}
            _ if self.drained_for() < drain.deadline.into() => return Act::Wait,
            _ => {}
        }
        Act::Enter(match (deregistered, drain.on_deadline) {
            // Only what is in flight may be cut off; an instance that still gets requests is never stopped.
            (Ok(()), OnDeadline::Proceed) => Phase::Drained { forced: true },
            (Ok(()), OnDeadline::Fail) => {
                let known = self.seen.shows_work();
                let help = if known { String::new() } else { format!("; {MAY_HAVE_STOPPED}") };
                let reason = format!("{} after {}{help}", self.in_flight_words(), drain.deadline);
                self.not_drained("draining", reason)
            }
            (Err(lacks), _) => self.not_deregistered(lacks, &drain),
        })
    }

    /// How long it has been drained: under this order, with the disable-file there. Until then requests still come, and those
    /// in flight have their time before them.
    fn drained_for(&self) -> Duration {
        self.in_phase_for().min(self.timers.file_for(self.seen.now))
    }

    /// Whether the health URL goes on to answer 200 while the disable-file has been there for long enough.
    fn is_not_heeded(&self) -> bool {
        let hidden = self.timers.file_for(self.seen.now);
        self.seen.url == Url::Good && hidden >= HEEDED_WITHIN.max(self.service.fall_time())
    }

    /// Why it was not deregistered. What no waiting will fix, on this node or on any that is configured alike, is no failure of
    /// what runs.
    fn not_deregistered(&self, lacks: Lacks, drain: &Drain) -> Phase {
        let (url, found) = (&self.service.health_url, &self.seen.said.health);
        let file = self.service.disable_file.display();
        let waited = self.timers.file_for(self.seen.now).as_secs_f64();
        let (at, reason) = match lacks {
            Lacks::Refusal if self.seen.url == Url::Good => (
                NOT_LEFT,
                format!(
                    "the health check does not heed disable_file {file}: {url} was not seen to answer 503, and still answers {found} {waited:.0} s after the file was put"
                ),
            ),
            Lacks::Refusal => {
                ("draining", format!("{url} was not seen to answer 503 (last answer: {found})"))
            }
            Lacks::Settling(time) => {
                ("draining", format!("the settle time of {} s has not passed", time.as_secs_f64()))
            }
            Lacks::Balancer(words) => (
                NOT_LEFT,
                format!(
                    "a balancer still sends requests ({words}), although {url} answers 503: its check may use another address, or is slower than the deadline"
                ),
            ),
            Lacks::Answer(why) => ("draining", why),
        };
        self.not_drained(at, format!("{reason}; drain deadline {}", drain.deadline))
    }

    /// The failure of a drain. What was in rotation is put back there. What was never shown is shown only where its verification
    /// would show it. What has closed its listener may work on requests from before balancers knew that it was gone: shown, it
    /// is drained again before its stop.
    fn not_drained(&self, at: &str, reason: impl Into<String>) -> Phase {
        let may_be_healthy = self.timers.healthy_for(self.seen.now).is_some() || self.may_be_ready();
        let may_work = may_be_healthy || self.seen.alive == Alive::Silent;
        Phase::failed(at, reason, self.seen.was_never_shown(self.journal) && !may_work)
    }

    /// Whether no balancer sends requests any more; else what is missing.
    fn deregistered(&self, drain: &Drain) -> Result<(), Lacks> {
        let Some(unavailable) = self.timers.unavailable_for(self.seen.now) else {
            return if self.is_unshown_and_known_bad() { Ok(()) } else { Err(Lacks::Refusal) };
        };
        let settled = match drain.evidence {
            Evidence::Haproxy => Duration::ZERO,
            Evidence::Settle if mutant::is("settle-time-is-not-waited-for") => Duration::ZERO,
            Evidence::Settle => Duration::from(drain.settle).max(self.service.fall_time()),
        };
        if unavailable < settled {
            return Err(Lacks::Settling(settled));
        }
        // Balancers that can be queried are queried in any case; the settle time replaces only those that cannot.
        match &self.seen.balancers {
            _ if self.timers.is_deregistered() || mutant::is("balancer-is-not-asked") => Ok(()),
            Balancers::Said { each, .. } => {
                let words: Vec<_> = each.iter().map(ToString::to_string).collect();
                Err(Lacks::Balancer(words.join("; ")))
            }
            Balancers::Unreadable(why) => {
                Err(Lacks::Answer(format!("a balancer could not be asked ({why})")))
            }
            Balancers::None | Balancers::NotAsked => {
                Err(Lacks::Answer("the balancers have not been asked".to_owned()))
            }
        }
    }

    /// Whether it was never shown since its last stop, and balancers send it nothing although it does not refuse: a release that
    /// accepts connections and never answers, also under its disable-file.
    fn is_unshown_and_known_bad(&self) -> bool {
        let is_known_bad = self.timers.is_known_bad(self.seen.now, self.service.fall_time());
        self.seen.was_never_shown(self.journal) && is_known_bad
    }

    /// Whether a person has declared that it has stopped, and nothing that is seen shows the contrary.
    fn is_declared_stopped(&self) -> bool {
        self.directive().is_some_and(|directive| directive.declared_stopped) && !self.seen.shows_work()
    }

    fn in_flight_words(&self) -> String {
        match (&self.seen.in_flight, &self.seen.balancers) {
            (InFlight::Counted(count), _) if *count > 0 => format!("{count} requests are in flight"),
            (_, Balancers::Said { sessions, .. }) if *sessions > 0 => {
                format!("the balancers have {sessions} sessions open")
            }
            (InFlight::Refused, _) => {
                "requests in flight could not be counted, because nothing listens at the counter".to_owned()
            }
            _ => "requests in flight could not be counted".to_owned(),
        }
    }

    pub(super) fn drained(&self) -> Act {
        if let Some(declined) = self.declines() {
            return declined;
        }
        match self.disposition() {
            // It was shown meanwhile, or answers as if it were, or may have done so: what was seen is no longer so.
            _ if self.seen.file == DisableFile::Absent
                || self.seen.url == Url::Good
                || self.timers.refuses_anew() =>
            {
                Act::Enter(Phase::Draining)
            }
            Some(Disposition::Replace { .. } | Disposition::Stop) if !self.has_driver() => {
                let reason =
                    "this agent's configuration has no driver for the service: it only watches and drains";
                Act::Enter(Phase::failed("replacing", reason, true))
            }
            // Its agent was away, and something may have started it again meanwhile: it is not stopped on what was seen before.
            Some(Disposition::Replace { .. } | Disposition::Stop) if self.timers.may_refuse_anew() => {
                Act::Enter(Phase::Draining)
            }
            Some(Disposition::Replace { release }) => match &self.seen.staging {
                Staging::Pending => Act::Wait,
                Staging::Failed(reason) => Act::Enter(Phase::failed("staging", reason.clone(), true)),
                Staging::Ready if self.seen.store => Act::BeginStop(Some(release.into())),
                Staging::Ready => Act::Wait,
            },
            Some(Disposition::Stop) if self.seen.store => Act::BeginStop(None),
            _ => Act::Wait,
        }
    }

    /// Declines the directive that is being carried out, where the instance came into rotation meanwhile.
    fn declines(&self) -> Option<Act> {
        let order = self.journal.order.as_ref().filter(|_| !self.journal.declined)?;
        presumption::fails(order, self.journal, self.seen)
            .then(|| Act::Decline(presumption::phase_without(self.journal)))
    }
}
