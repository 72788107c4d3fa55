//! Answers as text and as JSON. All that the command line writes to stdout goes through here.

use super::exit::{Failure, Outcome};
use super::table;
use crate::terminal::colour;
use crate::terminal::paint::{Line, Tone};
use crate::terminal::screen;
use serde::Serialize;
use std::io::Write;
use tidegate_proto::printable::{one_line, to_stderr};
use tidegate_proto::record::window;
use tidegate_proto::wire::v1;

/// Lines of text for stdout. Each is escaped as it is added ([`one_line`]): no value can begin a line of its own or
/// reach the terminal as a control sequence.
#[derive(Debug, Default)]
pub(super) struct Page(Vec<Line>);

impl Page {
    /// Adds a line.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.0.push(Line::new().with(Tone::Plain, text));
    }

    /// Adds lines.
    pub(super) fn lines(&mut self, lines: impl IntoIterator<Item = impl AsRef<str>>) {
        lines.into_iter().for_each(|line| self.line(line));
    }

    /// Adds a label and a JSON document below each other, the document indented as JSON is.
    pub(super) fn document(&mut self, label: &str, value: &impl Serialize) {
        let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
        self.lines(format!("{label}{pretty}").lines());
    }

    /// Adds a table without rules, as in `kubectl get`. On a terminal it fits into its columns.
    pub(super) fn table(&mut self, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        self.0.extend(table::lines(header, rows, screen::width()));
    }

    /// Leaves the first line out: the header of a table that continues another.
    pub(super) fn without_header(mut self) -> Self {
        self.0.drain(..1.min(self.0.len()));
        self
    }

    /// Writes it.
    pub(super) fn print(&self) -> Result<(), Failure> {
        raw(self.text(colour::stdout()).trim_end_matches('\n'))
    }

    fn text(&self, colour: bool) -> String {
        self.0.iter().map(|line| line.text(usize::MAX, colour) + "\n").collect()
    }
}

/// Writes one line of text.
pub(super) fn line(text: impl AsRef<str>) -> Result<(), Failure> {
    raw(&one_line(text.as_ref()))
}

/// Writes a table.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Result<(), Failure> {
    let mut page = Page::default();
    page.table(header, rows);
    page.print()
}

/// Writes one JSON object on a line.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let line =
        serde_json::to_string(value).map_err(|e| Failure::failed(format!("could not write JSON: {e}")))?;
    raw(&one_line(&line))
}

/// Writes a text byte for byte: a document whose bytes matter, in which no value is quoted but as JSON.
pub(super) fn raw(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.trim_end())?;
    Ok(out.flush()?)
}

/// Writes one line to stderr, where notes go that are no data.
pub(super) fn note(text: impl AsRef<str>) {
    to_stderr(one_line(text.as_ref()));
}

/// Writes one line of a failure to stderr.
pub(super) fn failure(line: &str) {
    let prefix = Tone::Bad.paint("tidegate:", colour::stderr());
    to_stderr(format_args!("{prefix} {}", one_line(line)));
}

/// A time of the store, in UTC (RFC 3339).
pub(super) fn time(at: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The same to the millisecond: events of one second have an order.
fn moment(at: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A span of milliseconds, to the second.
pub(super) fn span(ms: u64) -> String {
    tidegate_proto::Span::from_millis(ms / 1000 * 1000).to_string()
}

/// What may be absent.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// What an instance does, with why where it failed or was refused.
pub(super) fn step(instance: &v1::Instance) -> String {
    match &instance.because {
        Some(because) => format!("{}: {because}", instance.step),
        None => instance.step.clone(),
    }
}

/// Writes an audit log, an event a line.
pub(super) async fn events(
    mut events: tonic::Streaming<v1::Event>,
    as_json: bool,
) -> Result<Outcome, Failure> {
    while let Some(event) = events.message().await? {
        if as_json { json(&event)? } else { line(self::event(&event))? }
    }
    Ok(Outcome::Good)
}

/// An event: when, from what to what, why, by whom.
pub(super) fn event(event: &v1::Event) -> String {
    let moved = match (event.from.as_str(), event.to.as_str()) {
        ("", to) => to.to_owned(),
        (from, to) => format!("{from} -> {to}"),
    };
    let because = if event.because.is_empty() { String::new() } else { format!(": {}", event.because) };
    format!("{}  {moved}{because} ({})", moment(event.at), event.who)
}

/// Where an upgrade stands: `roll 2/4`, `paused in roll 2/4`.
pub(super) fn phase_text(upgrade: &v1::UpgradeSummary) -> String {
    let phase = match upgrade.wave {
        Some(wave) => format!("{} {wave}/{}", upgrade.phase, upgrade.waves),
        None => upgrade.phase.clone(),
    };
    if upgrade.paused && !upgrade.over { format!("paused in {phase}") } else { phase }
}

/// How many are at each version: `4 at 1, 2 at 2, 1 silent`.
pub(super) fn spread(spread: &v1::Spread) -> String {
    let mut parts: Vec<String> =
        spread.by_version.iter().map(|(version, count)| format!("{count} at {version}")).collect();
    for (count, word) in [(spread.silent, "silent"), (spread.unknown, "unknown")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    if parts.is_empty() { "no instance".to_owned() } else { parts.join(", ") }
}

/// The versions that a window admits; `any` where there is no window.
pub(super) fn window(floor: Option<u32>, ceiling: Option<u32>) -> String {
    floor.zip(ceiling).map_or_else(|| "any".to_owned(), |(floor, ceiling)| window::shown(floor, ceiling))
}

/// Reasons, each with its owner, the next step and the timeout.
pub(super) fn reasons(page: &mut Page, reasons: &[v1::Reason], more: u64) {
    for reason in reasons {
        page.line(format!("  {}", reason.blocked_on));
        page.line(format!("      owner: {}", reason.owner));
        if let Some(since) = reason.since {
            page.line(format!("      since: {}", time(since)));
        }
        for (word, value) in [("next step", &reason.next_step), ("timeout", &reason.timeout)] {
            page.lines(value.as_ref().map(|value| format!("      {word}: {value}")));
        }
    }
    if more > 0 {
        page.line(format!("  and {more} more"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_record_stays_in_its_line_and_cell() {
        let mut page = Page::default();
        page.line("n1: gone\nn2  2  serving\u{1b}[2J");
        page.table(&["NODE", "STEP"], [vec!["n1".to_owned(), "failed: a\r\nb".to_owned()]]);
        assert_eq!(
            page.text(false),
            "n1: gone\\nn2  2  serving\\u001b[2J\nNODE  STEP\nn1    failed: a\\r\\nb\n"
        );
        assert_eq!(page.without_header().text(false), "NODE  STEP\nn1    failed: a\\r\\nb\n");
    }

    #[test]
    fn event_is_shown_with_its_millisecond_and_window_in_words() {
        let because = "budget".to_owned();
        let (from, to, who) = ("roll".to_owned(), "drain n1".to_owned(), "coordinator".to_owned());
        let shown = event(&v1::Event { from, to, because, who, at: 1_795_424_401_042 });
        assert!(
            shown.starts_with("2026-11-23T09:00:01.042Z  roll -> drain n1: budget (coordinator)"),
            "{shown}"
        );
        let max = tidegate_proto::ServiceVersion::MAX.get();
        let words = [(Some(1), Some(2)), (Some(2), Some(max)), (Some(1), Some(max)), (None, None)];
        assert_eq!(
            words.map(|(floor, ceiling)| window(floor, ceiling)),
            ["[1, 2]", "2 and above", "any", "any"]
        );
    }
}
