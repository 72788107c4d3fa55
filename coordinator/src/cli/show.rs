//! Answers as text and as JSON.

use super::exit::Failure;
use comfy_table::{Table, presets::NOTHING};
use serde::Serialize;
use std::io::Write;
use tidegate_proto::wire::v1;

/// Writes lines of text.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.trim_end())?;
    Ok(out.flush()?)
}

/// Writes one JSON object on a line.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let line =
        serde_json::to_string(value).map_err(|e| Failure::failed(format!("could not write JSON: {e}")))?;
    text(&line)
}

/// A table without lines, as in `kubectl get`.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    table.add_rows(rows);
    let lines = table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// A time of the store, in UTC.
pub fn time(at: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// A span of milliseconds, to the second.
pub fn span(ms: u64) -> String {
    tidegate_proto::Span::from_millis(ms / 1000 * 1000).to_string()
}

/// What may be absent.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// An event: when, from what to what, why, by whom.
pub fn event(event: &v1::Event) -> String {
    let moved = match (event.from.as_str(), event.to.as_str()) {
        ("", to) => to.to_owned(),
        (from, to) => format!("{from} -> {to}"),
    };
    let because = if event.because.is_empty() { String::new() } else { format!(": {}", event.because) };
    format!("{}  {moved}{because} ({})", time(event.at), event.who)
}

/// Where an upgrade stands: `roll 2/4`, `paused in roll 2/4`.
pub fn stands(upgrade: &v1::UpgradeSummary) -> String {
    let phase = match upgrade.wave {
        Some(wave) => format!("{} {wave}/{}", upgrade.phase, upgrade.waves),
        None => upgrade.phase.clone(),
    };
    if upgrade.paused && !upgrade.over { format!("paused in {phase}") } else { phase }
}

/// How many are at each version: `4 at 1, 2 at 2, 1 silent`.
pub fn spread(spread: &v1::Spread) -> String {
    let mut parts: Vec<String> =
        spread.by_version.iter().map(|(version, count)| format!("{count} at {version}")).collect();
    for (count, word) in [(spread.silent, "silent"), (spread.unknown, "unknown")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    if parts.is_empty() { "no instance".to_owned() } else { parts.join(", ") }
}

/// Reasons, each with who can end the wait and what helps.
pub fn reasons(reasons: &[v1::Reason], more: u64) -> String {
    let mut text = String::new();
    for reason in reasons {
        text.push_str(&format!("  {}\n      who: {}\n", reason.what, reason.who));
        if let Some(since) = reason.since {
            text.push_str(&format!("      since: {}\n", time(since)));
        }
        for (word, value) in [("helps", &reason.command), ("deadline", &reason.deadline)] {
            if let Some(value) = value {
                text.push_str(&format!("      {word}: {value}\n"));
            }
        }
    }
    if more > 0 {
        text.push_str(&format!("  and {more} more\n"));
    }
    text
}
