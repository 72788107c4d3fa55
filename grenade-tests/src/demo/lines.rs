//! The demo as lines: one for each thing that changed.

use std::time::Duration;

use crate::gate::picture::{InstanceSeen, Picture, UpgradeSeen};

/// Columns of a label, as in `tidegate upgrade watch`.
pub const LABEL: usize = 12;

/// Requests change all the time: they are printed so often.
const REQUESTS_EVERY: Duration = Duration::from_secs(2);

/// What was printed last.
#[derive(Debug, Default)]
pub struct Lines {
    last: Picture,
    requests_printed: Option<Duration>,
}

impl Lines {
    /// What is new in this picture.
    pub fn changes(&mut self, at: Duration, now: &Picture) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(upgrade) = &now.upgrade {
            lines.extend(moved(self.last.upgrade.as_ref(), upgrade));
        }
        for instance in &now.instances {
            let before = self.last.instances.iter().find(|before| before.node == instance.node);
            if before.is_none_or(|before| state(before) != state(instance)) {
                lines.push(labelled(&instance.node, state(instance)));
            }
        }
        if now.waits != self.last.waits {
            let kinds = |picture: &Picture| picture.waits.iter().map(|w| w.line()).collect::<Vec<_>>();
            let printed = kinds(&self.last);
            let new = kinds(now).into_iter().filter(|wait| !printed.contains(wait));
            lines.extend(new.map(|wait| labelled("waiting on", wait)));
        }
        let due = self.requests_printed.is_none_or(|printed| at.saturating_sub(printed) >= REQUESTS_EVERY);
        let failed = now.requests.failed > self.last.requests.failed;
        if now.requests.sent > 0 && (due || failed) {
            self.requests_printed = Some(at);
            lines.push(labelled("requests", requests(now)));
        }
        self.last = now.clone();
        lines
    }
}

/// A line of a label and what it is of.
fn labelled(label: &str, text: impl std::fmt::Display) -> String {
    format!("{label:<LABEL$}{text}")
}

/// Phases that were left, the phase and the wave, where one of them changed. A phase that was over before the first
/// look is printed all the same.
fn moved(before: Option<&UpgradeSeen>, now: &UpgradeSeen) -> Vec<String> {
    let mut lines = Vec::new();
    let printed = before.map_or(0, |before| before.left.len());
    for (phase, seconds) in now.left.iter().skip(printed) {
        if before.is_none_or(|before| before.phase != *phase) {
            lines.push(labelled("phase", phase));
        }
        lines.push(labelled("left", format!("{phase} after {seconds:.1} s")));
    }
    if before.is_none_or(|before| before.phase != now.phase) {
        let because = now.because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        lines.push(labelled("phase", format!("{}{because}", now.phase)));
    }
    if let Some(wave) = now.wave
        && before.and_then(|before| before.wave) != Some(wave)
    {
        let size = now.waves.get((wave as usize).saturating_sub(1)).copied().unwrap_or_default();
        lines.push(labelled("wave", format!("{wave} of {}, size {size}", now.waves.len())));
    }
    lines
}

/// All of an instance but what changes with each request.
fn state(instance: &InstanceSeen) -> String {
    let version = instance.version.map_or_else(|| "unknown".to_owned(), |version| version.to_string());
    format!(
        "version {version:<8}{:<10}{:<10}balancer says {:<10}{}",
        instance.rotation, instance.health, instance.balancer, instance.step
    )
}

/// The counts.
pub fn requests(picture: &Picture) -> String {
    let seen = &picture.requests;
    format!("{} sent, {} ok, {} failed, {} in flight", seen.sent, seen.ok, seen.failed, seen.in_flight())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Lines;
    use crate::gate::picture::{InstanceSeen, Picture, UpgradeSeen, Wait};
    use crate::load::LoadProgress;

    fn picture() -> Picture {
        let instance =
            InstanceSeen { node: "node-1".to_owned(), version: Some(1), ..InstanceSeen::default() };
        let left = vec![("preflight".to_owned(), 0.1)];
        let upgrade = UpgradeSeen { phase: "stage".to_owned(), left, ..UpgradeSeen::default() };
        Picture { upgrade: Some(upgrade), instances: vec![instance], ..Picture::default() }
    }

    #[test]
    fn only_changes_are_printed() {
        let mut lines = Lines::default();
        let mut now = picture();
        let first = lines.changes(Duration::ZERO, &now).join("\n");
        assert!(first.contains("left        preflight after 0.1 s"), "{first}");
        assert!(first.contains("phase       stage") && first.contains("node-1      version 1"), "{first}");
        assert_eq!(lines.changes(Duration::ZERO, &now), Vec::<String>::new());
        now.instances[0].sessions = "7".to_owned();
        assert_eq!(
            lines.changes(Duration::ZERO, &now),
            Vec::<String>::new(),
            "sessions change with each request"
        );
        now.instances[0].version = Some(2);
        assert_eq!(lines.changes(Duration::ZERO, &now).len(), 1);
        let wait = Wait { kind: "x".to_owned(), what: "a condition".to_owned(), who: "its owner".to_owned() };
        now.waits.push(wait);
        assert_eq!(lines.changes(Duration::ZERO, &now), ["waiting on  a condition [its owner]"]);
    }

    #[test]
    fn phase_between_two_looks_is_printed() {
        let mut lines = Lines::default();
        let mut now = picture();
        lines.changes(Duration::ZERO, &now);
        let upgrade = now.upgrade.as_mut().unwrap();
        upgrade.left.extend([("stage".to_owned(), 0.7), ("expand".to_owned(), 0.1)]);
        upgrade.phase = "migrate".to_owned();
        let expected = [
            "left        stage after 0.7 s",
            "phase       expand",
            "left        expand after 0.1 s",
            "phase       migrate",
        ];
        assert_eq!(lines.changes(Duration::ZERO, &now), expected);
    }

    #[test]
    fn failed_request_is_printed_at_once() {
        let mut lines = Lines::default();
        let mut now = picture();
        now.requests = LoadProgress { sent: 1, ok: 0, failed: 0, not_sent: 0 };
        assert!(lines.changes(Duration::ZERO, &now).iter().any(|line| line.contains("1 sent")));
        now.requests.sent = 2;
        assert_eq!(lines.changes(Duration::ZERO, &now), Vec::<String>::new());
        now.requests.failed = 1;
        assert_eq!(lines.changes(Duration::ZERO, &now).len(), 1);
        assert_eq!(lines.changes(Duration::from_secs(3), &now).len(), 1);
    }
}
