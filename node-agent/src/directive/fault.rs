//! Faults of a service that was verified and should be in rotation.
//!
//! A fault is reported as soon as it is seen, and is lasting after [`LASTING`], so that a fault of many instances,
//! which their agents see at different times, is reported by all of them before it counts for any.

use super::seen::{DisableFile, Probed, Seen, Url};
use crate::host::Alive;
use crate::journal::Phase;
use std::time::Duration;
use tidegate_proto::record::report::Fault;
use tokio::time::Instant;

/// A fault that lasts for less than this is a hiccup and counts for nothing. A process that ends counts after this time
/// also where it was started again meanwhile.
pub(crate) const LASTING: Duration = Duration::from_secs(3);

/// For how long after its beginning a fault counts as recent, and for how long a fault that has ended is still reported.
pub(crate) const RECENT: Duration = Duration::from_secs(15);

/// The faults of one service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Bad looks in a row.
    bad: u32,
    bad_since: Option<Instant>,
    raised: Option<Raised>,
}

#[derive(Debug, Clone)]
struct Raised {
    began: Instant,
    reason: String,
    /// The process ended: being good again does not undo that.
    ended: bool,
    lasting: bool,
    /// Since when it is good again.
    over: Option<Instant>,
}

impl Faults {
    /// Takes a look in. `debounce`: how many bad looks in a row are a fault.
    pub(crate) fn take_in(&mut self, phase: &Phase, seen: &Seen, debounce: u32) {
        let now = seen.now;
        let wrong = if *phase == Phase::Serving { wrong(seen) } else { None };
        self.bad = if wrong.is_some() { self.bad.saturating_add(1) } else { 0 };
        self.bad_since = wrong.is_some().then(|| self.bad_since.unwrap_or(now));
        if let (Some(reason), Some(began)) = (wrong, self.bad_since) {
            let ended = seen.alive == Alive::No;
            if ended || self.bad >= debounce {
                self.raise(began, reason, ended);
            }
        }
        let good = *phase == Phase::Serving && self.bad == 0;
        if let Some(raised) = &mut self.raised {
            if good {
                raised.over.get_or_insert(now);
            }
            let since = now.saturating_duration_since(raised.began);
            // Bad looks after it was over are another fault, or none.
            let goes_on = raised.over.is_none() && self.bad_since.is_some();
            raised.lasting |= since >= LASTING && (raised.ended || goes_on);
            let over = raised.over.map(|over| now.saturating_duration_since(over));
            let is_expired = since >= RECENT && (!raised.lasting || over.is_some_and(|time| time >= RECENT));
            if is_expired && over.is_some() {
                self.raised = None;
            }
        }
    }

    /// A look begins `away` after the last one, and the agent rests for `rest` between two. Where it did not look for much
    /// longer, as on a machine that was stopped for a while, a fault that does not count yet may have ended meanwhile: bad looks
    /// before and after that are not one fault. Returns whether that is so.
    pub(crate) fn begins_look(&mut self, now: Instant, away: Duration, rest: Duration) -> bool {
        if away <= LASTING.max(rest * 2) {
            return false;
        }
        (self.bad, self.bad_since) = (0, None);
        if let Some(raised) = self.raised.as_mut().filter(|raised| !raised.lasting && !raised.ended) {
            raised.over.get_or_insert(now);
        }
        true
    }

    fn raise(&mut self, began: Instant, reason: String, ended: bool) {
        match &mut self.raised {
            // One that counts already is the same one until it is over.
            Some(raised) if raised.lasting || raised.over.is_none() => {
                raised.ended |= ended;
                raised.over = None;
            }
            _ => self.raised = Some(Raised { began, reason, ended, lasting: false, over: None }),
        }
    }

    /// What was seen so far is of another release, or of another attempt.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// What a report says of it.
    pub(crate) fn reported(&self, now: Instant) -> Option<Fault> {
        let raised = self.raised.as_ref()?;
        let recent = now.saturating_duration_since(raised.began) < RECENT;
        Some(Fault { reason: raised.reason.clone(), lasting: raised.lasting, recent })
    }
}

/// What is wrong with a service that should be in rotation. What a person keeps out is not looked at.
fn wrong(seen: &Seen) -> Option<String> {
    let found = match (seen.alive, &seen.probe, seen.url) {
        _ if seen.file != DisableFile::Absent => return None,
        (Alive::No, ..) => "its process ended".to_owned(),
        (Alive::Silent, ..) => "nothing listens where it should answer".to_owned(),
        _ if !seen.ready => {
            format!("its readiness URL does not answer 200 (last answer: {})", seen.said.ready)
        }
        (_, Probed::Failed(why), _) => format!("its version cannot be learned: {why}"),
        (_, _, Url::Good) => return None,
        _ => format!("its health URL does not answer 200 (last answer: {})", seen.said.health),
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::tests::story::Story;
    use super::*;

    /// What is reported after each of so many seconds, in letters: `-` nothing, `r` recent, `R` recent and lasting, `L`
    /// lasting.
    fn reported(story: &mut Story, faults: &mut Faults, seconds: usize) -> String {
        let each = (0..seconds).map(|_| {
            story.pass(1);
            faults.take_in(&story.journal.phase, &story.seen, 2);
            match faults.reported(story.seen.now) {
                None => '-',
                Some(Fault { lasting: false, .. }) => 'r',
                Some(Fault { recent: true, .. }) => 'R',
                Some(_) => 'L',
            }
        });
        each.collect()
    }

    fn recover(story: &mut Story) {
        story.seen = Seen { now: story.seen.now, ..Story::serving().seen };
    }

    #[test]
    fn hiccup_is_reported_and_never_lasting() {
        let (mut story, mut faults) = (Story::serving(), Faults::default());
        assert_eq!(reported(&mut story, &mut faults, 2), "--");
        story.seen.ready = false;
        assert_eq!(reported(&mut story, &mut faults, 3), "-rr");
        story.seen.ready = true;
        assert_eq!(reported(&mut story, &mut faults, 15), "rrrrrrrrrrrr---");
        story.seen.ready = false;
        assert_eq!(reported(&mut story, &mut faults, 1), "-", "one bad look is none");
    }

    #[test]
    fn two_hiccups_are_no_lasting_fault() {
        let (mut story, mut faults) = (Story::serving(), Faults::default());
        for bad in [2, 1, 2, 1] {
            story.seen.ready = false;
            assert!(!reported(&mut story, &mut faults, bad).contains(['R', 'L']));
            story.seen.ready = true;
            assert!(!reported(&mut story, &mut faults, 5).contains(['R', 'L']));
        }
    }

    /// Its agent, with the machine, is stopped for 20 s after each number of bad looks.
    #[test]
    fn bad_looks_before_and_after_a_stop_are_not_one_fault() {
        let rest = Duration::from_secs(1);
        for bad in [1, 2] {
            let (mut story, mut faults) = (Story::serving(), Faults::default());
            story.seen.ready = false;
            assert!(!reported(&mut story, &mut faults, bad).contains(['R', 'L']), "after {bad}");
            story.pass(19);
            faults.begins_look(story.seen.now, rest * 19, rest);
            assert!(!reported(&mut story, &mut faults, bad).contains(['R', 'L']), "after {bad}");
            assert!(reported(&mut story, &mut faults, 5).ends_with('R'), "it goes on");
        }
        let (mut story, mut faults) = (Story::serving(), Faults::default());
        story.seen.ready = false;
        assert!(reported(&mut story, &mut faults, 5).ends_with('R'));
        story.pass(19);
        faults.begins_look(story.seen.now, rest * 19, rest);
        assert!(reported(&mut story, &mut faults, 1).ends_with('L'), "it counted already");
    }

    #[test]
    fn persistent_fault_is_lasting_and_reported_afterwards() {
        let (mut story, mut faults) = (Story::serving().by_hooks(), Faults::default());
        story.silent();
        story.seen.url = Url::NoListener;
        assert_eq!(reported(&mut story, &mut faults, 20), format!("-rr{}{}", "R".repeat(12), "L".repeat(5)));
        recover(&mut story);
        assert_eq!(reported(&mut story, &mut faults, 20), format!("{}-----", "L".repeat(15)));
    }

    #[test]
    fn ended_process_counts_also_where_it_was_started_again() {
        let (mut story, mut faults) = (Story::serving(), Faults::default());
        story.gone();
        assert_eq!(reported(&mut story, &mut faults, 1), "r");
        story.enter(Phase::Stopped);
        assert_eq!(reported(&mut story, &mut faults, 1), "r");
        recover(&mut story);
        story.enter(Phase::Serving);
        assert!(reported(&mut story, &mut faults, 2).ends_with('R'));
    }

    #[test]
    fn instance_in_maintenance_has_no_fault() {
        let (mut story, mut faults) = (Story::serving(), Faults::default());
        story.seen.file = DisableFile::Foreign;
        story.seen.url = Url::Unavailable;
        story.seen.ready = false;
        assert_eq!(reported(&mut story, &mut faults, 10), "-".repeat(10));
    }
}
