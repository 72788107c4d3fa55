//! The ledger of a load that is another program's, checked line by line: it is judged as our own is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use csv::{ErrorKind, StringRecord};
use tidegate_proto::printable::one_line;

use crate::load::entry::{COLUMNS, Entry, Judged};

/// The largest ledger, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// How many characters of a text of the ledger are shown.
const MOST_SHOWN: usize = 500;
/// Times are rounded by some programs to whole milliseconds.
const ROUNDED_MS: f64 = 1.0;

/// What the lines may name.
#[derive(Debug)]
pub struct Known {
    /// The nodes.
    pub nodes: Vec<String>,
    /// The versions.
    pub versions: [u32; 2],
    /// When the program had ended, in milliseconds since the load's start.
    pub ended_ms: f64,
}

/// Why a file is no ledger.
#[derive(Debug, thiserror::Error)]
pub enum NotALedger {
    /// There is none.
    #[error("could not read the ledger {path}, which the command writes into {{ledger}}")]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// It is too long.
    #[error("the ledger {path} has {bytes} bytes; at most {MOST_BYTES} are allowed")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {what}")]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1; the first has the columns.
        line: u64,
        /// What was found, and what is allowed.
        what: String,
    },
}

/// Reads the ledger, in the order in which outcomes were known.
///
/// # Errors
/// The first line that is wrong.
pub fn read(path: &Path, known: &Known) -> Result<Vec<Entry>, NotALedger> {
    let unreadable = |source| NotALedger::Unreadable { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > MOST_BYTES {
        return Err(NotALedger::TooLong { path: path.to_owned(), bytes });
    }
    let text = std::fs::read(path).map_err(unreadable)?;
    entries(&text, known).map_err(|(line, what)| NotALedger::Line { path: path.to_owned(), line, what })
}

/// Reads the text of a ledger, in the order in which outcomes were known.
///
/// # Errors
/// The first line that is wrong, by its number, and what is wrong with it: one line of text without control characters, whose
/// length does not grow with the ledger's.
pub fn entries(text: &[u8], known: &Known) -> Result<Vec<Entry>, (u64, String)> {
    let mut lines = csv::Reader::from_reader(text);
    let columns = lines.headers().map_err(|error| wrong(&error))?.clone();
    if !columns.iter().eq(COLUMNS) {
        let found: Vec<&str> = columns.iter().collect();
        return Err((
            1,
            format!("the columns are `{}`; needed are `{}`", shown(&found.join(",")), COLUMNS.join(",")),
        ));
    }
    let (mut entries, mut seqs, mut record) = (Vec::new(), BTreeSet::new(), StringRecord::new());
    while lines.read_record(&mut record).map_err(|error| wrong(&error))? {
        let line = record.position().map_or(0, csv::Position::line);
        let mut entry: Entry = record.deserialize(Some(&columns)).map_err(|error| wrong(&error))?;
        // Reports and terminals show both.
        for text in [&mut entry.kind, &mut entry.reason] {
            *text = shown(text);
        }
        flaw(&entry, known).map_or(Ok(()), |what| Err((line, what)))?;
        if !seqs.insert(entry.seq) {
            return Err((line, format!("seq {} is there twice", entry.seq)));
        }
        entries.push(entry);
    }
    entries.sort_by(|a, b| a.done_ms.total_cmp(&b.done_ms));
    Ok(entries)
}

/// The beginning of a text, in one line.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}…", one_line(&text[..end])),
        None => one_line(text).into_owned(),
    }
}

/// The line of an error, and what is wrong with it.
fn wrong(error: &csv::Error) -> (u64, String) {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|field| COLUMNS.get(usize::try_from(field).ok()?));
            (line, format!("{}: {}", column.unwrap_or(&"the line"), shown(&err.kind().to_string())))
        }
        ErrorKind::UnequalLengths { len, .. } => {
            (line, format!("has {len} fields; {} are needed", COLUMNS.len()))
        }
        ErrorKind::Utf8 { .. } => (line, "is not UTF-8".to_owned()),
        _ => (line, shown(&error.to_string())),
    }
}

/// What is wrong with an entry.
fn flaw(entry: &Entry, known: &Known) -> Option<String> {
    times(entry, known.ended_ms).or_else(|| outcome(entry)).or_else(|| names(entry, known))
}

fn times(entry: &Entry, ended_ms: f64) -> Option<String> {
    let Entry { scheduled_ms, sent_ms, first_ms, done_ms, own_ms, .. } = *entry;
    let of = |name: &str, ms: f64| {
        let is_good = ms.is_finite() && ms >= 0.0;
        (!is_good).then(|| format!("{name} is {ms}; milliseconds from 0 are allowed"))
    };
    let before = |name: &str, ms: f64, other: &str, earliest: f64| {
        let is_before = ms + ROUNDED_MS < earliest;
        is_before.then(|| format!("{name} ({ms}) is before {other} ({earliest})"))
    };
    let first = first_ms.unwrap_or(sent_ms);
    of("scheduled_ms", scheduled_ms)
        .or_else(|| of("sent_ms", sent_ms))
        .or_else(|| of("first_ms", first))
        .or_else(|| of("done_ms", done_ms))
        .or_else(|| of("own_ms", own_ms))
        .or_else(|| before("sent_ms", sent_ms, "scheduled_ms", scheduled_ms))
        .or_else(|| before("first_ms", first, "sent_ms", sent_ms))
        .or_else(|| before("done_ms", done_ms, "first_ms", first))
        .or_else(|| {
            let is_after = done_ms > ended_ms + ROUNDED_MS;
            is_after.then(|| {
                format!(
                    "done_ms ({done_ms}) is after the end of the command ({ended_ms:.0}); times are milliseconds since \
                     {{began_ms}}"
                )
            })
        })
}

fn outcome(entry: &Entry) -> Option<String> {
    let Entry { kind, status, outcome, reason, .. } = entry;
    if kind.trim().is_empty() {
        return Some("kind is empty; a name of the request is needed".to_owned());
    }
    if let Some(status) = status.filter(|status| !(100..=599).contains(status)) {
        return Some(format!("status is {status}; 100 to 599 is allowed, or empty where no answer came"));
    }
    match outcome {
        Judged::Ok if status.is_none() => Some("outcome is ok, but status is empty".to_owned()),
        Judged::Ok if !reason.is_empty() => Some(format!("outcome is ok, but reason is `{reason}`")),
        Judged::Failed if reason.is_empty() => {
            Some("outcome is failed, but reason is empty; say what was wrong".to_owned())
        }
        Judged::NotSent if status.is_some() => Some(
            "outcome is not-sent, but status is not empty: a request that was sent is ok or failed"
                .to_owned(),
        ),
        Judged::Ok | Judged::Failed | Judged::NotSent => None,
    }
}

fn names(entry: &Entry, known: &Known) -> Option<String> {
    let Known { nodes, versions, .. } = known;
    if !entry.node.is_empty() && !nodes.contains(&entry.node) {
        return Some(format!(
            "node is `{}`; {} or empty is allowed (the header x-served-by of an answer has it)",
            shown(&entry.node),
            nodes.join(", ")
        ));
    }
    let of = |name: &str, version: Option<u32>| {
        let version = version.filter(|version| !versions.contains(version))?;
        Some(format!("{name} is {version}; {}, {} or empty is allowed", versions[0], versions[1]))
    };
    of("version", entry.version).or_else(|| of("written_by", entry.written_by))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0,10,10.5,12,13,0,read,200,ok,node-1,1,,9,fresh,";

    fn read(lines: &[&str]) -> Result<Vec<Entry>, (u64, String)> {
        let known = Known { nodes: vec!["node-1".to_owned()], versions: [1, 2], ended_ms: 5_000.0 };
        let text = format!("{}\n{}\n", COLUMNS.join(","), lines.join("\n"));
        entries(text.as_bytes(), &known)
    }

    #[test]
    fn good_lines_are_read_in_the_order_of_their_outcomes() {
        let slow = "1,5,5,,4000,0,read,,failed,,,,0,fresh,reset: by peer";
        let read = read(&[slow, GOOD]).unwrap();
        assert_eq!(read.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((read[0].version, read[1].failure()), (Some(1), "reset"));
    }

    #[test]
    fn bad_line_is_named_with_its_number() {
        for (old, new, expected) in [
            (",10,", ",soon,", "scheduled_ms: invalid float literal"),
            (",10,", ",NaN,", "scheduled_ms is NaN"),
            (",10.5,", ",-3,", "sent_ms is -3"),
            (",10.5,", ",2,", "sent_ms (2) is before scheduled_ms (10)"),
            (",13,", ",10.7,", "done_ms (10.7) is before first_ms (12)"),
            (
                ",13,",
                ",1764000000000,",
                "is after the end of the command (5000); times are milliseconds since {began_ms}",
            ),
            (",read,", ",,", "kind is empty"),
            (",200,", ",20,", "status is 20; 100 to 599"),
            (",200,", ",,", "outcome is ok, but status is empty"),
            (",ok,", ",failed,", "outcome is failed, but reason is empty"),
            (",ok,", ",good,", "unknown variant `good`, expected one of `ok`, `failed`, `not-sent`"),
            (",ok,", ",not-sent,", "outcome is not-sent, but status is not empty"),
            ("node-1", "node-9", "node is `node-9`; node-1 or empty is allowed"),
            ("node-1,1", "node-1,3", "version is 3; 1, 2 or empty"),
            (",1,,9", ",1,7,9", "written_by is 7"),
            ("0,10,", "1,10,", "seq 1 is there twice"),
            (",fresh,", ",fresh", "has 14 fields; 15 are needed"),
        ] {
            assert!(GOOD.contains(old), "{old}");
            let (line, what) = read(&[&GOOD.replacen('0', "1", 1), &GOOD.replacen(old, new, 1)]).unwrap_err();
            assert!(line == 3 && what.contains(expected), "{new}: {line}: {what}");
        }
    }

    #[test]
    fn columns_are_those_of_our_own_ledger() {
        let known = Known { nodes: Vec::new(), versions: [1, 2], ended_ms: 1.0 };
        let (line, what) = entries(b"seq,status\n", &known).unwrap_err();
        assert!(line == 1 && what.contains("needed are `seq,scheduled_ms,"), "{what}");
        let mut own = csv::Writer::from_writer(Vec::new());
        own.serialize(crate::load::entry::good(0, "node-1", 0.0, 1.0)).unwrap();
        let own = String::from_utf8(own.into_inner().unwrap()).unwrap();
        assert_eq!(own.lines().next().unwrap(), COLUMNS.join(","));
    }
}
