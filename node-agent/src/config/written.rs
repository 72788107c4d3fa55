//! The text of a configuration: read into its form and settled, or everything that is wrong with it, each with its place.

use super::findings::Findings;
use super::{example, fragment, settings};
use serde::Deserialize;
use serde_json::Value as Json;
use tidegate_proto::form::{self, Finding, Flaw};
use toml::de::{DeTable, DeValue};

pub(super) fn read(text: &str) -> Result<settings::Node, Vec<Finding>> {
    match toml::from_str(text) {
        Ok(written) => settings::settle(written).map_err(|found| located(text, found.about_written(&[]))),
        Err(first) => Err(wrong(text, &first)),
    }
}

/// Everything that is wrong with a text that is not of the form; `first` is where its reader stopped.
fn wrong(text: &str, first: &toml::de::Error) -> Vec<Finding> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return listed(text, errors.iter().map(of_reader).collect());
    }
    let Ok(document) = Json::deserialize(toml::Deserializer::from(table)) else {
        return listed(text, vec![of_reader(first)]);
    };
    let (mut flaws, written) = form::flaws(document, &example::of_required(), form::read::<fragment::Node>);
    let settled = written.map(settings::settle);
    let found = settled.and_then(Result::err).map(|found: Findings| found.about_written(&flaws));
    flaws.iter_mut().for_each(|flaw| flaw.what = format!("{}: {}", flaw.path.join("."), flaw.what));
    flaws.extend(found.into_iter().flatten());
    match flaws.is_empty() {
        true => listed(text, vec![of_reader(first)]),
        false => located(text, flaws),
    }
}

/// Where a reader of TOML stopped, as an offset in the text, and what it found there.
fn of_reader(error: &toml::de::Error) -> (usize, String) {
    (error.span().map_or(0, |span| span.start), error.message().trim().replace('\n', "; "))
}

fn located(text: &str, flaws: Vec<Flaw>) -> Vec<Finding> {
    let (table, _) = DeTable::parse_recoverable(text);
    listed(text, flaws.into_iter().map(|flaw| (offset(table.get_ref(), &flaw), flaw.what)).collect())
}

/// Where a field begins: its value, or its name where the form has no such field; the part that lacks it where it is missing.
fn offset(table: &DeTable<'_>, flaw: &Flaw) -> usize {
    let Some((first, path)) = flaw.path.split_first() else { return 0 };
    let Some((key, mut value)) = table.get_key_value(first.as_str()) else { return 0 };
    let mut name = key.span().start;
    for next in path {
        let below = match value.get_ref() {
            DeValue::Table(table) => {
                table.get_key_value(next.as_str()).map(|(key, value)| (key.span().start, value))
            }
            DeValue::Array(items) => {
                next.parse::<usize>().ok().and_then(|n| items.get(n)).map(|item| (item.span().start, item))
            }
            _ => None,
        };
        let Some(below) = below else { break };
        (name, value) = below;
    }
    if flaw.is_unknown() { name } else { value.span().start }
}

/// Findings in the order of the text, as many as are listed.
fn listed(text: &str, mut found: Vec<(usize, String)>) -> Vec<Finding> {
    found.sort();
    found.dedup();
    let more = found.len().saturating_sub(form::MOST);
    let listed = found.into_iter().take(form::MOST).map(|(at, what)| {
        let before = text.get(..at).unwrap_or_default();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        Finding { line: before.matches('\n').count() as u64 + 1, column, what }
    });
    let more = (more > 0).then(|| Finding::without_place(format!("and {more} more findings")));
    listed.chain(more).collect()
}
