//! The demo as a frame for a terminal: a pure function of what is seen and of the terminal's size.

use std::time::Duration;

use tidegate_coordinator::terminal::paint::{Line, Tone, wrap};

use crate::demo::lines::{LABEL, requests};
use crate::gate::picture::{FORWARD, InstanceSeen, Picture, UpgradeSeen};

/// As many of the last lines that were said are in the frame.
const SAID: usize = 3;

/// The frame, in at most `height` lines; lines that are wider than `width` are for the caller to cut.
pub fn lines(at: Duration, picture: &Picture, said: &[String], width: usize, height: usize) -> Vec<Line> {
    let mut lines = vec![
        Line::new()
            .with(Tone::Strong, format!("{:6.1} s  ", at.as_secs_f64()))
            .with(Tone::Plain, &picture.doing),
    ];
    if let Some(upgrade) = &picture.upgrade {
        lines.extend(flow("phases", phases(upgrade), width));
        lines.extend(flow("waves", waves(upgrade), width));
        if let Some(because) = &upgrade.because {
            let rows = wrap(because, width.saturating_sub(LABEL)).into_iter();
            lines.extend(under("because", rows.map(|row| Line::new().with(Tone::Bad, row))));
        }
    }
    lines.push(Line::new());
    let header = row(&["node", "version", "rotation", "health", "balancer", "requests", "wave", "step"]);
    lines.push(Line::new().with(Tone::Faint, header));
    lines.extend(picture.instances.iter().map(instance));
    lines.push(Line::new());
    let tone = if picture.requests.failed > 0 { Tone::Bad } else { Tone::Good };
    lines.push(labelled("requests").with(tone, requests(picture)));
    let waits = picture.waits.iter();
    let waits = waits
        .map(|wait| Line::new().with(Tone::Warn, &wait.what).with(Tone::Faint, format!("  [{}]", wait.who)));
    lines.extend(under("waiting on", waits));
    let last = said.iter().skip(said.len().saturating_sub(SAID));
    lines.extend(last.map(|line| Line::new().with(Tone::Faint, line)));
    lines.truncate(height);
    lines
}

fn labelled(label: &str) -> Line {
    Line::new().with(Tone::Plain, format!("{label:<LABEL$}"))
}

/// A label before the first of some lines, and its width before the others.
fn under(label: &str, lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels.zip(lines).map(|(label, line)| labelled(label).and(line)).collect()
}

/// A label and words, in as many lines as the width makes necessary.
fn flow(label: &str, words: Vec<(Tone, String)>, width: usize) -> Vec<Line> {
    let mut rows = vec![Line::new()];
    for (tone, word) in words {
        let row = rows.pop().unwrap_or_default();
        let space = if row.width() == 0 { "" } else { "  " };
        let longer = row.clone().with(tone, space).with(tone, &word);
        if row.width() > 0 && LABEL + longer.width() > width {
            rows.extend([row, Line::new().with(tone, word)]);
        } else {
            rows.push(longer);
        }
    }
    under(label, rows.into_iter())
}

/// Phases: those that were left with their seconds, the one under way, those to come.
fn phases(upgrade: &UpgradeSeen) -> Vec<(Tone, String)> {
    let left = upgrade.left.iter();
    let mut words: Vec<_> =
        left.map(|(phase, seconds)| (Tone::Good, format!("{phase} {seconds:.1}s"))).collect();
    words.push(match upgrade.over {
        true => (Tone::of_phase(&upgrade.phase), upgrade.phase.clone()),
        false => (Tone::of_phase(&upgrade.phase), format!("[{} {:.1}s]", upgrade.phase, upgrade.seconds)),
    });
    let to_come = FORWARD.iter().skip_while(|phase| **phase != upgrade.phase).skip(1);
    words.extend(to_come.map(|phase| (Tone::Faint, (*phase).to_owned())));
    words
}

/// Waves with their sizes, the one under way in brackets.
fn waves(upgrade: &UpgradeSeen) -> Vec<(Tone, String)> {
    if upgrade.waves.is_empty() {
        return vec![(Tone::Faint, "not drawn yet".to_owned())];
    }
    let now = upgrade.wave.unwrap_or(u32::MAX);
    let word = |(wave, size): (u32, &u32)| match wave.cmp(&now) {
        std::cmp::Ordering::Less => (Tone::Good, format!("{wave}: {size}")),
        std::cmp::Ordering::Equal => (Tone::Strong, format!("[{wave}: {size}]")),
        std::cmp::Ordering::Greater => (Tone::Faint, format!("{wave}: {size}")),
    };
    (1..).zip(&upgrade.waves).map(word).collect()
}

fn instance(seen: &InstanceSeen) -> Line {
    let version = seen.version.map_or_else(|| "?".to_owned(), |version| version.to_string());
    let wave = seen.wave.map_or_else(|| "-".to_owned(), |wave| wave.to_string());
    let (rotation, health, balancer) = (&seen.rotation, &seen.health, &seen.balancer);
    let text = row(&[&seen.node, &version, rotation, health, balancer, &seen.sessions, &wave, &seen.step]);
    let tone = match (seen.rotation.as_str(), seen.version) {
        _ if seen.step.starts_with("failed") => Tone::Bad,
        ("in", Some(2)) => Tone::Good,
        ("in", _) => Tone::Plain,
        _ => Tone::Warn,
    };
    Line::new().with(tone, text)
}

fn row(fields: &[&str; 8]) -> String {
    let [node, version, rotation, health, balancer, requests, wave, step] = fields;
    format!("{node:<10}{version:<9}{rotation:<12}{health:<11}{balancer:<10}{requests:<10}{wave:<6}{step}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::picture::Wait;

    fn picture() -> Picture {
        let left = [("preflight", 0.1), ("stage", 1.25), ("expand", 0.1), ("migrate", 0.2)];
        let upgrade = UpgradeSeen {
            phase: "roll".to_owned(),
            left: left.map(|(phase, seconds)| (phase.to_owned(), seconds)).into(),
            wave: Some(2),
            waves: vec![1, 2],
            ..UpgradeSeen::default()
        };
        let instance = InstanceSeen {
            node: "node-3".to_owned(),
            version: Some(1),
            rotation: "leaving".to_owned(),
            ..InstanceSeen::default()
        };
        let wait =
            Wait { kind: String::new(), what: "draining node-3".to_owned(), who: "the agents".to_owned() };
        Picture { upgrade: Some(upgrade), instances: vec![instance], waits: vec![wait], ..Picture::default() }
    }

    fn text(width: usize, height: usize) -> Vec<String> {
        let said: Vec<String> = (1..=4).map(|n| format!("line {n}")).collect();
        let lines = lines(Duration::ZERO, &picture(), &said, width, height);
        lines.iter().map(|line| line.text(500, false)).collect()
    }

    #[test]
    fn frame_has_phases_instances_requests_waits_and_last_lines() {
        let text = text(200, 24).join("\n");
        for part in [
            "stage 1.2s  expand",
            "[roll 0.0s]  remove  contract",
            "1: 1  [2: 2]",
            "node-3    1        leaving",
            "requests    0 sent",
            "waiting on  draining node-3  [the agents]",
            "\nline 2\nline 3\nline 4",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("line 1"), "{text}");
    }

    #[test]
    fn phases_take_as_many_lines_as_the_terminal_is_narrow() {
        let text = text(60, 24);
        assert_eq!(text[1], "phases      preflight 0.1s  stage 1.2s  expand 0.1s");
        assert_eq!(text[2], "            migrate 0.2s  [roll 0.0s]  remove  contract");
        assert_eq!(text[3], "            completed");
    }

    #[test]
    fn frame_has_no_more_lines_than_the_terminal() {
        assert_eq!(text(80, 5).len(), 5);
    }
}
