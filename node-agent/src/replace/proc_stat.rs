//! `/proc/PID/stat`: what the kernel knows of a process.

use std::fs;

/// When a process started, in ticks since boot.
pub(crate) fn ticks(pid: i32) -> Option<u64> {
    Some(Stat::of(pid)?.ticks)
}

/// Whether the process that was given `pid` at `ticks` still runs: one that only waits to be reaped does not.
pub(crate) fn runs(pid: i32, ticks: u64) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.lives() && stat.ticks == ticks)
}

/// Whether the process runs and leads a group of processes.
pub(crate) fn leads_its_group(pid: i32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.lives() && stat.group == pid)
}

struct Stat {
    state: char,
    group: i32,
    ticks: u64,
}

impl Stat {
    /// Fields 3, 5 and 22 of its `stat`, counted behind the name in parentheses.
    fn of(pid: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let (group, ticks) = (fields.nth(1)?.parse().ok()?, fields.nth(16)?.parse().ok()?);
        Some(Self { state, group, ticks })
    }

    fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}
