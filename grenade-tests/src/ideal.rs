//! How long an upgrade must take at the least: the demo's `ideal_seconds`, term by term. Pure.
//!
//! Nothing here is learnt from the upgrade itself. The balancer's settings and the spec are known, stop and
//! start-to-ready are measured alone before the run, the fill is measured alone; only what each instance had in flight when
//! it left rotation comes from the load, which the service cannot choose.

use std::fmt;
use std::time::Duration;

/// What the ideal is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdealTerms {
    /// How many groups of instances must go one after the other; see [`sequential_slots`].
    pub slots: u32,
    /// Failed checks in a row that take a server out of the balancer.
    pub fall: u32,
    /// Passed checks in a row that bring it back.
    pub rise: u32,
    /// From one check to the next.
    pub check_interval: Duration,
    /// How long what was in flight took on each instance that left rotation, one slot after the other, together.
    pub in_flight: Duration,
    /// From SIGTERM to the end of an instance, measured alone.
    pub stop: Duration,
    /// From the start of an instance to ready, measured alone.
    pub start_to_ready: Duration,
    /// How long the spec wants an instance to be healthy before the next.
    pub min_healthy_time: Duration,
    /// How long a start that never becomes ready is waited for, once; zero where none is expected.
    pub broken_start: Duration,
    /// How long a person is given to read what they accept; zero where nothing is to be accepted.
    pub read: Duration,
    /// The whole fill, measured alone.
    pub fill: Duration,
}

/// The ideal, and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Ideal {
    terms: IdealTerms,
    /// Each term of one slot with its name, in seconds.
    pub slot_terms: Vec<(String, f64)>,
    /// One slot, in seconds.
    pub slot_seconds: f64,
    /// All of it, in seconds.
    pub seconds: f64,
}

/// How many slots waves of these sizes take when `at_once` instances may be out: a wave ends before the next begins, so
/// each wave's last slot may be partly empty.
///
/// `at_once` of 0 would never finish and is read as 1.
pub fn sequential_slots(waves: &[u32], at_once: u32) -> u32 {
    waves.iter().map(|wave| wave.div_ceil(at_once.max(1))).sum()
}

/// Adds up.
pub fn ideal(terms: IdealTerms) -> Ideal {
    let checks = |n: u32| (terms.check_interval * n).as_secs_f64();
    let ms = terms.check_interval.as_millis();
    let slot_terms = vec![
        (format!("fall {} x {ms} ms", terms.fall), checks(terms.fall)),
        ("stop, measured alone".to_owned(), terms.stop.as_secs_f64()),
        ("start to ready, measured alone".to_owned(), terms.start_to_ready.as_secs_f64()),
        (format!("rise {} x {ms} ms", terms.rise), checks(terms.rise)),
        ("min_healthy_time".to_owned(), terms.min_healthy_time.as_secs_f64()),
    ];
    let slot_seconds: f64 = slot_terms.iter().map(|(_, seconds)| seconds).sum();
    let once = terms.in_flight + terms.broken_start + terms.read + terms.fill;
    let seconds = f64::from(terms.slots) * slot_seconds + once.as_secs_f64();
    Ideal { terms, slot_terms, slot_seconds, seconds }
}

impl fmt::Display for Ideal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, seconds) in &self.slot_terms {
            writeln!(f, "  {name:<32}{seconds:>9.3} s")?;
        }
        writeln!(f, "  {:<32}{:>9.3} s", "one slot", self.slot_seconds)?;
        let slots = f64::from(self.terms.slots) * self.slot_seconds;
        writeln!(f, "  {:<32}{slots:>9.3} s", format!("{} sequential slots", self.terms.slots))?;
        let in_flight = self.terms.in_flight.as_secs_f64();
        writeln!(f, "  {:<32}{in_flight:>9.3} s", "what was in flight on them")?;
        if !self.terms.broken_start.is_zero() {
            writeln!(f, "  {:<32}{:>9.3} s", "a broken start, borne", self.terms.broken_start.as_secs_f64())?;
        }
        if !self.terms.read.is_zero() {
            writeln!(
                f,
                "  {:<32}{:>9.3} s",
                "a person reads what they accept",
                self.terms.read.as_secs_f64()
            )?;
        }
        writeln!(f, "  {:<32}{:>9.3} s", "fill, measured alone", self.terms.fill.as_secs_f64())?;
        write!(f, "  {:<32}{:>9.3} s", "ideal", self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{IdealTerms, ideal, sequential_slots};

    fn terms() -> IdealTerms {
        IdealTerms {
            slots: 6,
            fall: 2,
            rise: 2,
            check_interval: Duration::from_millis(200),
            in_flight: Duration::from_millis(8200),
            stop: Duration::from_millis(30),
            start_to_ready: Duration::from_millis(120),
            min_healthy_time: Duration::from_millis(500),
            broken_start: Duration::ZERO,
            read: Duration::ZERO,
            fill: Duration::from_secs(3),
        }
    }

    #[test]
    fn ideal_time_is_the_sum_of_its_terms() {
        // 0.4 + 0.03 + 0.12 + 0.4 + 0.5 = 1.45 for one slot; six of them, what was in flight and the fill are 19.9.
        let ideal = ideal(terms());
        assert!((ideal.slot_seconds - 1.45).abs() < 1e-9, "{ideal}");
        assert!((ideal.seconds - 19.9).abs() < 1e-9, "{ideal}");
    }

    #[test]
    fn each_term_counts_once_a_slot_and_the_fill_once() {
        let base = ideal(terms()).seconds;
        let second = Duration::from_secs(1);
        let grown = [
            (IdealTerms { in_flight: terms().in_flight + second, ..terms() }, 1.0),
            (IdealTerms { stop: terms().stop + second, ..terms() }, 6.0),
            (IdealTerms { start_to_ready: terms().start_to_ready + second, ..terms() }, 6.0),
            (IdealTerms { min_healthy_time: terms().min_healthy_time + second, ..terms() }, 6.0),
            (IdealTerms { fall: 3, ..terms() }, 1.2),
            (IdealTerms { rise: 3, ..terms() }, 1.2),
            (IdealTerms { fill: terms().fill + second, ..terms() }, 1.0),
            (IdealTerms { broken_start: second, ..terms() }, 1.0),
            (IdealTerms { read: second, ..terms() }, 1.0),
            (IdealTerms { slots: 7, ..terms() }, 1.45),
        ];
        for (grown, by) in grown {
            let more = ideal(grown).seconds - base;
            assert!((more - by).abs() < 1e-9, "{grown:?} adds {more}, not {by}");
        }
    }

    #[test]
    fn the_table_names_every_term_and_the_sum() {
        let table = ideal(terms()).to_string();
        for name in
            ["fall 2 x 200 ms", "in flight", "stop", "start to ready", "rise", "min_healthy_time", "fill"]
        {
            assert!(table.contains(name), "{name} is missing in\n{table}");
        }
        assert!(table.ends_with("19.900 s"), "{table}");
    }

    #[test]
    fn a_wave_ends_before_the_next_begins() {
        assert_eq!(sequential_slots(&[1, 1, 4], 1), 6);
        assert_eq!(sequential_slots(&[1, 1, 4], 2), 4);
        assert_eq!(sequential_slots(&[3, 3], 2), 4);
        assert_eq!(sequential_slots(&[], 2), 0);
    }
}
