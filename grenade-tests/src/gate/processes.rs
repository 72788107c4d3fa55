//! The processes of each instance, seen from outside: which versions run at its place, and how much memory they have. The
//! script that starts a version marks it, and what it starts inherits the mark.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::gate::launcher::Node;

/// The environment variable with the directory of the instance.
pub const PLACE: &str = "GRENADE_PLACE";
/// The environment variable with the number of the version.
pub const VERSION: &str = "GRENADE_VERSION";
/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Two versions that ran at one place at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// When it was seen first, in milliseconds since the load's start.
    pub at_ms: u64,
    /// Where.
    pub node: String,
    /// Which.
    pub versions: Vec<u32>,
}

/// The versions that run at each of these places, with their resident memory in KiB.
pub fn running(places: &[PathBuf]) -> Vec<BTreeMap<u32, u64>> {
    let mut running = vec![BTreeMap::new(); places.len()];
    let Ok(entries) = std::fs::read_dir("/proc") else { return running };
    for process in entries.flatten().filter(|entry| is_number(&entry.file_name().to_string_lossy())) {
        let Some((place, version)) = marks(&process.path()) else { continue };
        if let Some(at) = places.iter().position(|known| *known == place) {
            *running[at].entry(version).or_default() += resident(&process.path()).unwrap_or_default();
        }
    }
    running
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The marks of a process; one that has ended has none.
fn marks(process: &Path) -> Option<(PathBuf, u32)> {
    let environ = std::fs::read(process.join("environ")).ok()?;
    let value = |name: &str| {
        let of_name =
            |entry: &[u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
        environ.split(|byte| *byte == 0).find_map(of_name).and_then(|value| String::from_utf8(value).ok())
    };
    Some((PathBuf::from(value(PLACE)?), value(VERSION)?.parse().ok()?))
}

/// proc(5): `VmRSS:    1234 kB`.
fn resident(process: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Looks at the processes of some nodes until it is dropped.
#[derive(Debug)]
pub struct ProcessWatch {
    overlaps: Arc<Mutex<Option<Vec<Overlap>>>>,
    over: Arc<AtomicBool>,
}

impl ProcessWatch {
    /// Begins to look; times count from `began`.
    pub fn start(nodes: &[Node], began: Instant) -> Self {
        let (overlaps, over) =
            (Arc::<Mutex<Option<Vec<Overlap>>>>::default(), Arc::new(AtomicBool::new(false)));
        let (seen, ends) = (Arc::clone(&overlaps), Arc::clone(&over));
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let places: Vec<PathBuf> = nodes.iter().map(|node| node.home.clone()).collect();
        tokio::task::spawn_blocking(move || {
            while !ends.load(Ordering::SeqCst) {
                if let Some(found) = look(&names, &places, began) {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    let known = seen.get_or_insert_default();
                    for overlap in found {
                        if !known.iter().any(|one| one.node == overlap.node) {
                            known.push(overlap);
                        }
                    }
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        Self { overlaps, over }
    }

    /// What was seen so far, the first of each node; `None`: no process of any instance.
    pub fn overlaps(&self) -> Option<Vec<Overlap>> {
        self.overlaps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ProcessWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// A look takes a moment, in which one may end and the other begin: both must be there in a second one too. `None`: no
/// process was seen.
fn look(names: &[String], places: &[PathBuf], began: Instant) -> Option<Vec<Overlap>> {
    let at_ms = began.elapsed().as_millis() as u64;
    let both = |at: &BTreeMap<u32, u64>| at.len() > 1;
    let first = running(places);
    if first.iter().all(BTreeMap::is_empty) {
        return None;
    }
    if !first.iter().any(both) {
        return Some(Vec::new());
    }
    let second = running(places);
    let stays =
        names.iter().zip(first.iter().zip(&second)).filter(|(_, (a, b))| both(a) && a.keys().eq(b.keys()));
    let overlap = |(node, (versions, _)): (&String, (&BTreeMap<u32, u64>, _))| Overlap {
        at_ms,
        node: node.clone(),
        versions: versions.keys().copied().collect(),
    };
    Some(stays.map(overlap).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeps(place: &Path, version: u32) -> Child {
        let mut command = Command::new("sleep");
        command.arg("30").env(PLACE, place).env(VERSION, version.to_string()).spawn().unwrap()
    }

    #[test]
    fn only_versions_that_run_at_the_place_are_seen() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let paths: Vec<PathBuf> = places.iter().map(|place| place.path().to_owned()).collect();
        let mut children = vec![sleeps(&paths[0], 1), sleeps(&paths[0], 2), sleeps(&paths[1], 1)];
        let names = ["a".to_owned(), "b".to_owned()];
        // A process that was just forked has its parent's environment, and no memory of its own yet.
        let began = Instant::now();
        let (mut seen, mut memory) = (None, Vec::new());
        let is_whole = |memory: &[BTreeMap<u32, u64>]| {
            let of =
                |at: usize, version| memory.get(at).and_then(|at| at.get(&version)).copied().unwrap_or(0);
            of(0, 1) > 0 && of(0, 2) > 0 && of(1, 1) > 0
        };
        while !is_whole(&memory) && began.elapsed() < Duration::from_secs(10) {
            memory = running(&paths);
            seen = look(&names, &paths, began);
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let seen = seen.unwrap();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!((seen[0].node.as_str(), seen[0].versions.as_slice()), ("a", [1, 2].as_slice()));
        assert!(is_whole(&memory), "{memory:?}");
        assert_eq!(look(&names, &paths, began), None);
    }
}
