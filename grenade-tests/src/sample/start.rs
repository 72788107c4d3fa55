//! Whether this start of the service is one that works: the seeded fault of a release that is broken.
//!
//! Each start leaves a line in a ledger. An instance's ordinal is the place of its *first* line among the instances, so
//! that a healthy one that is started again stays healthy.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The largest ledger that is read, in bytes; a start is a line of some 60.
const LARGEST_LEDGER: u64 = 1 << 20;

/// Why the ledger of starts could not be kept.
#[derive(Debug, Error)]
#[error("could not {tried} the start ledger {path}")]
pub struct LedgerError {
    tried: &'static str,
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Records a start of `node` and answers its ordinal among the instances, from 1.
///
/// # Errors
/// When the ledger cannot be written or read.
pub fn record_start(ledger: &Path, node: &str) -> Result<usize, LedgerError> {
    let failed = |tried| move |source| LedgerError { tried, path: ledger.to_owned(), source };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .open(ledger)
        .map_err(failed("open"))?;
    // One write of one line with O_APPEND: starts at the same instant do not mix.
    let line = format!("{node} {} {}\n", std::process::id(), crate::sample::store::unix_ms());
    file.write_all(line.as_bytes()).map_err(failed("write to"))?;
    let mut text = String::new();
    std::fs::File::open(ledger)
        .and_then(|file| file.take(LARGEST_LEDGER).read_to_string(&mut text))
        .map_err(failed("read"))?;
    Ok(ordinal(&text, node))
}

fn ordinal(ledger: &str, node: &str) -> usize {
    let mut seen = HashSet::new();
    for line in ledger.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        seen.insert(name);
        if name == node {
            break;
        }
    }
    seen.len()
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn an_instance_keeps_the_ordinal_of_its_first_start() {
        let ledger = "a 1 1\nb 2 2\na 3 3\nc 4 4\nb 5 5\n";
        assert_eq!((ordinal(ledger, "a"), ordinal(ledger, "b"), ordinal(ledger, "c")), (1, 2, 3));
    }
}
