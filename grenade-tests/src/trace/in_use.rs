//! Which services use what an upgrade expanded when it ends, as far as the store says.

use std::collections::BTreeSet;

use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, ServiceName, ServiceVersion, UpgradeId, Value};

use super::seen::Seen;
use super::{Trace, Written};

impl Trace {
    /// Services with an instance that was said to run a version above this one when an upgrade failed or was rolled back;
    /// of a silent instance its last admission counts. A coordinator may see a report late, so what it could still see
    /// then counts too.
    pub fn said_above(&self, id: &UpgradeId, version: ServiceVersion) -> BTreeSet<ServiceName> {
        let Some(end) = self.end_of(id) else { return BTreeSet::new() };
        let (known, mut seen, mut above) = (self.known_at(end), Seen::default(), BTreeSet::new());
        for revision in self.revisions.iter().take_while(|revision| revision.number <= end) {
            seen.take_in(revision);
            if revision.number >= known {
                above.extend(seen.services_above(version).cloned());
            }
        }
        above
    }

    /// The revision in which an upgrade failed or was rolled back, unless the same one was started once more since.
    fn end_of(&self, id: &UpgradeId) -> Option<i64> {
        let mut end = None;
        for revision in &self.revisions {
            match revision.writes.iter().find_map(|written| is_over(written, id)) {
                Some(true) => end = end.or(Some(revision.number)),
                Some(false) => end = None,
                None => {}
            }
        }
        end
    }
}

/// Whether an upgrade is over without success; none where its record is not written.
fn is_over(written: &Written, id: &UpgradeId) -> Option<bool> {
    match (&written.key, written.put.as_ref().map(|put| &put.value)) {
        (Key::Upgrade(of), Some(Value::Upgrade(upgrade))) if of == id => {
            Some(matches!(upgrade.body.phase, Phase::Failed { .. } | Phase::RolledBack { .. }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Put, Revision};
    use tidegate_proto::Prefix;

    /// What is written under a key; none where it is removed.
    type Write = (&'static str, Option<String>);

    const UPGRADE: &str = "upgrades/u1";
    const SILENT: Write = (REPORT, None);
    const REPORT: &str = "reports/pantry/n1";

    fn admitted(version: u32) -> Write {
        let text =
            format!(r#"{{"schema":1,"version":{version},"identity":{{"nonce":"n","boot":"b"}},"at":1}}"#);
        ("inventory/pantry/n1", Some(text))
    }

    fn says(version: u32) -> Write {
        let text = format!(
            r#"{{"schema":1,"version":{version},"admission":1,"rotation":"in","health":"healthy",
                "step":{{"name":"serving"}},"identity":{{"nonce":"n","boot":"b"}}}}"#
        );
        (REPORT, Some(text))
    }

    fn phase(phase: &str) -> Write {
        let digest = "0".repeat(64);
        let text = format!(
            r#"{{"schema":3,"spec":{{"service":"pantry","from":1,"to":2,
                "release":{{"tag":"pantry-2","sha256":"{digest}"}}}},
                "digest":"{digest}","by":"op","at":1,"phase":{phase}}}"#
        );
        (UPGRADE, Some(text))
    }

    fn failed() -> Write {
        phase(r#"{"name":"failed","because":"ended"}"#)
    }

    /// Whether the service was said to be above version 1 when its upgrade failed. Everything was seen at once, or each
    /// revision so many milliseconds after the one before it.
    fn is_above(writes: &[Write], apart: Option<u64>) -> bool {
        let written = (1..).zip(writes).map(|(number, (key, put))| {
            let path = format!("/tidegate/{key}");
            let key = Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
            let value = put.as_ref().map(|text| Value::decode(&key, text.as_bytes()).unwrap());
            let (gone, put) = (value.is_none(), value.map(|value| Put { value, created: number, lease: 0 }));
            Revision { number, writes: vec![Written { key, put, gone }] }
        });
        let mut trace = Trace { revisions: written.collect(), ..Trace::default() };
        if let Some(apart) = apart {
            let timed = trace.revisions.iter().zip(0..);
            trace.seen_at = timed.map(|(revision, n)| (revision.number, n * apart)).collect();
        }
        let pantry: ServiceName = "pantry".parse().unwrap();
        trace.said_above(&"u1".parse().unwrap(), ServiceVersion::new(1).unwrap()).contains(&pantry)
    }

    #[test]
    fn version_said_when_the_upgrade_failed_counts() {
        assert!(!is_above(&[admitted(1), says(1), failed()], None));
        assert!(is_above(&[admitted(1), says(6), failed(), says(1)], None));
        assert!(!is_above(&[admitted(1), says(1), failed(), says(6)], None), "it said so later");
        assert!(!is_above(&[admitted(1), says(6)], None), "nothing has failed");
        let again = [admitted(1), says(6), failed(), phase(r#"{"name":"preflight"}"#), says(1), failed()];
        assert!(!is_above(&again, None), "the same upgrade was started once more");
    }

    #[test]
    fn silent_instance_counts_at_its_last_admission() {
        assert!(is_above(&[admitted(2), says(2), SILENT, failed()], None));
        assert!(!is_above(&[admitted(1), says(6), SILENT, failed()], None));
    }

    #[test]
    fn report_counts_as_long_as_a_coordinator_may_see_it() {
        let writes = [admitted(1), says(6), says(1), failed()];
        assert!(!is_above(&writes, None), "everything before was seen");
        assert!(is_above(&writes, Some(1_000)), "the version is two seconds old");
        assert!(!is_above(&writes, Some(2_000)), "the report of version 1 was seen");
    }
}
