//! What a service answers while it is not healthy, for reports. The text changes seldom, because every report is a write.

use super::seen::{DisableFile, Probed, Seen, Url};
use crate::journal::Phase;
use std::time::Duration;
use tokio::time::Instant;

/// A service that is well within this time says nothing: most starts take as long.
const AFTER: Duration = Duration::from_secs(5);

/// Between two texts.
const AGAIN: Duration = Duration::from_secs(15);

/// The answers of one service that is not well.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    since: Option<Instant>,
    reported: Option<(Instant, String)>,
}

impl Answers {
    /// Takes a look in.
    pub(crate) fn take_in(&mut self, phase: &Phase, seen: &Seen) {
        if !matches!(phase, Phase::Fresh | Phase::Verifying | Phase::Serving) || is_well(seen) {
            return *self = Self::default();
        }
        let since = *self.since.get_or_insert(seen.now);
        let old = |at: Instant, limit| seen.now.saturating_duration_since(at) >= limit;
        if old(since, AFTER) && self.reported.as_ref().is_none_or(|(at, _)| old(*at, AGAIN)) {
            self.reported = Some((seen.now, seen.last_answers()));
        }
    }

    /// What a report says of them.
    pub(crate) fn reported(&self) -> Option<&str> {
        self.reported.as_ref().map(|(_, text)| text.as_str())
    }
}

/// Whether every address answers as it should. What a disable-file makes an address answer says nothing.
fn is_well(seen: &Seen) -> bool {
    let reached = seen.file != DisableFile::Absent || seen.url == Url::Good;
    (seen.ready || seen.masked) && matches!(seen.probe, Probed::Version(_)) && reached
}

#[cfg(test)]
mod tests {
    use super::super::tests::story::Story;
    use super::*;

    #[test]
    fn answers_are_logged_late_seldom_and_not_when_healthy() {
        let mut story = Story::serving();
        let mut answers = Answers::default();
        story.journal.phase = Phase::Verifying;
        let mut said = Vec::new();
        for second in 0..25 {
            story.seen.ready = second == 24;
            story.seen.said.ready = format!("503 \"{second}\"");
            answers.take_in(&story.journal.phase, &story.seen);
            let text = answers.reported().map(str::to_owned);
            if said.last() != Some(&text) {
                said.push(text);
            }
            story.pass(1);
        }
        let begins = |text: &Option<String>| text.as_ref().map(|text| text.contains("503 \"5\""));
        assert_eq!(
            said.iter().map(begins).collect::<Vec<_>>(),
            [None, Some(true), Some(false), None],
            "{said:?}"
        );
        assert!(said[2].as_ref().is_some_and(|text| text.contains("503 \"20\"")), "{said:?}");
    }

    #[test]
    fn answers_are_reported_where_nothing_is_known_to_have_run() {
        let (mut story, mut answers) = (Story::serving(), Answers::default());
        story.journal.phase = Phase::Fresh;
        story.gone();
        for (second, is_said) in [(0, false), (4, false), (5, true)] {
            let now = story.seen.now + Duration::from_secs(second);
            answers.take_in(&story.journal.phase, &Seen { now, ..story.seen.clone() });
            assert_eq!(answers.reported().is_some(), is_said, "after {second} s");
        }
    }
}
