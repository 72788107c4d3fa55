//! When an instance left rotation, and what it still had in flight: seen in the ledger alone.

use std::collections::BTreeMap;

use crate::load::entry::Entry;

/// An instance that is sent nothing for so long is out of rotation, in milliseconds: checks and `min_healthy_time` take more.
const OUT_MS: f64 = 1_000.0;
/// It is not, where its requests come so rarely: so many times as far apart as half of them.
const RARELY: f64 = 8.0;

/// An instance that left rotation and came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Departure {
    /// Its node.
    pub node: String,
    /// When it was sent its last request, in milliseconds since the load's start.
    pub at_ms: f64,
    /// How long what it had in flight then took, in milliseconds.
    pub in_flight_ms: f64,
}

/// All of them, in order of time.
pub fn departures(entries: &[Entry]) -> Vec<Departure> {
    let mut nodes = BTreeMap::<&str, Vec<(f64, f64)>>::new();
    for entry in entries.iter().filter(|entry| !entry.node.is_empty()) {
        nodes.entry(&entry.node).or_default().push((entry.sent_ms, entry.done_ms));
    }
    let mut departures = Vec::new();
    for (node, mut sent) in nodes {
        sent.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut gaps: Vec<f64> = sent.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        gaps.sort_by(f64::total_cmp);
        let usual = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
        let limit = OUT_MS.max(RARELY * usual);
        let mut latest = 0.0_f64;
        for pair in sent.windows(2) {
            let [(at_ms, done), (next, _)] = [pair[0], pair[1]];
            latest = latest.max(done);
            if next - at_ms > limit {
                let in_flight_ms = latest - at_ms;
                departures.push(Departure { node: node.to_owned(), at_ms, in_flight_ms });
            }
        }
    }
    departures.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    departures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::entry::good;

    fn entry(node: &str, sent_ms: f64, took: f64) -> Entry {
        good(0, node, sent_ms, took)
    }

    #[test]
    fn instance_without_requests_has_left_with_those_in_flight() {
        let mut entries: Vec<Entry> = (0..100).map(|n| entry("a", f64::from(n) * 50.0, 5.0)).collect();
        // An upload, half a second before the last request; and one long before it, which was over by then.
        entries.push(entry("a", 4_450.0, 3_000.0));
        entries.push(entry("a", 1_000.0, 3_000.0));
        entries.extend((0..100).map(|n| entry("a", 8_000.0 + f64::from(n) * 50.0, 5.0)));
        entries.extend((0..260).map(|n| entry("b", f64::from(n) * 50.0, 5.0)));
        let found = departures(&entries);
        assert_eq!(found, [Departure { node: "a".to_owned(), at_ms: 4_950.0, in_flight_ms: 2_500.0 }]);
    }

    #[test]
    fn instance_that_is_rarely_sent_anything_has_not_left() {
        let entries: Vec<Entry> = (0..20).map(|n| entry("a", f64::from(n) * 1_500.0, 5.0)).collect();
        assert_eq!(departures(&entries), []);
    }
}
