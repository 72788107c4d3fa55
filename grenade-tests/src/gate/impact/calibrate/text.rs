//! The figures as text.

use crate::gate::impact::calibrate::{Calibration, Rates, Seen, Simulated};

impl Calibration {
    /// For a person.
    pub fn text(&self) -> String {
        let percent = |k: u32, n: u32| f64::from(k) / f64::from(n.max(1)) * 100.0;
        let rates = |name: &str, rates: &Rates| {
            let Rates { runs, pass, inconclusive, fail, fail_part: (low, high) } = *rates;
            format!(
                "  {name:<26} {runs:>5} {:>5.1} % {:>10.1} % {:>5.1} % [{:.1}, {:.1}]\n",
                percent(pass, runs),
                percent(inconclusive, runs),
                percent(fail, runs),
                low * 100.0,
                high * 100.0
            )
        };
        let mut text = format!(
            "{}: {} requests a second to each pool\nat most {} looks at each pair and simulated run, {:.0} s for each\n\
             began {} on host {}\n{}\n\n  {:<26} {:>5} {:>7} {:>12} {:>7} 95 %\n",
            self.gate,
            self.rate,
            self.looks,
            self.seconds,
            self.context.began,
            self.context.machine.name,
            self.context.machine.size(),
            "",
            "runs",
            "pass",
            "inconclusive",
            "fail"
        );
        text.push_str(&rates("idle pairs, measured", &self.idle_pairs));
        for Simulated { effect, rates: simulated } in &self.simulated {
            text.push_str(&rates(&format!("simulated: {effect}"), simulated));
        }
        text.push_str(&format!(
            "\nsmallest shift of p99 shown in 120 s with a power of 90 %: {:.1} % (median)\n\nother judges, how often \
             they see an effect\n  {:<44} {:>10} {:>10} {:>10}\n",
            self.smallest_p99_shift_percent, "", "before", "beside", "beside,"
        ));
        text.push_str(&format!("  {:<44} {:>10} {:>10} {:>10}\n", "", "and after", "a twin", "stalls"));
        for rival in &self.rivals {
            let of = |seen: Seen| format!("{} of {}", seen.seen, seen.comparisons);
            text.push_str(&format!(
                "  {:<44} {:>10} {:>10} {:>10}\n",
                rival.judge,
                of(rival.before_and_after),
                of(rival.twin),
                of(rival.stalls)
            ));
        }
        text
    }
}
