//! The demo as lines: one for each thing that changed.

use std::time::Duration;

use crate::gate::picture::{InstanceSeen, Picture, UpgradeSeen};

/// Requests change all the time: they are printed so often.
const REQUESTS_EVERY: Duration = Duration::from_secs(2);

/// What was printed last.
#[derive(Debug, Default)]
pub struct Lines {
    last: Picture,
    requests_told: Option<Duration>,
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
            if before.is_none_or(|before| stands(before) != stands(instance)) {
                lines.push(format!("{:<10}{}", instance.node, stands(instance)));
            }
        }
        if now.waits != self.last.waits {
            let kinds = |picture: &Picture| picture.waits.iter().map(|w| w.line()).collect::<Vec<_>>();
            let told = kinds(&self.last);
            lines.extend(
                kinds(now).into_iter().filter(|w| !told.contains(w)).map(|w| format!("waits     {w}")),
            );
        }
        let due = self.requests_told.is_none_or(|told| at.saturating_sub(told) >= REQUESTS_EVERY);
        let failed = now.requests.failed > self.last.requests.failed;
        if now.requests.sent > 0 && (due || failed) {
            self.requests_told = Some(at);
            lines.push(format!("requests  {}", requests(now)));
        }
        self.last = now.clone();
        lines
    }
}

/// Phases that were left, the phase and the wave, where one of them changed. A phase that was over before the first
/// look is printed all the same.
fn moved(before: Option<&UpgradeSeen>, now: &UpgradeSeen) -> Vec<String> {
    let mut lines = Vec::new();
    let told = before.map_or(0, |before| before.left.len());
    for (phase, seconds) in now.left.iter().skip(told) {
        if before.is_none_or(|before| before.phase != *phase) {
            lines.push(format!("phase     {phase}"));
        }
        lines.push(format!("left      {phase} after {seconds:.1} s"));
    }
    if before.is_none_or(|before| before.phase != now.phase) {
        let because = now.because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        lines.push(format!("phase     {}{because}", now.phase));
    }
    if let Some(wave) = now.wave
        && before.and_then(|before| before.wave) != Some(wave)
    {
        let size = now.waves.get((wave as usize).saturating_sub(1)).copied().unwrap_or_default();
        lines.push(format!("wave      {wave} of {}, size {size}", now.waves.len()));
    }
    lines
}

/// All of an instance but what changes with each request.
fn stands(instance: &InstanceSeen) -> String {
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
    fn only_what_changed_is_told() {
        let mut lines = Lines::default();
        let mut now = picture();
        let first = lines.changes(Duration::ZERO, &now).join("\n");
        assert!(first.contains("left      preflight after 0.1 s"), "{first}");
        assert!(first.contains("phase     stage") && first.contains("node-1    version 1"), "{first}");
        assert_eq!(lines.changes(Duration::ZERO, &now), Vec::<String>::new());
        now.instances[0].sessions = "7".to_owned();
        assert_eq!(
            lines.changes(Duration::ZERO, &now),
            Vec::<String>::new(),
            "sessions change with each request"
        );
        now.instances[0].version = Some(2);
        assert_eq!(lines.changes(Duration::ZERO, &now).len(), 1);
        let wait = Wait { kind: "x".to_owned(), what: "the tide".to_owned(), who: "the moon".to_owned() };
        now.waits.push(wait);
        assert_eq!(lines.changes(Duration::ZERO, &now), ["waits     the tide [the moon]"]);
    }

    #[test]
    fn a_phase_that_nobody_saw_is_told_too() {
        let mut lines = Lines::default();
        let mut now = picture();
        lines.changes(Duration::ZERO, &now);
        let upgrade = now.upgrade.as_mut().unwrap();
        upgrade.left.extend([("stage".to_owned(), 0.7), ("expand".to_owned(), 0.1)]);
        upgrade.phase = "migrate".to_owned();
        let told = [
            "left      stage after 0.7 s",
            "phase     expand",
            "left      expand after 0.1 s",
            "phase     migrate",
        ];
        assert_eq!(lines.changes(Duration::ZERO, &now), told);
    }

    #[test]
    fn a_failed_request_is_told_at_once() {
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
