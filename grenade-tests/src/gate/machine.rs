//! The machine of a run, and when the run was: latencies can be compared only with those of the same machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The machine, as its kernel describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its host name.
    pub name: String,
    /// Cores that the processes of a run may use.
    pub cores: usize,
    /// All of its memory, in MiB; absent: the kernel does not say.
    pub memory_mib: Option<u64>,
    /// The release of the kernel.
    pub kernel: String,
}

impl Machine {
    /// The one that this runs on.
    pub fn here() -> Self {
        let kernel = |what: &str| {
            let said = std::fs::read_to_string(format!("/proc/sys/kernel/{what}"));
            said.map_or("unknown".to_owned(), |said| said.trim().to_owned())
        };
        Self {
            name: kernel("hostname"),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_mib: std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(memory_mib),
            kernel: kernel("osrelease"),
        }
    }

    /// In one line.
    pub fn words(&self) -> String {
        format!("host {}, {}", self.name, self.size())
    }

    /// The same without its name.
    pub fn size(&self) -> String {
        let Self { cores, memory_mib, kernel, .. } = self;
        let memory = memory_mib.map_or("unknown".to_owned(), |mebibytes| format!("{mebibytes} MiB of"));
        format!("{cores} cores, {memory} memory, Linux {kernel}")
    }
}

/// The line `MemTotal` of `/proc/meminfo` (proc(5)), which is in KiB.
fn memory_mib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? / 1024)
}

/// Where and when a run was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunContext {
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// From the first command to the verdict, in seconds.
    pub seconds: f64,
    /// The machine.
    pub machine: Machine,
}

impl RunContext {
    /// Of a run on this machine that began so long ago and is over now.
    pub fn over_after(elapsed: Duration) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = since_epoch.saturating_sub(elapsed).as_secs();
        Self { began: rfc3339(began), seconds: elapsed.as_secs_f64(), machine: Machine::here() }
    }
}

/// An instant, from seconds since 1970.
fn rfc3339(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    at.unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_is_understood() {
        assert_eq!(memory_mib("MemFree: 1 kB\nMemTotal:        8126996 kB\nBuffers: 2 kB\n"), Some(7_936));
        assert_eq!(memory_mib("MemFree: 1 kB\n"), None);
        assert_eq!(rfc3339(1_795_683_600), "2026-11-26T09:00:00Z");
    }

    #[test]
    fn run_that_is_over_began_before_now() {
        let context = RunContext::over_after(Duration::from_secs(3_600));
        let began: jiff::Timestamp = context.began.parse().unwrap();
        let ago = jiff::Timestamp::now().as_second() - began.as_second();
        assert!((3_600..3_660).contains(&ago), "{ago} s ago: {context:?}");
        let machine = &context.machine;
        assert!(machine.cores > 0 && machine.memory_mib > Some(16), "{machine:?}");
        assert!(!machine.kernel.is_empty() && machine.kernel != "unknown", "{machine:?}");
    }
}
