//! The demo as a picture that is drawn over itself. Only ANSI's plainest words: up, erase, colour.

use std::io::Write;
use std::time::Duration;

use rustix::termios::tcgetwinsize;

use crate::demo::lines::requests;
use crate::gate::picture::{FORWARD, InstanceSeen, Picture, UpgradeSeen};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";
/// What a terminal that does not tell its size has.
const USUAL: (usize, usize) = (24, 80);

/// The picture on the terminal.
#[derive(Debug, Default)]
pub struct Screen {
    drawn: usize,
}

/// A line in pieces, each with its colour, so that it can be cut to the terminal's width.
type Line = Vec<(&'static str, String)>;

impl Screen {
    /// Draws over what was drawn last.
    pub fn draw(&mut self, at: Duration, picture: &Picture) {
        let (rows, columns) = size();
        let mut text = self.back();
        let lines = lines(at, picture);
        // One row stays free: a line's end in the last one would scroll.
        let shown = lines.len().min(rows.saturating_sub(1));
        for line in lines.iter().take(shown) {
            text.push_str(&cut(line, columns.saturating_sub(1)));
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J");
        self.drawn = shown;
        write(&text);
    }

    /// Writes a line that stays, above the picture.
    pub fn above(&mut self, line: &str) {
        let text = format!("{}\x1b[J{line}\n", self.back());
        self.drawn = 0;
        write(&text);
    }

    /// Leaves the picture where it is.
    pub fn end(&mut self) {
        if self.drawn > 0 {
            write("\x1b[?25h\n");
        }
        self.drawn = 0;
    }

    /// Back to the first line of what was drawn, without a cursor that flickers.
    fn back(&self) -> String {
        match self.drawn {
            0 => "\x1b[?25l\r".to_owned(),
            drawn => format!("\x1b[?25l\x1b[{drawn}F"),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h");
    }
}

fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => USUAL,
    }
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

fn cut(line: &Line, width: usize) -> String {
    let (mut text, mut left) = (String::new(), width);
    for (colour, piece) in line {
        let piece: String = piece.chars().take(left).collect();
        left -= piece.chars().count();
        text.push_str(colour);
        text.push_str(&piece);
        text.push_str(PLAIN);
    }
    text
}

/// The whole picture.
fn lines(at: Duration, picture: &Picture) -> Vec<Line> {
    let mut lines =
        vec![vec![(BOLD, format!("{:6.1} s  ", at.as_secs_f64())), (PLAIN, picture.doing.clone())]];
    if let Some(upgrade) = &picture.upgrade {
        lines.push(phases(upgrade));
        lines.push(waves(upgrade));
        if let Some(because) = &upgrade.because {
            lines.push(vec![(PLAIN, "because   ".to_owned()), (RED, because.clone())]);
        }
    }
    lines.push(Vec::new());
    let header = row(&["node", "version", "rotation", "health", "balancer", "requests", "wave", "step"]);
    lines.push(vec![(DIM, header)]);
    lines.extend(picture.instances.iter().map(instance));
    lines.push(Vec::new());
    let colour = if picture.requests.failed > 0 { RED } else { GREEN };
    lines.push(vec![(PLAIN, "requests  ".to_owned()), (colour, requests(picture))]);
    for (n, wait) in picture.waits.iter().enumerate() {
        let word = if n == 0 { "waits     " } else { "          " };
        lines.push(vec![
            (PLAIN, word.to_owned()),
            (YELLOW, wait.what.clone()),
            (DIM, format!("  [{}]", wait.who)),
        ]);
    }
    lines
}

/// Phases: those that were left with their seconds, the one under way in bold, what is still to come dim.
fn phases(upgrade: &UpgradeSeen) -> Line {
    let mut line = vec![(PLAIN, "phases    ".to_owned())];
    for (phase, seconds) in &upgrade.left {
        line.push((GREEN, format!("{phase} {seconds:.1}s  ")));
    }
    let colour = if FORWARD.contains(&upgrade.phase.as_str()) { BOLD } else { YELLOW };
    line.push(match upgrade.over {
        true => (colour, upgrade.phase.clone()),
        false => (colour, format!("{} {:.1}s  ", upgrade.phase, upgrade.seconds)),
    });
    let to_come = FORWARD.iter().skip_while(|phase| **phase != upgrade.phase).skip(1);
    line.extend(to_come.map(|phase| (DIM, format!("{phase}  "))));
    line
}

fn waves(upgrade: &UpgradeSeen) -> Line {
    let mut line = vec![(PLAIN, "waves     ".to_owned())];
    for (wave, size) in (1..).zip(&upgrade.waves) {
        let now = upgrade.wave.unwrap_or(u32::MAX);
        let colour = match wave {
            _ if wave < now => GREEN,
            _ if wave == now => BOLD,
            _ => DIM,
        };
        line.push((colour, format!("{wave}: {size}   ")));
    }
    if upgrade.waves.is_empty() {
        line.push((DIM, "not drawn yet".to_owned()));
    }
    line
}

fn instance(seen: &InstanceSeen) -> Line {
    let version = seen.version.map_or_else(|| "?".to_owned(), |version| version.to_string());
    let wave = seen.wave.map_or_else(|| "-".to_owned(), |wave| wave.to_string());
    let sessions = &seen.sessions;
    let text = row(&[
        &seen.node,
        &version,
        &seen.rotation,
        &seen.health,
        &seen.balancer,
        sessions,
        &wave,
        &seen.step,
    ]);
    let colour = match (seen.rotation.as_str(), seen.version) {
        _ if seen.step.starts_with("failed") => RED,
        ("in", Some(2)) => GREEN,
        ("in", _) => PLAIN,
        _ => YELLOW,
    };
    vec![(colour, text)]
}

fn row(fields: &[&str; 8]) -> String {
    let [node, version, rotation, health, balancer, requests, wave, step] = fields;
    format!("{node:<10}{version:<9}{rotation:<12}{health:<11}{balancer:<10}{requests:<10}{wave:<6}{step}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BOLD, PLAIN, cut, lines};
    use crate::gate::picture::{InstanceSeen, Picture, UpgradeSeen, Wait};

    #[test]
    fn a_line_is_cut_to_the_width_without_its_colours() {
        let line = vec![(BOLD, "tide".to_owned()), (PLAIN, "gäte".to_owned())];
        assert_eq!(cut(&line, 6), format!("{BOLD}tide{PLAIN}{PLAIN}gä{PLAIN}"));
    }

    #[test]
    fn it_shows_phases_waves_instances_requests_and_waits() {
        let upgrade = UpgradeSeen {
            phase: "roll".to_owned(),
            left: vec![("stage".to_owned(), 1.25)],
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
        let picture = Picture {
            upgrade: Some(upgrade),
            instances: vec![instance],
            waits: vec![wait],
            ..Picture::default()
        };
        let text: Vec<String> = lines(Duration::ZERO, &picture).iter().map(|line| cut(line, 500)).collect();
        let text = text.join("\n");
        for part in
            ["stage 1.2s", "roll 0.0s", "contract", "2: 2", "node-3", "leaving", "0 sent", "draining node-3"]
        {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
