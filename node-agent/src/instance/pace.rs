//! How long an instance rests between two looks.

use crate::config::Service;
use crate::directive::seen::{Seen, Url};
use crate::directive::steady::DIP;
use crate::directive::timers::Timers;
use crate::journal::{Journal, Phase};
use std::time::Duration;
use tidegate_proto::record::report::Rotation;

/// A start or a stop that takes longer than this is looked at as seldom as an instance at rest.
const LULL: Duration = Duration::from_secs(10);

/// The first look after an act.
const AT_ONCE: Duration = Duration::from_millis(5);

/// The pause while something moves: short after an act, doubled after each look, up to `fast_interval`.
#[derive(Debug)]
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn at_once() -> Self {
        Self(AT_ONCE)
    }

    pub(super) fn slow_down(&mut self, service: &Service) {
        self.0 = (self.0 * 2).min(service.fast_interval);
    }

    pub(super) fn pause(
        &self,
        service: &Service,
        journal: &Journal,
        timers: &Timers,
        seen: &Seen,
    ) -> Duration {
        let (rest, fast) = (service.interval, service.fast_interval.min(self.0));
        match &journal.phase {
            Phase::Verifying => {
                // Healthy and in rotation: only time is missing, and looks often enough to see a break.
                let back = timers.rotation(seen, service) == Rotation::In;
                let steady = timers.steady_for(seen.now, service.rise_time()).filter(|_| back);
                let enough = journal.order.as_ref().map(|o| o.directive.health.min_healthy_time.into());
                match steady.zip(enough) {
                    Some((time, enough)) => {
                        let rest = rest.min(DIP / 2);
                        rest.min(Duration::saturating_sub(enough, time)).max(fast.min(rest))
                    }
                    None => fast,
                }
            }
            Phase::Fresh | Phase::Stopped
                if seen.now.saturating_duration_since(timers.phase_since) > LULL =>
            {
                jittered(rest)
            }
            Phase::Fresh | Phase::Draining | Phase::Stopping | Phase::Stopped | Phase::Starting { .. } => {
                fast
            }
            // Once balancers have taken it out it is hidden, before its health URL answers 200 again.
            Phase::Refused { stays: Some(_), .. } if seen.url != Url::Good => fast,
            Phase::Serving | Phase::Drained { .. } | Phase::Refused { .. } | Phase::Failed { .. } => {
                jittered(rest)
            }
        }
    }
}

/// Agents that one event has woken must not all write to the store at once after the same pause.
fn jittered(rest: Duration) -> Duration {
    rest.mul_f64(rand::random_range(0.75..=1.25))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::tests::story::Story;

    #[test]
    fn refused_instance_in_rotation_is_watched_while_it_fails() {
        let is_watched = |phase: Phase, url: Url| {
            let mut story = Story::serving();
            story.enter(phase);
            story.seen.url = url;
            let (fast, rest) = (story.service.fast_interval, story.service.interval);
            assert!(fast < rest / 2, "{fast:?}, {rest:?}");
            let pause = Pace(fast).pause(&story.service, &story.journal, &story.timers, &story.seen);
            pause <= fast
        };
        let staying = Phase::Refused { reason: "above".to_owned(), stays: Some("boot".to_owned()) };
        assert!(is_watched(staying.clone(), Url::Unavailable));
        assert!(is_watched(staying.clone(), Url::NoListener));
        assert!(!is_watched(staying, Url::Good), "it serves until it is drained");
        assert!(!is_watched(Phase::refused("above"), Url::Unavailable), "it is hidden");
        assert!(!is_watched(Phase::Serving, Url::Unavailable), "it is admitted");
    }
}
