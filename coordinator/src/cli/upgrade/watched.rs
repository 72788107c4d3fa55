//! What `tidegate upgrade watch` knows of an upgrade, from two sources: the stream of what happens and the status.

use super::frame::Frame;
use crate::cli::show;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tidegate_proto::wire::v1::upgrade_seen::Seen;
use tidegate_proto::wire::v1::{Over, Reasons, UpgradeSeen, UpgradeStatusReply, UpgradeSummary};

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Watched {
    upgrade: Option<UpgradeSummary>,
    status: UpgradeStatusReply,
    reasons: Reasons,
    event: Option<String>,
    over: Option<Over>,
    /// The coordinator's time in phase, and when it was read.
    in_phase: Option<(Duration, Instant)>,
    away: Option<Instant>,
    pace: Pace,
}

impl Watched {
    /// Takes a message of the stream in; how the upgrade ended, where this says so.
    pub(super) fn see(&mut self, seen: UpgradeSeen, now: Instant) -> Option<Over> {
        self.away = None;
        match seen.seen? {
            Seen::Event(event) => self.event = Some(show::event(&event)),
            Seen::Waiting(reasons) => self.reasons = reasons,
            Seen::Progress(upgrade) => self.progress(upgrade, now),
            Seen::Over(over) => self.over = Some(over),
        }
        self.over.clone()
    }

    /// Takes a status in.
    pub(super) fn status(&mut self, mut status: UpgradeStatusReply, now: Instant) {
        self.away = None;
        self.reasons = Reasons { reasons: std::mem::take(&mut status.waiting), more: status.more_waiting };
        if let Some(upgrade) = status.upgrade.take() {
            self.progress(upgrade, now);
        }
        let reported = Duration::from_millis(status.phase_ms);
        // The stored time is up to a minute old: it is never counted back.
        let counted = self.in_phase(now).unwrap_or_default();
        self.in_phase = Some((reported.max(counted), now));
        self.status = status;
    }

    /// The status could not be asked for.
    pub(super) fn went_away(&mut self, now: Instant) {
        self.away.get_or_insert(now);
    }

    fn progress(&mut self, upgrade: UpgradeSummary, now: Instant) {
        let same = self.upgrade.as_ref().is_some_and(|before| before.phase == upgrade.phase);
        if !same {
            self.in_phase = self.upgrade.is_some().then_some((Duration::ZERO, now));
        }
        self.pace.see(&upgrade, now);
        self.upgrade = Some(upgrade);
    }

    fn in_phase(&self, now: Instant) -> Option<Duration> {
        self.in_phase.map(|(reported, at)| reported + now.saturating_duration_since(at))
    }

    /// What is to be shown now; none before the first answer.
    pub(super) fn frame(&self, now: Instant) -> Option<Frame<'_>> {
        let upgrade = self.upgrade.as_ref()?;
        let away = self.away.map(|since| now.saturating_duration_since(since));
        Some(Frame {
            upgrade,
            status: &self.status,
            reasons: &self.reasons,
            event: self.event.as_deref(),
            over: self.over.as_ref(),
            in_phase: self.in_phase(now).filter(|_| !upgrade.over),
            left: self.pace.left(upgrade, now).filter(|_| away.is_none()),
            away,
        })
    }
}

/// How fast instances became done in this roll, as far as it was watched.
#[derive(Debug, Default)]
struct Pace(VecDeque<(Instant, u32)>);

impl Pace {
    /// So many changes are remembered: a pace changes with the size of waves.
    const KEPT: usize = 12;
    /// Fewer changes than this are no pace.
    const LEAST: usize = 4;

    fn see(&mut self, upgrade: &UpgradeSummary, now: Instant) {
        let last = self.0.back().map(|(_, done)| *done);
        if upgrade.phase != "roll" || upgrade.paused || last.is_some_and(|last| upgrade.done < last) {
            self.0.clear();
        } else if last != Some(upgrade.done) {
            self.0.push_back((now, upgrade.done));
            if self.0.len() > Self::KEPT {
                self.0.pop_front();
            }
        }
    }

    /// The time that is left in roll. None where too little was seen, and where the last change is so long ago that the pace
    /// holds no more.
    fn left(&self, upgrade: &UpgradeSummary, now: Instant) -> Option<Duration> {
        let ((began, from), (last, to)) = (self.0.front()?, self.0.back()?);
        if self.0.len() < Self::LEAST {
            return None;
        }
        let took = last.saturating_duration_since(*began);
        let between = took / u32::try_from(self.0.len() - 1).ok()?;
        let since = now.saturating_duration_since(*last);
        if since > 3 * between.max(Duration::from_secs(1)) {
            return None;
        }
        let each = took.div_f64(f64::from(to - from));
        Some(each.mul_f64(f64::from(upgrade.instances.checked_sub(*to)?)).saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roll(done: u32) -> UpgradeSummary {
        UpgradeSummary { phase: "roll".to_owned(), done, instances: 10, ..UpgradeSummary::default() }
    }

    #[test]
    fn time_left_needs_four_counts_and_ends_when_nothing_moves() {
        let (mut pace, began) = (Pace::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        for done in 0..3 {
            pace.see(&roll(done), at(u64::from(done) * 10));
        }
        assert_eq!(pace.left(&roll(2), at(20)), None, "three counts");
        pace.see(&roll(3), at(30));
        assert_eq!(pace.left(&roll(3), at(30)), Some(Duration::from_secs(70)));
        assert_eq!(pace.left(&roll(3), at(35)), Some(Duration::from_secs(65)));
        assert_eq!(pace.left(&roll(3), at(61)), None, "nothing moved for three times as long as usual");
        pace.see(&UpgradeSummary { paused: true, ..roll(3) }, at(62));
        assert_eq!(pace.left(&roll(3), at(62)), None, "paused");
    }

    #[test]
    fn time_in_phase_is_counted_on_and_begins_again_with_a_phase() {
        let (mut watched, began) = (Watched::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let status = |phase_ms| UpgradeStatusReply {
            upgrade: Some(roll(0)),
            phase_ms,
            ..UpgradeStatusReply::default()
        };
        watched.status(status(60_000), at(0));
        watched.status(status(60_000), at(5));
        assert_eq!(watched.frame(at(7)).unwrap().in_phase, Some(Duration::from_secs(67)));
        let remove = UpgradeSummary { phase: "remove".to_owned(), ..roll(10) };
        watched.see(UpgradeSeen { seen: Some(Seen::Progress(remove)) }, at(8));
        assert_eq!(watched.frame(at(9)).unwrap().in_phase, Some(Duration::from_secs(1)));
    }
}
