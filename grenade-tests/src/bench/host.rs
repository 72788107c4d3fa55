//! What the host of a virtual machine takes of its CPU: others' work, for which nothing in the machine can be blamed.

/// The machine's CPU time so far, in the system's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// Until now; none where the system does not report it.
    pub fn now() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// `cpu user nice system idle iowait irq softirq steal …`; what follows is counted in the first two already.
    fn read(stat: &str) -> Option<Self> {
        let mut words = stat.lines().next()?.split_whitespace();
        words.next().filter(|word| *word == "cpu")?;
        let ticks = words.take(8).map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// How many percent of the CPU the host took since `before`.
    pub fn stolen_percent_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(self.stolen.checked_sub(before.stolen)? as f64 / all as f64 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn a_share_of_what_passed_between() {
        let before = Ticks::read("cpu  100 0 50 800 10 0 0 40 90 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(before, Ticks { all: 1000, stolen: 40 });
        let after = Ticks::read("cpu 150 0 50 830 10 0 0 60 95 0").unwrap();
        assert_eq!(after.stolen_percent_since(before), Some(20.0));
        assert_eq!(before.stolen_percent_since(before), None);
        for unknown in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu 1 2 3 4 5 6 7 x"] {
            assert_eq!(Ticks::read(unknown), None, "{unknown}");
        }
        assert!(Ticks::now().is_some(), "this system does not report it");
    }
}
