//! Finds and ends the processes that descend from this one, by /proc alone. Never by name.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

/// How long processes may take to end by themselves: PostgreSQL gives its shared memory back, etcd closes its log.
const GENTLE: Duration = Duration::from_millis(1500);
/// How long the system may take to end what was killed.
const KILLED: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Which descendants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Every,
    /// Those whose environment holds this `NAME=value`.
    Marked(String),
}

/// The living descendants of this process, by pid. Zombies that wait for their parent are none.
pub fn living(scope: &Scope) -> Vec<i32> {
    let mut found = below(getpid().as_raw_pid());
    found.retain(|pid| in_scope(*pid, scope));
    found
}

/// The living descendants of a process, by pid.
pub fn below(ancestor: i32) -> Vec<i32> {
    let table = processes();
    let descends = |pid: i32| {
        let (mut at, mut steps) = (pid, 0);
        while let Some(process) = table.get(&at) {
            at = process.parent;
            steps += 1;
            if at == ancestor {
                return true;
            }
            // The table is no snapshot: a reused pid could close a circle.
            if steps > table.len() {
                break;
            }
        }
        false
    };
    let mut found: Vec<i32> = table
        .iter()
        .filter(|(pid, process)| !process.zombie && descends(**pid))
        .map(|(pid, _)| *pid)
        .collect();
    found.sort_unstable();
    found
}

/// Whether this process runs. A zombie does not.
pub fn runs(pid: i32) -> bool {
    seen(pid).is_some_and(|process| !process.zombie)
}

/// Ends them all: asks first, kills then, and reaps those that are our own children. Answers how many there were.
pub fn sweep(scope: &Scope) -> usize {
    let mut met = HashSet::new();
    let mut signals = [Signal::INT, Signal::CONT].as_slice();
    let began = Instant::now();
    loop {
        let pids = living(scope);
        for pid in &pids {
            let new = met.insert(*pid);
            if new || signals.contains(&Signal::KILL) {
                for signal in signals {
                    send(*pid, *signal);
                }
            }
        }
        met.iter().for_each(|pid| reap(*pid));
        if pids.is_empty() {
            return met.len();
        }
        if began.elapsed() > GENTLE {
            signals = [Signal::KILL].as_slice();
        }
        if began.elapsed() > GENTLE + KILLED {
            tracing::error!(?pids, "could not end these processes");
            return met.len();
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended by itself meanwhile, which is what we want.
        let _ = kill_process(pid, signal);
    }
}

fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Not our own child, not ended yet, or reaped already: the next look decides.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

#[derive(Debug)]
struct Seen {
    parent: i32,
    zombie: bool,
}

fn processes() -> HashMap<i32, Seen> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, seen(pid)?)))
        .collect()
}

fn seen(pid: i32) -> Option<Seen> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `pid (name) state ppid …`; the name may hold blanks and brackets, so the last `)` counts.
fn parse_stat(stat: &str) -> Option<Seen> {
    let mut rest = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = rest.next()?;
    Some(Seen { parent: rest.next()?.parse().ok()?, zombie: matches!(state, "Z" | "X") })
}

fn in_scope(pid: i32, scope: &Scope) -> bool {
    match scope {
        Scope::Every => true,
        Scope::Marked(mark) => environ(pid)
            .is_some_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())),
    }
}

/// The environment of a process. A process that is just being started shows an empty one for a moment, and every process
/// of a world has at least its mark: so an empty one is looked at again, for a while.
fn environ(pid: i32) -> Option<Vec<u8>> {
    for _ in 0..20 {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        if !environ.is_empty() {
            return Some(environ);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parse_stat;

    #[test]
    fn a_name_with_brackets_and_blanks_is_read_over() {
        let seen = parse_stat("42 (a) R 7 (x) S 17 42 42 0").unwrap();
        assert_eq!((seen.parent, seen.zombie), (17, false));
        assert!(parse_stat("42 (gone) Z 1 0").unwrap().zombie);
        assert!(parse_stat("no process").is_none());
    }
}
