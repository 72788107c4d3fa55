//! What clients of the sample service do: the steps of `sample/steps.yaml`, which gate files use too.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::load::findings::Findings;
use crate::load::object::Object;
use crate::load::plan::LoadError;
use crate::load::requests::{Requests, Target, Versions};
use crate::load::script::{Script, steps_of};
use crate::load::wire::Answer;
use crate::load::{Load, LoadHandle, Pace};
use crate::sample::image::{Audience, Image};
use crate::sample::seed::{seed_id, seed_image};

/// The steps, as YAML.
pub const STEPS: &str = include_str!("../../sample/steps.yaml");
/// The answer's header that says which version gave it.
pub const VERSION: &str = "x-pantry-version";
/// The kind of the seeded images.
pub const SEEDED: &str = "seeded";
/// So many seeded images are read, spread over all of them.
const READ: u32 = 200;

/// A load of the sample service.
#[derive(Debug, Clone)]
pub struct SampleLoad {
    /// Where requests go: the balancer, or one instance.
    pub target: SocketAddr,
    /// Requests per second, 1 to 5000.
    pub rate: u32,
    /// Decides every choice that the load makes.
    pub seed: u64,
    /// How many rows the catalogue was seeded with.
    pub rows: u32,
    /// Where each request is written down: a CSV file, made anew.
    pub ledger: PathBuf,
}

impl SampleLoad {
    /// With the first seed.
    pub fn new(target: SocketAddr, rate: u32, rows: u32, ledger: PathBuf) -> Self {
        Self { target, rate, seed: 1, rows, ledger }
    }

    /// Its requests.
    pub fn requests(&self) -> Requests {
        let target = Target::Balancer(self.target, Versions::default());
        Requests::new(Arc::new(script(self.rows)), target)
    }

    /// Begins to send; the first request is due at once.
    ///
    /// # Errors
    /// When the rate cannot be kept or the ledger cannot be made.
    pub fn start(self) -> Result<LoadHandle, LoadError> {
        let requests = Arc::new(self.requests());
        Load::of(Pace { rate: self.rate, seed: self.seed, jitter: None, ledger: self.ledger }, requests)
    }
}

/// The script, over a catalogue that was seeded with so many rows.
fn script(rows: u32) -> Script {
    let object = |variables| Object { variables, written_by: Some(1) };
    let existing = seeded(rows).into_iter().map(|image| (SEEDED.to_owned(), object(image)));
    let mut steps = steps_of(STEPS).expect("the sample's steps are YAML");
    if rows < 2 {
        steps.retain(|step| step.uses.as_deref() != Some(SEEDED));
    }
    let mut findings = Findings::default();
    let script = Script::settled(steps, existing.collect(), 0.5, Some(VERSION.to_owned()), &mut findings);
    assert!(findings.all().is_empty(), "the sample's steps are wrong: {:?}", findings.all());
    script.expect("the sample has steps")
}

/// What some of the seeded rows must say for ever, with the id of the next.
pub fn seeded(rows: u32) -> Vec<Map<String, Value>> {
    // An odd distance: every kind of row is among them.
    let apart = (rows / READ) | 1;
    let known = |n: u32| {
        let Image { id, name, audience, size, checksum, .. } = seed_image(n);
        let (public, shared) = (audience == Audience::Public, audience == Audience::Shared);
        let next = seed_id(n + 1);
        let all = json!({"id": id, "name": name, "public": public, "shared": shared, "size": size,
            "checksum": checksum, "next": next});
        all.as_object().cloned().unwrap_or_default()
    };
    (0..rows.saturating_sub(1)).step_by(apart as usize).map(known).collect()
}

/// Which version gave an answer, where it says so.
pub fn version_of(answer: &Answer) -> Option<u32> {
    answer.header(VERSION)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{script, seeded};

    #[test]
    fn steps_of_the_sample_are_sound_over_any_number_of_rows() {
        for rows in [0, 1, 2, 10, 60_000] {
            assert!(script(rows).steps.len() >= 5, "{rows} rows");
        }
    }

    #[test]
    fn every_kind_of_seeded_row_is_read() {
        for rows in [100, 2_000, 60_000] {
            let kinds: std::collections::BTreeSet<_> = seeded(rows)
                .iter()
                .map(|image| (image["public"].as_bool(), image["shared"].as_bool()))
                .collect();
            assert_eq!(kinds.len(), 3, "{rows} rows");
        }
    }
}
