//! What the system says that a process has used.

use std::time::Duration;

use anyhow::{Context, anyhow};

/// In how many parts of a second the system counts CPU time for those that ask: Linux's USER_HZ, which is part of its
/// interface to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time of a process so far, user and system, in all of its threads; where asked, also of the children that
/// it has waited for.
///
/// # Errors
/// When there is no such process, or the system reports it in a form that we do not know.
pub fn cpu(pid: u32, with_children: bool) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
    let ticks = ticks(&stat, with_children).ok_or_else(|| anyhow!("{path} has an unknown form: {stat}"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}

/// `pid (name) state …`: utime, stime and, where asked, cutime and cstime are fields 14 to 17.
fn ticks(stat: &str, with_children: bool) -> Option<u64> {
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let used = fields.get(11..if with_children { 15 } else { 13 })?;
    used.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// What a process has resident now, in MiB.
///
/// # Errors
/// As [`cpu`].
pub fn resident_mib(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    kib.map(|kib: f64| kib / 1024.0).ok_or_else(|| anyhow!("{path} has no VmRSS"))
}

#[cfg(test)]
mod tests {
    use super::{cpu, resident_mib, ticks};

    #[test]
    fn a_name_with_brackets_is_read_over() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 11 22 33 44 20 0 1";
        assert_eq!((ticks(stat, false), ticks(stat, true)), (Some(33), Some(110)));
        assert_eq!(ticks("7 (gone", true), None);
    }

    #[test]
    fn memory_and_cpu_of_own_process_are_read() {
        assert!(resident_mib(std::process::id()).unwrap() > 0.5);
        assert!(cpu(std::process::id(), true).is_ok());
        assert!(cpu(u32::MAX, false).is_err());
    }
}
