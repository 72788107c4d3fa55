//! Whether the machine that the gate runs on could keep up.

use serde::Serialize;

use crate::gate::written::HostBounds;
use crate::load::entry::Entry;

/// What helps where the machine cannot keep up.
const ADVICE: &str = "run it where nothing else runs, or with a lower `load.rate`";

/// What was counted at one instant.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    at: std::time::Instant,
    /// Microseconds in which some process waited for a core, since the machine's start; absent: the kernel does not say.
    waited_us: Option<u64>,
    /// The same, for memory.
    starved_us: Option<u64>,
    /// All ticks and stolen ticks of all cores.
    ticks: Option<(u64, u64)>,
}

impl Reading {
    /// Reads `/proc`.
    pub fn take() -> Self {
        let pressure = |what: &str| std::fs::read_to_string(format!("/proc/pressure/{what}")).ok();
        let stat = std::fs::read_to_string("/proc/stat").ok();
        Self {
            at: std::time::Instant::now(),
            waited_us: pressure("cpu").as_deref().and_then(waited),
            starved_us: pressure("memory").as_deref().and_then(waited),
            ticks: stat.as_deref().and_then(ticks),
        }
    }
}

fn waited(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.split("total=").nth(1)?.trim().parse().ok()
}

/// All ticks, and those that the hypervisor gave to others (proc(5), `cpu`, the eighth field).
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Some((fields.iter().take(8).sum(), *fields.get(7)?))
}

/// What was seen of the machine while a load ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HostSeen {
    /// The share of time in which some process waited for a core, in percent; absent: the kernel does not say.
    pub cpu_pressure: Option<f64>,
    /// The share of time in which some process waited for memory, in percent.
    pub memory_pressure: Option<f64>,
    /// The share of time that the hypervisor gave to others, in percent.
    pub steal: Option<f64>,
    /// How late requests were sent: 99 % were no later, in milliseconds.
    pub lag_p99_ms: f64,
}

impl HostSeen {
    /// Between two readings, while these requests were sent.
    pub fn between(before: Reading, after: Reading, entries: &[Entry]) -> Self {
        let span = after.at.duration_since(before.at).as_micros() as f64;
        let share = |before: Option<u64>, after: Option<u64>| {
            let waited = after?.saturating_sub(before?);
            Some((waited as f64 / span * 100.0).min(100.0))
        };
        let cpu_pressure = share(before.waited_us, after.waited_us);
        let memory_pressure = share(before.starved_us, after.starved_us);
        let steal = before.ticks.zip(after.ticks).and_then(|((all, stolen), (all_after, stolen_after))| {
            let all = all_after.checked_sub(all).filter(|all| *all > 0)?;
            Some(stolen_after.saturating_sub(stolen) as f64 / all as f64 * 100.0)
        });
        let mut lags: Vec<f64> = entries.iter().map(Entry::lag_ms).collect();
        lags.sort_by(f64::total_cmp);
        let at = (lags.len() * 99 / 100).min(lags.len().saturating_sub(1));
        Self { cpu_pressure, memory_pressure, steal, lag_p99_ms: lags.get(at).copied().unwrap_or_default() }
    }

    /// The worse of two stretches of time, figure by figure.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let worse = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            cpu_pressure: worse(self.cpu_pressure, other.cpu_pressure),
            memory_pressure: worse(self.memory_pressure, other.memory_pressure),
            steal: worse(self.steal, other.steal),
            lag_p99_ms: self.lag_p99_ms.max(other.lag_p99_ms),
        }
    }

    /// Why a failure may have been the machine's; `None`: it kept up.
    pub fn overloaded(&self, bounds: &HostBounds) -> Option<String> {
        let lag = bounds.lag.as_millis() as f64;
        if self.lag_p99_ms > lag {
            return Some(format!(
                "the generator was late: 99 % of the requests within {:.0} ms, {lag:.0} ms are allowed (`host.lag`); {ADVICE}",
                self.lag_p99_ms
            ));
        }
        let beyond = |seen: Option<f64>, what: &str, (field, allowed): (&str, f64)| {
            let seen = seen.filter(|seen| *seen > allowed)?;
            Some(format!(
                "{what} {seen:.0} % of the time, {allowed:.0} % is allowed (`host.{field}`); {ADVICE}"
            ))
        };
        beyond(self.cpu_pressure, "processes waited for a core", ("cpu_pressure", bounds.cpu_pressure))
            .or_else(|| {
                let allowed = ("memory_pressure", bounds.memory_pressure);
                beyond(self.memory_pressure, "processes waited for memory", allowed)
            })
            .or_else(|| {
                beyond(self.steal, "the hypervisor gave the cores to others", ("steal", bounds.steal))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{HostSeen, ticks, waited};
    use crate::gate::written::HostBounds;

    #[test]
    fn kernel_is_understood() {
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.18 total=2139751998\nfull avg10=0.00 total=7\n";
        assert_eq!(waited(pressure), Some(2_139_751_998));
        assert_eq!(ticks("cpu  10 0 5 100 1 0 2 4 9 9\ncpu0 1\n"), Some((122, 4)));
        assert_eq!((waited(""), ticks("intr 1")), (None, None));
    }

    #[test]
    fn machine_is_overloaded_beyond_its_bounds_only() {
        let bounds = HostBounds::default();
        let calm = HostSeen { cpu_pressure: Some(40.0), lag_p99_ms: 2.0, ..HostSeen::default() };
        assert_eq!(calm.overloaded(&bounds), None);
        assert!(HostSeen { lag_p99_ms: 900.0, ..calm }.overloaded(&bounds).unwrap().contains("late"));
        assert!(HostSeen { cpu_pressure: Some(99.0), ..calm }.overloaded(&bounds).unwrap().contains("core"));
        let starved = HostSeen { memory_pressure: Some(60.0), ..calm };
        assert!(starved.overloaded(&bounds).unwrap().contains("memory"));
        assert!(HostSeen { steal: Some(80.0), ..calm }.overloaded(&bounds).unwrap().contains("hypervisor"));
    }
}
