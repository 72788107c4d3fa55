//! How many instances of a service are at each version, and how many are silent: kept as a count, so that reading
//! it costs what there are versions, not what there are nodes.

use std::collections::BTreeMap;
use std::fmt;
use tidegate_proto::ServiceVersion;

/// What is known of the version that an instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Known {
    /// In the inventory, not decommissioned, no report: unknown, not gone.
    Silent,
    /// It reports, but what it runs is not known: the probe failed, the record cannot be read, or the report
    /// belongs to an older admission.
    Unknown,
    /// The lower of its report and its last admission.
    At(ServiceVersion),
}

/// The spread of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many are known to be at each version; none has a count of 0.
    pub by_version: BTreeMap<ServiceVersion, usize>,
    /// How many are in the inventory, not decommissioned, and do not report.
    pub silent: usize,
    /// How many report without a known version.
    pub unknown: usize,
}

impl Spread {
    /// Counts an instance in, or out.
    pub(crate) fn count(&mut self, known: Known, enter: bool) {
        let step = |count: &mut usize| if enter { *count += 1 } else { *count -= 1 };
        match known {
            Known::Silent => step(&mut self.silent),
            Known::Unknown => step(&mut self.unknown),
            Known::At(version) => {
                let count = self.by_version.entry(version).or_default();
                step(count);
                if *count == 0 {
                    self.by_version.remove(&version);
                }
            }
        }
    }

    /// The lowest known version.
    pub fn min(&self) -> Option<ServiceVersion> {
        self.by_version.keys().next().copied()
    }

    /// The highest known version.
    pub fn max(&self) -> Option<ServiceVersion> {
        self.by_version.keys().next_back().copied()
    }

    /// Whether every instance is known to be at this version: none silent, none unknown, at least one there.
    pub fn is_all_at(&self, version: ServiceVersion) -> bool {
        self.silent == 0
            && self.unknown == 0
            && self.by_version.len() == 1
            && self.by_version.contains_key(&version)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> =
            self.by_version.iter().map(|(version, count)| format!("{count} at {version}")).collect();
        if self.silent > 0 {
            parts.push(format!("{} silent", self.silent));
        }
        if self.unknown > 0 {
            parts.push(format!("{} unknown", self.unknown));
        }
        if parts.is_empty() { f.write_str("no instance") } else { f.write_str(&parts.join(", ")) }
    }
}
