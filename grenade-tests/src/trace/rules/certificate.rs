//! What must be so when contract begins (rule 1).

use tidegate_planner::certificate::{Certificate, Sealed};
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::{Digest, ServiceVersion, UpgradeId};

use super::Judge;
use crate::trace::instance::{Instance, is_of_its_agent};

impl Judge<'_> {
    /// The certificate is stored, no instance below the floor was seen, and every instance has acknowledged the floor.
    pub(super) fn contract(&mut self, id: &UpgradeId, upgrade: &Upgrade, certificate: &Digest) {
        let pages = self.after.certificates.get(id);
        let text: String =
            pages.into_iter().flat_map(|pages| pages.values()).map(|p| p.text.as_str()).collect();
        let is_it = Digest::of(text.as_bytes()) == *certificate;
        self.holds(1, is_it, || format!("the certificate of {id} is not what contract was entered with"));
        let wrong = verified(&text, certificate).err();
        self.holds(1, !is_it || wrong.is_none(), || {
            format!("an auditor verifies the certificate of {id}: {}", wrong.unwrap_or_default())
        });
        // This commit compares the upgrade's record, each admission and the window, and no report that was there before.
        let planned_on = self.before.upgrade_written.get(id).map_or(self.known, |at| self.known.max(*at));
        let shared = upgrade.spec.schema.iter().flat_map(|schema| &schema.shared_with);
        for (service, needs) in std::iter::once((&upgrade.spec.service, &upgrade.spec.to)).chain(shared) {
            // Entering contract writes the window again, with what is contracted from now on: the floor is the former one.
            let window = self.before.windows.get(service);
            let (floor, at) = window.map_or((None, 0), |window| (Some(window.body.floor), window.revision));
            self.holds(1, floor.is_some_and(|floor| floor >= *needs), || {
                format!("{id} entered contract, the floor of {service} is {floor:?}, {needs} is needed")
            });
            let behind: Vec<String> = self
                .after
                .fleet(service)
                .filter(|(_, instance)| {
                    !is_beyond(instance, *needs, at) && !instance.stood_at(*needs, at, planned_on)
                })
                .map(|(node, _)| format!("{service}/{node}"))
                .collect();
            self.holds(1, behind.is_empty() || self.of_former_view, || {
                format!(
                    "{id} entered contract, and {} did not acknowledge the floor at {needs}",
                    behind.join(", ")
                )
            });
        }
    }
}

/// What `tidegate certificate verify` says of it, without a store.
fn verified(text: &str, digest: &Digest) -> Result<(), String> {
    let certificate: Certificate = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Sealed { certificate, digest: *digest }.verify().map_err(|wrong| wrong.to_string())
}

/// What an instance said last: at least this version, admitted, and the window of this revision acknowledged. A report
/// that is gone since is harmless, because a return needs an admission.
fn is_beyond(instance: &Instance, version: ServiceVersion, window: i64) -> bool {
    let (Some(last), Some(inventory)) = (&instance.last_report, &instance.inventory) else { return false };
    let report = &last.body;
    inventory.body.version >= version
        && report.admission.0 == inventory.revision
        && is_of_its_agent(&inventory.body, report)
        // What ended since it was read for the certificate has no version now, and needs an admission to come back.
        && report.version.is_none_or(|running| running >= version)
        && report.window.0 == window
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::seen::Seen;
    use crate::trace::{Put, Revision, Written};
    use tidegate_proto::{Prefix, Value};

    const ADMITTED: (&str, &str) =
        ("inventory/pantry/n1", r#"{"schema":1,"version":2,"identity":{"nonce":"n","boot":"b"},"at":1}"#);

    /// What an instance reports that was admitted in revision 1.
    fn says(version: u32, window: i64) -> String {
        format!(
            r#"{{"schema":1,"version":{version},"admission":1,"rotation":"in","health":"healthy",
                "step":{{"name":"serving"}},"window":{window},"identity":{{"nonce":"n","boot":"b"}}}}"#
        )
    }

    /// Whether an instance has, or had until later than `known`, acknowledged the window of revision 9 at version 2, after these
    /// records in the revisions 1, 2, and so on.
    fn acknowledged(records: &[(&str, &str)], known: i64) -> bool {
        let mut seen = Seen::default();
        for (number, (key, text)) in (1..).zip(records) {
            let path = format!("/tidegate/{key}");
            let key = Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
            let put =
                Some(Put { value: Value::decode(&key, text.as_bytes()).unwrap(), created: number, lease: 0 });
            seen.take_in(&Revision { number, writes: vec![Written { key, put, gone: false }] });
        }
        let version = ServiceVersion::new(2).unwrap();
        let of =
            |instance: &Instance| is_beyond(instance, version, 9) || instance.stood_at(version, 9, known);
        seen.instances.values().all(of)
    }

    #[test]
    fn acknowledged_window_counts_until_a_change_had_to_be_seen() {
        let [good, below, other] = [says(2, 9), says(1, 9), says(2, 8)];
        let report = |text| ("reports/pantry/n1", text);
        for falls in [&below, &other] {
            let mut records = vec![ADMITTED, report(good.as_str()), report(falls.as_str())];
            assert!(acknowledged(&records, 2), "a coordinator may not have seen revision 3: {falls}");
            assert!(!acknowledged(&records, 3), "it has seen revision 3: {falls}");
            records.push(ADMITTED);
            assert!(!acknowledged(&records, 2), "an admission is compared: {falls}");
        }
        let twice = [ADMITTED, report(good.as_str()), report(below.as_str()), report(other.as_str())];
        assert!(acknowledged(&twice, 2), "the second change may not have been seen either");
        assert!(
            !acknowledged(&[ADMITTED, report(below.as_str())], 0),
            "it never acknowledged it at that version"
        );
    }
}
