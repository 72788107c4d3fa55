//! How long each condition has held. Updated by each look, lost with the process: only durations that this agent measured
//! count, never a clock of another machine.

use super::answers::Answers;
use super::fault::Faults;
use super::gap::Gap;
use super::seen::{Balancers, DisableFile, Seen, Url};
use super::steady::Steady;
use crate::config::Service;
use crate::host::Alive;
use crate::journal::Phase;
use std::time::Duration;
use tidegate_proto::mutant;
use tidegate_proto::record::report::{BalancerReport, Rotation};
use tokio::time::Instant;

/// How long what is seen has been so.
#[derive(Debug, Clone)]
pub(crate) struct Timers {
    /// Since when the journal's phase is what it is.
    pub phase_since: Instant,
    /// When it may be started again after it ended by itself.
    pub restart_at: Option<Instant>,
    /// How often it ended by itself without having been healthy for long.
    pub crashes: u32,
    /// How often something else has started it again since its stop was confirmed, under the accepted order. A restarted agent
    /// counts again: it stops the service at most three times more, each time as an order asks, before it fails.
    pub undone_stops: u32,
    /// What goes wrong since the instance was verified.
    pub faults: Faults,
    /// What it answers while it is not well.
    pub answers: Answers,
    /// When the phase became another one. An order may begin the same phase again later.
    pub(super) changed_at: Option<Instant>,
    file: DisableFile,
    /// Since when the disable-file is as it is.
    pub(super) file_since: Instant,
    /// When something else than the service kept it out, in the last look that shows that: a person, a store that was away or
    /// did not admit it, an overdue lease, or its agent, which did not look while it was well.
    pub kept_out_at: Option<Instant>,
    /// Whether it was seen ready since it was shown.
    ready_since_enabled: bool,
    /// How often it was hidden again in this phase because it was not ready when it was shown.
    times_disabled: u32,
    enable_again_at: Option<Instant>,
    /// When it may have listened, in the last look that does not show the contrary.
    listened_at: Option<Instant>,
    /// The same, without a disable-file.
    shown_at: Option<Instant>,
    /// Since when nothing of it listens.
    silent_since: Option<Instant>,
    pub(super) unavailable_since: Option<Instant>,
    /// Since when it answers 503 beside a disable-file, in each look: not where nothing listens.
    pub(super) refuses_since: Option<Instant>,
    /// Since when its health URL does not answer 200, with or without a disable-file.
    bad_since: Option<Instant>,
    good_since: Option<Instant>,
    gap: Option<Gap>,
    healthy_since: Option<Instant>,
    /// For how long it has been well without a break.
    pub steady: Steady,
    pub(super) deregistered_since: Option<Instant>,
    idle: bool,
    balancers_up: Option<bool>,
    balancers_down: Option<bool>,
    balancer_unreachable: Option<String>,
    /// What each balancer said last.
    balancers: Vec<BalancerReport>,
    asks_balancers: bool,
}

impl Timers {
    /// At the start of the agent. `asks_balancers`: whether any is configured.
    pub(crate) fn new(now: Instant, asks_balancers: bool) -> Self {
        Self {
            phase_since: now,
            restart_at: None,
            crashes: 0,
            undone_stops: 0,
            faults: Faults::default(),
            answers: Answers::default(),
            changed_at: None,
            file: DisableFile::Absent,
            file_since: now,
            kept_out_at: None,
            ready_since_enabled: false,
            times_disabled: 0,
            enable_again_at: None,
            listened_at: None,
            shown_at: None,
            silent_since: None,
            unavailable_since: None,
            refuses_since: None,
            bad_since: None,
            good_since: None,
            gap: None,
            healthy_since: None,
            steady: Steady::default(),
            deregistered_since: None,
            idle: false,
            balancers_up: None,
            balancers_down: None,
            balancer_unreachable: None,
            balancers: Vec::new(),
            asks_balancers,
        }
    }

    /// Takes a look in.
    pub(crate) fn take_in(&mut self, seen: &Seen) {
        let hidden = seen.file != DisableFile::Absent;
        if seen.file != self.file {
            self.file = seen.file;
            self.file_since = seen.now;
            self.ready_since_enabled = false;
            self.unavailable_since = None;
            self.good_since = None;
            self.deregistered_since = None;
            self.balancers_up = None;
            self.balancers_down = None;
        }
        if seen.file == DisableFile::Foreign || !seen.store && seen.is_hidden_and_ready() {
            self.kept_out_at = Some(seen.now);
        }
        self.ready_since_enabled |= !hidden && seen.ready;
        if matches!(seen.alive, Alive::Yes | Alive::Unknown) {
            self.listened_at = Some(seen.now);
            if !hidden {
                self.shown_at = Some(seen.now);
            }
        }
        since(&mut self.silent_since, seen.alive == Alive::Silent, seen.now);
        // If nothing listens, or nothing runs, no check is answered either.
        let refuses = match seen.url {
            Url::Unavailable | Url::NoListener => true,
            Url::Other => seen.alive == Alive::No,
            Url::Good => false,
        };
        let unavailable = hidden && refuses;
        since(&mut self.unavailable_since, unavailable, seen.now);
        since(&mut self.refuses_since, hidden && seen.url == Url::Unavailable, seen.now);
        since(&mut self.bad_since, seen.url != Url::Good, seen.now);
        let good = !hidden && seen.url == Url::Good;
        self.take_in_gap(good, seen.now);
        since(&mut self.good_since, good, seen.now);
        match &seen.balancers {
            Balancers::Said { up, down, each, .. } => {
                self.balancers.clone_from(each);
                (self.balancers_up, self.balancers_down) = (Some(*up), Some(*down));
                self.balancer_unreachable = None;
                // Their word counts from the moment at which the health URL was seen to refuse.
                since(&mut self.deregistered_since, *down && self.unavailable_since.is_some(), seen.now);
            }
            Balancers::Unreadable(why) => {
                self.balancer_unreachable = Some(why.clone());
                self.balancers.clear();
                self.balancers_up = None;
                self.balancers_down = None;
                self.deregistered_since = None;
            }
            Balancers::NotAsked => {}
            Balancers::None => {
                since(&mut self.deregistered_since, self.unavailable_since.is_some(), seen.now)
            }
        }
        self.idle = seen.is_idle();
        let healthy = seen.ready && seen.probe.version().is_some() && seen.alive != Alive::No;
        since(&mut self.healthy_since, healthy, seen.now);
        if hidden {
            self.steady.forget();
        }
        let reached = !hidden && seen.url == Url::Good;
        let sent_to = !self.asks_balancers || self.balancers_up == Some(true);
        self.steady.take_in(healthy && reached && sent_to, seen.now);
    }

    fn take_in_gap(&mut self, good: bool, now: Instant) {
        let (last, after_good) = (self.gap, self.good_since.is_some());
        self.gap = match good {
            true => last.map(|gap| Gap { until: gap.until.or(Some(now)), ..gap }),
            false => {
                last.and_then(|gap| gap.again(now)).or(Some(Gap { since: now, until: None, after_good }))
            }
        };
    }

    /// Notes that the phase becomes another one. What was good before a verification counts for nothing in it: looks were
    /// too seldom to see each break.
    pub(crate) fn changed(&mut self, now: Instant, to: &Phase) {
        if *to == Phase::Draining && self.may_refuse_anew() {
            // It may have come into rotation since it was seen to refuse, and since balancers said that it was out.
            self.unavailable_since = self.refuses_since;
            self.deregistered_since = self.deregistered_since.filter(|_| !self.asks_balancers);
        }
        self.changed_at = Some(now);
        if *to == Phase::Verifying {
            self.steady.forget();
        }
    }

    /// Notes that a phase begins, or begins again under another order.
    pub(crate) fn entered(&mut self, now: Instant) {
        self.phase_since = now;
        self.times_disabled = 0;
        self.enable_again_at = None;
    }

    /// Notes that it was hidden again because it was not ready when it was shown: it is shown again later and later.
    pub(crate) fn disabled_again(&mut self, now: Instant) {
        self.times_disabled = self.times_disabled.saturating_add(1);
        self.enable_again_at = Some(now + backoff(self.times_disabled));
    }

    /// How often that was so in this phase.
    pub(crate) fn times_disabled(&self) -> u32 {
        self.times_disabled
    }

    /// Whether what may be ready may be shown, or has to wait after the last time.
    pub(crate) fn may_try_to_enable(&self, now: Instant) -> bool {
        self.enable_again_at.is_none_or(|at| now >= at)
    }

    /// For how long it has been shown without having been ready in any look.
    pub(crate) fn enabled_unready_for(&self, now: Instant) -> Option<Duration> {
        let shown = self.file == DisableFile::Absent && !self.ready_since_enabled;
        shown.then(|| now.saturating_duration_since(self.file_since))
    }

    /// Notes that the service ended by itself, or that its stop or its start failed: it is started again after a while that
    /// grows with each fall, unless it had run for a minute.
    pub(crate) fn crashed(&mut self, now: Instant) {
        let stood = now.saturating_duration_since(self.phase_since) >= Duration::from_secs(60);
        self.crashes = if stood { 1 } else { self.crashes.saturating_add(1) };
        self.restart_at = Some(now + backoff(self.crashes));
    }

    /// For how long the disable-file has been as it is.
    pub(crate) fn file_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.file_since)
    }

    /// For how long nothing else than the service has kept it out, in this phase.
    pub(crate) fn not_kept_out_for(&self, now: Instant) -> Duration {
        let since = self.kept_out_at.map_or(self.phase_since, |at| at.max(self.phase_since));
        now.saturating_duration_since(since)
    }

    /// How long the health URL has been seen to refuse, with the disable-file there.
    pub(crate) fn unavailable_for(&self, now: Instant) -> Option<Duration> {
        self.unavailable_since.map(|since| now.saturating_duration_since(since))
    }

    /// Whether it answers 503 beside a disable-file, and began to after the phase became what it is: something started it again,
    /// or it hung. In between, and between two looks, it may have answered 200.
    pub(crate) fn refuses_anew(&self) -> bool {
        self.changed_at.is_some() && self.may_refuse_anew()
    }

    /// The same; or its agent has begun in this phase, so that it is not known since when it refuses.
    pub(crate) fn may_refuse_anew(&self) -> bool {
        let is_new = |since: Instant| self.changed_at.is_none_or(|changed| since > changed);
        self.refuses_since.is_some_and(is_new) && !mutant::is("refusal-since-the-drain-is-trusted")
    }

    /// Whether every balancer that can be asked has stopped sending requests, after the health URL was seen to refuse.
    pub(crate) fn is_deregistered(&self) -> bool {
        self.deregistered_since.is_some()
    }

    /// Whether it may have listened since the phase became what it is.
    pub(crate) fn has_listened(&self) -> bool {
        self.listened_at.is_some_and(|at| self.changed_at.is_none_or(|changed| at > changed))
    }

    /// Whether it was seen without a disable-file, and may have listened, since the phase became what it is.
    pub(crate) fn has_been_shown(&self) -> bool {
        self.shown_at.is_some_and(|shown| self.changed_at.is_none_or(|changed| shown > changed))
    }

    /// Whether balancers may still send requests to what does not listen: their checks had no time yet to see that, or that it
    /// refused before, and none that can be asked says so.
    pub(crate) fn is_unnoticed(&self, now: Instant, fall: Duration) -> bool {
        let said = self.asks_balancers && self.is_deregistered();
        let refuses_since = [self.unavailable_since, self.silent_since].into_iter().flatten().min();
        !said && refuses_since.is_none_or(|since| now.saturating_duration_since(since) < fall)
    }

    /// Whether balancers send no requests to what does not answer 200, whatever it answers instead: those that can be asked
    /// say so, the checks of others had time to see it (`fall`).
    pub(crate) fn is_known_bad(&self, now: Instant, fall: Duration) -> bool {
        match self.asks_balancers {
            true => self.bad_since.is_some() && self.balancers_down == Some(true),
            false => self.bad_since.is_some_and(|since| now.saturating_duration_since(since) >= fall),
        }
    }

    /// Whether nothing was in flight in the last look.
    pub(crate) fn idle(&self) -> bool {
        self.idle
    }

    /// Out of rotation: refused, and deregistered.
    pub(crate) fn is_out(&self) -> bool {
        self.unavailable_since.is_some() && self.is_deregistered()
    }

    /// What the balancers said last: all of it while an instance leaves, else only what no health check explains.
    pub(crate) fn balancer_reports(&self, leaves: bool) -> Vec<BalancerReport> {
        let by_hand = |balancer: &&BalancerReport| leaves || balancer.is_by_hand();
        let said = self.balancers.iter().filter(by_hand).cloned();
        said.map(|balancer| BalancerReport { sessions: balancer.sessions.filter(|_| leaves), ..balancer })
            .collect()
    }

    /// The balancer that could not be asked last, and why.
    pub(crate) fn balancer_unreachable(&self) -> Option<&str> {
        self.balancer_unreachable.as_deref()
    }

    /// In rotation: the balancers say so, or their checks had time to see it.
    pub(crate) fn is_in(&self, now: Instant, rise: Duration) -> bool {
        match self.good_since {
            None => false,
            Some(_) if self.asks_balancers => self.balancers_up == Some(true),
            Some(since) => now.saturating_duration_since(since) >= rise,
        }
    }

    /// Whether it is in rotation, or was and no balancer has noticed that its health URL did not answer 200 for a while:
    /// those that can be asked say so, the checks of others had no time to see it (`fall`).
    pub(crate) fn is_still_in(&self, now: Instant, rise: Duration, fall: Duration) -> bool {
        let unnoticed = match self.asks_balancers {
            true => self.balancers_down == Some(false),
            false => self.gap.is_some_and(|gap| gap.after_good && gap.lasts(now) < fall),
        };
        self.is_in(now, rise) || self.file == DisableFile::Absent && unnoticed
    }

    /// Whether its health URL has answered 200, without a disable-file, in each look.
    pub(crate) fn has_no_gap(&self) -> bool {
        self.gap.is_none()
    }

    /// Whether it has left rotation by the same evidence.
    pub(crate) fn has_left(&self, now: Instant, fall: Duration) -> bool {
        let noticed = match self.asks_balancers {
            true => self.balancers_down == Some(true),
            false => self.gap.is_some_and(|gap| gap.until.is_none() && gap.lasts(now) >= fall),
        };
        self.file != DisableFile::Absent || noticed
    }

    /// Whether the instance is in rotation, by the evidence of this look and of how long it has been so.
    pub(crate) fn rotation(&self, seen: &Seen, service: &Service) -> Rotation {
        let rise = service.rise_time();
        match (seen.file, seen.url) {
            (DisableFile::Foreign, _) => Rotation::Maintenance,
            (DisableFile::Own, Url::Good) => Rotation::Leaving,
            (DisableFile::Own, _) if self.is_out() && self.was_noticed(seen, service) => Rotation::Out,
            (DisableFile::Own, _) => Rotation::Leaving,
            (DisableFile::Absent, Url::Good) if self.is_in(seen.now, rise) => Rotation::In,
            (DisableFile::Absent, Url::Good) => Rotation::Returning,
            (DisableFile::Absent, _) => Rotation::Unknown,
        }
    }

    /// Whether balancers know that it refuses: they were asked, or their checks had time to see it; or nothing is there to
    /// answer what they send.
    fn was_noticed(&self, seen: &Seen, service: &Service) -> bool {
        let no_listener = seen.alive == Alive::No || seen.url == Url::NoListener;
        let long = self.unavailable_for(seen.now).is_some_and(|time| time >= service.fall_time());
        no_listener || long || !service.balancers.is_empty()
    }

    /// How long it has been ready in every look.
    pub(crate) fn healthy_for(&self, now: Instant) -> Option<Duration> {
        self.healthy_since.map(|since| now.saturating_duration_since(since))
    }

    /// How long it has been ready, its health URL has answered 200 and the balancers have sent it requests, all without a
    /// break. Balancers that cannot be asked send requests once their checks had time to see it (`rise`).
    pub(crate) fn steady_for(&self, now: Instant, rise: Duration) -> Option<Duration> {
        let unasked = if self.asks_balancers { Duration::ZERO } else { rise };
        self.steady.lasts(now)?.checked_sub(unasked)
    }
}

fn since(slot: &mut Option<Instant>, holds: bool, now: Instant) {
    match (holds, slot.is_some()) {
        (true, false) => *slot = Some(now),
        (false, true) => *slot = None,
        _ => {}
    }
}

/// How long after the n-th fall in a row a service is started again: 1 s doubled each time, at most a minute.
pub(crate) fn backoff(crashes: u32) -> Duration {
    Duration::from_secs(1 << crashes.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}
