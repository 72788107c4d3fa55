//! Whether the machine that the gate runs on could keep up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinHandle;

use crate::gate::written::HostBounds;
use crate::load::entry::Entry;
use crate::load::plan::SEND_LIMIT;

/// What helps where the machine cannot keep up.
const ADVICE: &str = "run it where nothing else runs, or with a lower `load.rate`";
/// From one reading to the next.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The length of a window; the worst window counts too, because the mean of 40 s hides a machine that stood still for 3 s.
const WINDOW: Duration = Duration::from_secs(3);

/// What was counted at one instant.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    /// Microseconds in which some process waited for a core, since the machine's start; absent: the kernel does not say.
    waited_us: Option<u64>,
    /// The same, for memory.
    starved_us: Option<u64>,
    /// All ticks and stolen ticks of all cores.
    ticks: Option<(u64, u64)>,
}

impl Reading {
    /// Reads `/proc`.
    fn take() -> Self {
        let pressure = |what: &str| std::fs::read_to_string(format!("/proc/pressure/{what}")).ok();
        let stat = std::fs::read_to_string("/proc/stat").ok();
        Self {
            at: Instant::now(),
            waited_us: pressure("cpu").as_deref().and_then(waited),
            starved_us: pressure("memory").as_deref().and_then(waited),
            ticks: stat.as_deref().and_then(ticks),
        }
    }

    /// What was lost from this one to a later one.
    fn lost_until(&self, later: &Self) -> Lost {
        let span = later.at.duration_since(self.at).as_micros() as f64;
        let share = |before: Option<u64>, after: Option<u64>| {
            let waited = after?.saturating_sub(before?);
            Some((waited as f64 / span * 100.0).min(100.0)).filter(|share| share.is_finite())
        };
        let steal = self.ticks.zip(later.ticks).and_then(|((all, stolen), (all_after, stolen_after))| {
            let all = all_after.checked_sub(all).filter(|all| *all > 0)?;
            Some(stolen_after.saturating_sub(stolen) as f64 / all as f64 * 100.0)
        });
        Lost {
            cpu_pressure: share(self.waited_us, later.waited_us),
            memory_pressure: share(self.starved_us, later.starved_us),
            steal,
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

/// Reads the machine until it is dropped.
#[derive(Debug)]
pub struct Machine {
    readings: Arc<Mutex<Vec<Reading>>>,
    task: JoinHandle<()>,
}

impl Machine {
    /// Begins to read.
    pub fn watch() -> Self {
        let readings = Arc::new(Mutex::new(vec![Reading::take()]));
        let kept = Arc::clone(&readings);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(Reading::take());
            }
        });
        Self { readings, task }
    }

    /// What was seen until now, while these requests were sent.
    pub fn seen(&self, entries: &[Entry]) -> HostSeen {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        readings.push(Reading::take());
        HostSeen::of(&readings, entries)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The share of a time in which processes could not run, in percent; absent: the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Lost {
    /// In which some process waited for a core.
    pub cpu_pressure: Option<f64>,
    /// In which some process waited for memory.
    pub memory_pressure: Option<f64>,
    /// That the hypervisor gave to others.
    pub steal: Option<f64>,
}

impl Lost {
    /// The worse of two, figure by figure.
    fn worse(self, other: Self) -> Self {
        let worse = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            cpu_pressure: worse(self.cpu_pressure, other.cpu_pressure),
            memory_pressure: worse(self.memory_pressure, other.memory_pressure),
            steal: worse(self.steal, other.steal),
        }
    }

    /// The first figure that is beyond its bound, or beyond `least` percent where that is more.
    fn beyond(&self, bounds: &HostBounds, least: f64) -> Option<String> {
        let figures = [
            ("processes waited for a core", "cpu_pressure", self.cpu_pressure, bounds.cpu_pressure),
            ("processes waited for memory", "memory_pressure", self.memory_pressure, bounds.memory_pressure),
            ("the hypervisor gave the cores to others", "steal", self.steal, bounds.steal),
        ];
        figures.into_iter().find_map(|(what, field, seen, allowed)| {
            let allowed = allowed.max(least);
            let seen = seen.filter(|seen| *seen > allowed)?;
            Some(format!("{what} {seen:.0} % of the time, {allowed:.0} % is allowed (`host.{field}`)"))
        })
    }
}

/// What was seen of the machine while a load ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HostSeen {
    /// Of the whole time.
    #[serde(flatten)]
    pub mean: Lost,
    /// Of the worst three seconds, figure by figure.
    pub worst: Lost,
    /// How late requests were sent: 99 % were no later, in milliseconds.
    pub lag_p99_ms: f64,
}

impl HostSeen {
    /// Of readings in their order.
    fn of(readings: &[Reading], entries: &[Entry]) -> Self {
        let mean = readings.first().zip(readings.last()).map(|(first, last)| first.lost_until(last));
        let windows = readings.iter().enumerate().filter_map(|(n, from)| {
            let is_whole = |to: &&Reading| to.at.duration_since(from.at) >= WINDOW;
            readings[n..].iter().find(is_whole).map(|to| from.lost_until(to))
        });
        let worst = windows.fold(Lost::default(), Lost::worse);
        Self { mean: mean.unwrap_or_default(), worst, ..Self::late_by(entries) }
    }

    /// How late these requests were sent; nothing is known of the machine.
    pub fn late_by(entries: &[Entry]) -> Self {
        let mut lags: Vec<f64> = entries.iter().map(Entry::lag_ms).collect();
        lags.sort_by(f64::total_cmp);
        let at = (lags.len() * 99 / 100).min(lags.len().saturating_sub(1));
        Self { lag_p99_ms: lags.get(at).copied().unwrap_or_default(), ..Self::default() }
    }

    /// The worse of two stretches of time, figure by figure.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            mean: self.mean.worse(other.mean),
            worst: self.worst.worse(other.worst),
            lag_p99_ms: self.lag_p99_ms.max(other.lag_p99_ms),
        }
    }

    /// That the generator sent its requests too late; `None`: it did not. Then they are not those that the gate file asks
    /// for, whether they failed or not.
    pub fn late(&self, bounds: &HostBounds) -> Option<String> {
        let lag = bounds.lag.as_millis() as f64;
        (self.lag_p99_ms > lag).then(|| {
            format!(
                "the generator was late: 99 % of the requests within {:.0} ms, {lag:.0} ms are allowed (`host.lag`); {ADVICE}",
                self.lag_p99_ms
            )
        })
    }

    /// Why a failure may have been the machine's; `None`: it kept up.
    ///
    /// A window is beyond where the mean would be, and where more than [`SEND_LIMIT`] of it was lost: less than that a
    /// request may wait before it is sent. By default that is 2.7 of the 3 s without a free core, and one second without memory or given
    /// away by the hypervisor. On two cores a normal run loses up to 2 of 5 s, so at most two thirds of a window.
    pub fn overloaded(&self, bounds: &HostBounds) -> Option<String> {
        let least = SEND_LIMIT.as_secs_f64() / WINDOW.as_secs_f64() * 100.0;
        self.late(bounds).or_else(|| {
            let mean = self.mean.beyond(bounds, 0.0);
            let worst = || self.worst.beyond(bounds, least);
            let window = |found| format!("in the worst {} s, {found}", WINDOW.as_secs());
            mean.or_else(|| worst().map(window)).map(|found| format!("{found}; {ADVICE}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let calm = Lost { cpu_pressure: Some(40.0), ..Lost::default() };
        let of = |mean| HostSeen { mean, lag_p99_ms: 2.0, ..HostSeen::default() };
        assert_eq!(of(calm).overloaded(&bounds), None);
        assert!(HostSeen { lag_p99_ms: 900.0, ..of(calm) }.overloaded(&bounds).unwrap().contains("late"));
        let busy = of(Lost { cpu_pressure: Some(99.0), ..calm });
        assert!(busy.overloaded(&bounds).unwrap().contains("core"));
        let starved = of(Lost { memory_pressure: Some(60.0), ..calm });
        assert!(starved.overloaded(&bounds).unwrap().contains("memory"));
        let stolen = of(Lost { steal: Some(80.0), ..calm });
        assert!(stolen.overloaded(&bounds).unwrap().contains("hypervisor"));
    }

    /// A reading each 250 ms for 40 s; `share` says which part of each second of that time processes waited for a core.
    fn seen(share: impl Fn(f64) -> f64) -> HostSeen {
        let began = Instant::now();
        let (mut waited, mut readings) = (0.0, Vec::new());
        for n in 0..=160 {
            let at = LOOK_EVERY * n;
            let waited_us = Some(waited as u64);
            readings.push(Reading { at: began + at, waited_us, starved_us: Some(0), ticks: None });
            // In steps of a millisecond, so that a spike may begin between two readings.
            let within = (0..250).map(|ms| share(at.as_secs_f64() + f64::from(ms) / 1e3) * 1e3);
            waited += within.sum::<f64>();
        }
        HostSeen::of(&readings, &[])
    }

    #[test]
    fn spike_of_three_seconds_in_forty_is_seen() {
        let spike = seen(|at| if (20.1..23.1).contains(&at) { 1.0 } else { 0.1 });
        assert!(spike.mean.cpu_pressure.unwrap() < 20.0, "{spike:?}");
        let said = spike.overloaded(&HostBounds::default()).unwrap();
        assert!(said.contains("in the worst 3 s, processes waited for a core 9"), "{said}");
        let any = HostBounds { cpu_pressure: 100.0, ..HostBounds::default() };
        assert_eq!(spike.overloaded(&any), None);
    }

    #[test]
    fn normal_run_on_two_cores_is_not_overloaded() {
        // 40 % of five seconds, at once: what the start of an instance takes.
        let normal = seen(|at| if at % 5.0 < 2.0 { 1.0 } else { 0.0 });
        assert!(normal.worst.cpu_pressure.unwrap() > 60.0, "{normal:?}");
        assert_eq!(normal.overloaded(&HostBounds::default()), None);
    }
}
