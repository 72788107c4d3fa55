//! `grenade matrix`: which compute tags were seen to work with which storage tags, and what waits for which pair.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde::Serialize;
use tidegate_proto::printable::one_line;
use tidegate_proto::wire::counted;
use tidegate_proto::wire::v1::{Evidence, ListEvidenceRequest};

use crate::gate::exit::print;
use crate::gate::reach::{Reach, Unasked};

/// The form of the JSON; raised when a field changes its meaning.
const FORM: u32 = 1;

const AFTER: &str = "\
Exit codes:
  0  the matrix was printed
  3  the command line is wrong
  4  no coordinator answered";

/// Options of `grenade matrix`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Matrix {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// The matrix as JSON.
#[derive(Debug, Serialize)]
struct Output<'a> {
    form: u32,
    compute_tags: BTreeSet<&'a str>,
    storage_tags: BTreeSet<&'a str>,
    /// Pairs that have a verdict, or that a release waits for.
    pairs: &'a [Evidence],
}

impl Matrix {
    /// Asks and shows.
    pub async fn run(self) -> ExitCode {
        match self.pairs().await {
            Ok(pairs) => print(&if self.json { json(&pairs) } else { text(&pairs) }),
            Err(error) => error.exit(),
        }
    }

    async fn pairs(&self) -> Result<Vec<Evidence>, Unasked> {
        let refused = |status| self.reach.refused(&status);
        let mut releases = self.reach.connect().await?.releases();
        let replies = releases.list_evidence(ListEvidenceRequest::default()).await.map_err(refused)?;
        let (mut replies, mut pairs) = (replies.into_inner(), Vec::new());
        while let Some(pair) = replies.message().await.map_err(refused)? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

fn computes(pairs: &[Evidence]) -> BTreeSet<&str> {
    pairs.iter().map(|pair| pair.compute_tag.as_str()).collect()
}

fn storages(pairs: &[Evidence]) -> BTreeSet<&str> {
    pairs.iter().map(|pair| pair.storage_tag.as_str()).collect()
}

fn json(pairs: &[Evidence]) -> String {
    let output = Output { form: FORM, compute_tags: computes(pairs), storage_tags: storages(pairs), pairs };
    serde_json::to_string(&output).unwrap_or_default() + "\n"
}

fn verdict(pair: &Evidence) -> &str {
    match (&pair.verdict, &pair.unreadable) {
        (Some(verdict), _) => verdict,
        (None, Some(_)) => "unreadable",
        (None, None) => "none",
    }
}

/// A table of both, then a line for each pair.
fn text(pairs: &[Evidence]) -> String {
    if pairs.is_empty() {
        return "no evidence is recorded, and no release waits for any\n".to_owned();
    }
    let columns = storages(pairs);
    let cell = |compute: &str, storage: &str| {
        let pair = pairs.iter().find(|pair| pair.compute_tag == compute && pair.storage_tag == storage);
        match pair {
            None => "-".to_owned(),
            Some(pair) if pair.waiting.is_empty() => verdict(pair).to_owned(),
            Some(pair) => format!("{} ({} waiting)", verdict(pair), pair.waiting.len()),
        }
    };
    let head = std::iter::once("COMPUTE \\ STORAGE").chain(columns.iter().copied()).map(str::to_owned);
    let mut grid = vec![head.collect::<Vec<_>>()];
    for compute in computes(pairs) {
        let cells = columns.iter().map(|storage| cell(compute, storage));
        grid.push(std::iter::once(compute.to_owned()).chain(cells).collect());
    }
    let titles =
        ["COMPUTE", "STORAGE", "VERDICT", "EARLIER", "BY", "RECORDED", "WAITING", "LOG SHA256", "NOTE"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(pairs.iter().map(row));
    format!("{}\n{}", table(&grid), table(&rows))
}

fn row(pair: &Evidence) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { one_line(text).into_owned() };
    let waiting: Vec<String> =
        pair.waiting.iter().map(|release| format!("{} {}", release.stream, release.revision)).collect();
    vec![
        pair.compute_tag.clone(),
        pair.storage_tag.clone(),
        verdict(pair).to_owned(),
        or_dash(&counted(&pair.earlier)),
        or_dash(&pair.who),
        pair.at.map_or_else(|| "-".to_owned(), time),
        or_dash(&waiting.join(", ")),
        // As git shows one: enough to compare by eye, and JSON has all of it.
        or_dash(&pair.log_sha256.as_deref().unwrap_or_default().chars().take(12).collect::<String>()),
        or_dash(pair.unreadable.as_deref().unwrap_or(&pair.note)),
    ]
}

/// In UTC, to the second (RFC 3339).
fn time(at: i64) -> String {
    let whole = tidegate_coordinator::operation::release::view::time(tidegate_proto::record::Timestamp(at));
    whole.split_once('.').map_or(whole.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// Cells of one column below each other; nothing follows the last one.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |n: usize| rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|n| width(n).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::wire::v1::{EarlierVerdict, WaitingRelease};

    fn pair(compute: &str, storage: &str, verdict: Option<&str>, waiting: &[u64]) -> Evidence {
        let waiting =
            waiting.iter().map(|revision| WaitingRelease { stream: "compute".into(), revision: *revision });
        Evidence {
            compute_tag: compute.into(),
            storage_tag: storage.into(),
            verdict: verdict.map(str::to_owned),
            who: verdict.map(|_| "ci".to_owned()).unwrap_or_default(),
            at: verdict.map(|_| 1_795_424_401_042),
            waiting: waiting.collect(),
            ..Evidence::default()
        }
    }

    fn earlier(verdict: &str) -> EarlierVerdict {
        EarlierVerdict { verdict: verdict.into(), ..EarlierVerdict::default() }
    }

    #[test]
    fn pairs_are_a_table_and_a_line_each() {
        let mut passed = pair("c-1", "s-1", Some("pass"), &[]);
        passed.earlier = ["pass", "fail", "fail"].map(earlier).into();
        let pairs = [passed, pair("c-2", "s-2", None, &[7, 8])];
        let expected = "\
COMPUTE \\ STORAGE  s-1   s-2
c-1                pass  -
c-2                -     none (2 waiting)

COMPUTE  STORAGE  VERDICT  EARLIER         BY  RECORDED              WAITING               LOG SHA256  NOTE
c-1      s-1      pass     2 fail, 1 pass  ci  2026-11-23T09:00:01Z  -                     -           -
c-2      s-2      none     -               -   -                     compute 7, compute 8  -           -
";
        assert_eq!(text(&pairs), expected);
        assert_eq!(text(&[]), "no evidence is recorded, and no release waits for any\n");
    }

    #[test]
    fn record_that_cannot_be_read_stays_in_its_line() {
        let mut unread = pair("c-1", "s-1", None, &[]);
        unread.unreadable = Some("is malformed:\n\u{1b}[2J".to_owned());
        let shown = text(&[unread]);
        assert!(shown.contains("unreadable") && !shown.contains('\u{1b}'), "{shown}");
        assert_eq!(shown.lines().count(), 5, "{shown}");
    }
}
