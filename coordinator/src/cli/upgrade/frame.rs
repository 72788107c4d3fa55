//! An upgrade as a frame for a terminal: a pure function of what is known and of the terminal's size.

use crate::cli::show;
use crate::terminal::paint::{Line, Tone, bar, wrap};
use std::time::Duration;
use tidegate_proto::wire::v1::{Instance, Over, Reason, Reasons, UpgradeStatusReply, UpgradeSummary};

/// What is known of an upgrade at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Where it stands.
    pub upgrade: &'a UpgradeSummary,
    /// Its instances, failures and timetable.
    pub status: &'a UpgradeStatusReply,
    /// What blocks it.
    pub reasons: &'a Reasons,
    /// The last event.
    pub event: Option<&'a str>,
    /// How it ended.
    pub over: Option<&'a Over>,
    /// Time in this phase.
    pub in_phase: Option<Duration>,
    /// Time left in this phase, where it can be estimated.
    pub left: Option<Duration>,
    /// For how long no coordinator has answered.
    pub away: Option<Duration>,
}

/// Columns of a label.
const LABEL: usize = 12;

/// Columns of a bar on a wide terminal.
const BAR: usize = 30;

/// Lines of a sentence, where there is room for more than one.
const SENTENCE: usize = 3;

/// Lines that belong together: shown whole, or counted as one more.
type Item = Vec<Line>;

/// Rows below which the frame leaves out what explains least.
const LOW: usize = 16;

/// The frame, in at most `height` lines. Lines that are wider than `width` are for the caller to cut.
pub(super) fn lines(frame: &Frame, width: usize, height: usize) -> Vec<Line> {
    let low = height < LOW;
    let mut lines = head(frame, width, low);
    let event = frame.event.filter(|_| frame.over.is_none() && !low);
    let rest = height.saturating_sub(lines.len() + if event.is_some() { 2 } else { 0 });
    let sections = [waits(frame, width), moving(frame), waves(frame, width)];
    let shares = share(rest, sections.each_ref().map(Section::rows));
    for (section, rows) in sections.into_iter().zip(shares) {
        lines.extend(section.lines(rows));
    }
    if let Some(event) = event {
        lines.push(Line::new());
        lines.push(labelled("last event").with(Tone::Faint, event));
    }
    lines.truncate(height);
    lines
}

fn labelled(label: &str) -> Line {
    Line::new().with(Tone::Faint, format!("{label:<LABEL$}"))
}

/// A label and a sentence in at most so many lines; the last one holds all the rest.
fn sentence(label: &str, tone: Tone, text: &str, width: usize, most: usize) -> Vec<Line> {
    let mut rows = wrap(text, width.saturating_sub(LABEL));
    if rows.len() > most {
        let rest = rows.split_off(most - 1).join(" ");
        rows.push(rest);
    }
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels.zip(rows).map(|(label, row)| labelled(label).with(tone, row)).collect()
}

fn head(frame: &Frame, width: usize, low: bool) -> Vec<Line> {
    let (upgrade, status) = (frame.upgrade, frame.status);
    let mut lines = vec![title(frame), phases(frame, width)];
    // What an upgrade that did not complete has done was undone, or is not counted any more.
    if frame.over.is_none_or(|over| over.phase == "completed") {
        lines.push(done(upgrade, width));
    }
    let most = if low { 1 } else { SENTENCE };
    if let Some(spread) = status.spread.as_ref().filter(|_| !low) {
        lines.push(labelled("versions").with(Tone::Plain, show::spread(spread)));
    }
    if let Some(because) = frame.over.and_then(|over| over.because.as_ref()).or(status.because.as_ref()) {
        lines.extend(sentence("because", Tone::Warn, because, width, most));
    }
    if let Some(failure) = status.failed.first().filter(|_| !low) {
        let more = status.failed.len() as u64 - 1 + u64::from(status.more_failed);
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        let text = format!("{} in wave {}{more}: {}", failure.node, failure.wave, failure.reason);
        lines.extend(sentence("failed", Tone::Bad, &text, width, most));
    }
    if let Some(in_phase) = frame.in_phase {
        let left = frame.left.map(|left| format!(", about {} left", about(left))).unwrap_or_default();
        let time = format!("{} for {}{left}", upgrade.phase, span(in_phase));
        lines.push(labelled("time").with(Tone::Plain, time));
    }
    if let Some(away) = frame.away {
        let text = format!("no coordinator has answered for {}; trying again", span(away));
        lines.push(labelled("connection").with(Tone::Bad, text));
    }
    lines
}

fn title(frame: &Frame) -> Line {
    let upgrade = frame.upgrade;
    let (service, from, to, release) = (&upgrade.service, upgrade.from, upgrade.to, &upgrade.release);
    let phase = frame.over.map_or_else(|| show::phase_text(upgrade), |over| over.phase.clone());
    let tone = if upgrade.paused && !upgrade.over { Tone::Warn } else { Tone::of_phase(&phase) };
    Line::new()
        .with(Tone::Strong, &upgrade.id)
        .with(Tone::Plain, "  ")
        .with(tone, phase)
        .with(Tone::Plain, format!("  {service} {from} -> {to} ({release})"))
}

fn done(upgrade: &UpgradeSummary, width: usize) -> Line {
    let count = format!(" {}/{}", upgrade.done, upgrade.instances);
    let columns = BAR.min(width.saturating_sub(LABEL + count.len() + 12)).max(4);
    let bar = bar(upgrade.done, upgrade.instances, columns);
    labelled("done").with(Tone::Good, bar).with(Tone::Plain, count).with(Tone::Plain, " instances")
}

/// The phases in their order, the one under way in brackets; on a narrow terminal only those around it.
fn phases(frame: &Frame, width: usize) -> Line {
    let phases = order(frame);
    let now = frame.over.map_or(frame.upgrade.phase.as_str(), |over| over.phase.as_str());
    let at = phases.iter().position(|phase| *phase == now).unwrap_or(0);
    let (mut first, mut end) = (0, phases.len());
    let line = |first: usize, end: usize| {
        let before = if first > 0 { ".. " } else { "" };
        let mut line = labelled("phases").with(Tone::Faint, before);
        for (n, phase) in phases.iter().enumerate().take(end).skip(first) {
            let space = if n > first { " " } else { "" };
            line = match n.cmp(&at) {
                std::cmp::Ordering::Less => line.with(Tone::Good, format!("{space}{phase}")),
                std::cmp::Ordering::Greater => line.with(Tone::Faint, format!("{space}{phase}")),
                std::cmp::Ordering::Equal => {
                    line.with(Tone::Plain, space).with(Tone::of_phase(phase), format!("[{phase}]"))
                }
            };
        }
        line.with(Tone::Faint, if end < phases.len() { " .." } else { "" })
    };
    while line(first, end).width() > width && end - first > 1 {
        if end - 1 - at > at - first {
            end -= 1;
        } else {
            first += 1;
        }
    }
    line(first, end)
}

/// The phases of this upgrade: those that were left, the one under way, those to come.
fn order<'a>(frame: &Frame<'a>) -> Vec<&'a str> {
    let (upgrade, status) = (frame.upgrade, frame.status);
    let now = upgrade.phase.as_str();
    let left = || status.timetable.iter().map(|time| time.phase.as_str());
    let been = |phase| now == phase || left().any(|left| left == phase);
    let forward: &[&str] = match status.schema {
        None => &["preflight", "stage", "roll", "remove", "completed"],
        // Migrate comes after the roll where the migration says so.
        Some(_) if been("roll") && (now == "migrate" || !been("migrate")) || migrated_last(status) => {
            &["preflight", "stage", "expand", "roll", "migrate", "remove", "contract", "completed"]
        }
        Some(_) => &["preflight", "stage", "expand", "migrate", "roll", "remove", "contract", "completed"],
    };
    match now {
        "failed" => left().chain(["failed"]).collect(),
        "rolling-back" | "rolled-back" => {
            let end = if now == "rolled-back" || been("stage") { "rolled-back" } else { "failed" };
            let left = left().filter(|phase| *phase != "rolling-back");
            left.chain(["rolling-back", end]).collect()
        }
        _ => forward.to_vec(),
    }
}

fn migrated_last(status: &UpgradeStatusReply) -> bool {
    let at = |phase| status.timetable.iter().position(|time| time.phase == phase);
    at("roll").zip(at("migrate")).is_some_and(|(roll, migrate)| roll < migrate)
}

fn waits(frame: &Frame, width: usize) -> Section {
    let reasons = frame.reasons.reasons.iter().filter(|_| frame.over.is_none());
    let items = reasons.map(|reason| wait(reason, width)).collect();
    Section { label: "waiting on".to_owned(), items, first: 0, more: frame.reasons.more }
}

fn wait(reason: &Reason, width: usize) -> Item {
    let mut item = Vec::new();
    let mut add = |indent: usize, label: &str, tone: Tone, text: &str| {
        let (indent, mut label) = (" ".repeat(indent), label);
        for line in wrap(text, width.saturating_sub(indent.len() + label.len())) {
            item.push(Line::new().with(Tone::Faint, format!("{indent}{label}")).with(tone, line));
            label = if label.is_empty() { "" } else { "  " };
        }
    };
    add(2, "", Tone::Warn, &reason.blocked_on);
    let since = reason.since.map(|since| format!(", since {}", show::time(since))).unwrap_or_default();
    add(4, "owner: ", Tone::Plain, &format!("{}{since}", reason.owner));
    let command = reason.next_step.as_deref().unwrap_or_default();
    add(4, "next step: ", Tone::Strong, command);
    add(4, "timeout: ", Tone::Plain, reason.timeout.as_deref().unwrap_or_default());
    item
}

fn moving(frame: &Frame) -> Section {
    let moving = frame.status.instances.iter().filter(|instance| moves(instance));
    let item = |instance: &Instance| {
        let (node, rotation) = (&instance.node, &instance.rotation);
        let step = show::step(instance);
        let line = Line::new()
            .with(Tone::Plain, format!("  {node:<20} "))
            .with(Tone::of_instance(rotation), format!("{rotation:<11} "))
            .with(Tone::of_instance(&instance.step), step);
        vec![line]
    };
    let items = moving.map(item).collect();
    let shown = frame.status.instances.len();
    let label = match frame.status.more_instances {
        0 => "moving".to_owned(),
        _ => format!("moving, of the first {shown} instances"),
    };
    Section { label, items, first: 0, more: 0 }
}

/// Whether an instance is on its way out of rotation or back, or stays out of it.
fn moves(instance: &Instance) -> bool {
    let out = matches!(instance.rotation.as_str(), "leaving" | "out" | "returning");
    !instance.silent && !instance.decommissioned && (out || instance.step != "serving")
}

/// A bar for each wave. None where the wave of an instance may be unknown.
fn waves(frame: &Frame, width: usize) -> Section {
    let (upgrade, status) = (frame.upgrade, frame.status);
    let shown = status.more_instances == 0 && upgrade.phase == "roll";
    let columns = BAR.min(width.saturating_sub(LABEL + 10)).max(4);
    let one = |wave: u32| {
        let of = || status.instances.iter().filter(|instance| instance.wave == Some(wave));
        let (done, size) = (of().filter(|i| serves(i, upgrade.to)).count() as u32, of().count() as u32);
        let tone = match done == size {
            true => Tone::Good,
            false if upgrade.wave == Some(wave) => Tone::Strong,
            false => Tone::Faint,
        };
        let line = Line::new().with(Tone::Faint, format!("  {wave:<LABEL$}", LABEL = LABEL - 2));
        vec![line.with(tone, bar(done, size, columns)).with(Tone::Plain, format!(" {done}/{size}"))]
    };
    let items = (1..=upgrade.waves).filter(|_| shown).map(one).collect();
    let first = upgrade.wave.unwrap_or(1).saturating_sub(1) as usize;
    Section { label: "waves".to_owned(), items, first, more: 0 }
}

fn serves(instance: &Instance, version: u32) -> bool {
    instance.version == Some(version) && instance.in_service && instance.step == "serving"
}

/// Rows for each section: a third of the rows is safe for each where that is enough for anything, and what one leaves is
/// given to the first that needs it.
fn share(rows: usize, needs: [usize; 3]) -> [usize; 3] {
    let safe = if rows / 3 > HEADING { rows / 3 } else { 0 };
    let mut shares = needs.map(|need| need.min(safe));
    let mut left = rows - shares.iter().sum::<usize>();
    for (share, need) in shares.iter_mut().zip(needs) {
        let more = (need - *share).min(left);
        *share += more;
        left -= more;
    }
    shares
}

/// Rows of an empty line and a heading.
const HEADING: usize = 2;

/// A part of the frame that is cut to the rows that there are.
struct Section {
    label: String,
    items: Vec<Item>,
    /// The item that is shown in any case.
    first: usize,
    /// Items that are not known.
    more: u64,
}

impl Section {
    fn rows(&self) -> usize {
        let rows: usize = self.items.iter().map(Vec::len).sum();
        if rows == 0 { 0 } else { rows + HEADING }
    }

    /// An empty line, a heading that says how many more there are, and as many items as fit.
    fn lines(mut self, rows: usize) -> Vec<Line> {
        let Some(mut left) = rows.checked_sub(HEADING).filter(|left| *left > 0 && !self.items.is_empty())
        else {
            return Vec::new();
        };
        let (count, mut shown, mut lines) = (self.items.len(), 0, Vec::new());
        // Each item before the first has one line.
        self.items.drain(..self.first.min(count.saturating_sub(left)));
        for mut item in self.items {
            if item.len() > left && shown > 0 {
                break;
            }
            item.truncate(left);
            left -= item.len();
            lines.extend(item);
            shown += 1;
        }
        let hidden = (count - shown) as u64 + self.more;
        let note = if hidden > 0 { format!(" (and {hidden} more)") } else { String::new() };
        let heading = Line::new().with(Tone::Faint, self.label).with(Tone::Faint, note);
        [Line::new(), heading].into_iter().chain(lines).collect()
    }
}

fn span(time: Duration) -> String {
    show::span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// An estimate is not shown to the second.
fn about(time: Duration) -> String {
    let seconds = match time.as_secs() {
        seconds if seconds < 60 => seconds / 10 * 10 + 10,
        seconds => seconds / 60 * 60 + 60,
    };
    span(Duration::from_secs(seconds))
}

#[cfg(test)]
#[path = "frame/tests.rs"]
mod tests;
