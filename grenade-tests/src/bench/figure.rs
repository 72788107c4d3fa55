//! A figure with its limit, and the report of all of them.

use std::fmt;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// One measured figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// What was found.
    pub value: f64,
    /// Its unit; `x` for a ratio.
    pub unit: &'static str,
    /// The most that is allowed; none = for information.
    pub limit: Option<f64>,
    /// Whether the limit is kept.
    pub kept: bool,
    /// How it came about: the two sides of a ratio, the number of samples.
    pub how: String,
}

impl Figure {
    /// A figure with the most that is allowed.
    pub fn limited(
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        limit: f64,
        how: impl Into<String>,
    ) -> Self {
        // What is not a number keeps no limit.
        let kept = value <= limit;
        Self { name: name.into(), value, unit, limit: Some(limit), kept, how: how.into() }
    }

    /// A figure without a limit.
    pub fn unlimited(
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        how: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), value, unit, limit: None, kept: true, how: how.into() }
    }
}

impl fmt::Display for Figure {
    /// One line of the table: figure, limit, measured, verdict, how.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.limit, self.kept) {
            (None, _) => "",
            (Some(_), true) => "ok",
            (Some(_), false) => "MISSED",
        };
        let limit = self.limit.map_or_else(String::new, number);
        let value = format!("{} {}", number(self.value), self.unit);
        line(f, [&self.name, &limit, &value, verdict, &self.how])
    }
}

fn line(f: &mut fmt::Formatter<'_>, [name, limit, value, verdict, how]: [&str; 5]) -> fmt::Result {
    let line = format!("{name:<58} {limit:>8} {value:>14}  {verdict:<6}  {how}");
    f.write_str(line.trim_end())
}

fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Everything that one run measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The number of cores that the system gives us.
    cores: usize,
    /// The load average of the last minute when it began: what else the machine did.
    load_before: String,
    parts: Vec<Measured>,
}

#[derive(Debug, Clone, Serialize)]
struct Measured {
    part: &'static str,
    figures: Vec<Figure>,
    /// How many percent of the CPU the host of this virtual machine took meanwhile; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    stolen_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    could_not: Option<String>,
}

impl Report {
    /// A report without figures yet.
    pub fn begin() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load_before: load.split_whitespace().next().unwrap_or("unknown").to_owned(),
            parts: Vec::new(),
        }
    }

    /// Adds what a part measured, and how many percent of the CPU the host took meanwhile.
    pub fn add(&mut self, part: &'static str, figures: Vec<Figure>, stolen_percent: Option<f64>) {
        self.parts.push(Measured { part, figures, stolen_percent, could_not: None });
    }

    /// A part could not be measured.
    pub fn could_not(&mut self, part: &'static str, why: String) {
        self.parts.push(Measured { part, figures: Vec::new(), stolen_percent: None, could_not: Some(why) });
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.parts.iter().flat_map(|part| &part.figures)
    }

    /// How many figures have a limit.
    fn limits(&self) -> usize {
        self.figures().filter(|figure| figure.limit.is_some()).count()
    }

    /// How many limits are missed.
    fn missed(&self) -> usize {
        self.figures().filter(|figure| !figure.kept).count()
    }

    /// Whether every part was measured and every limit is kept.
    pub fn is_kept(&self) -> bool {
        self.missed() == 0 && self.parts.iter().all(|part| part.could_not.is_none())
    }

    /// All of it, for programs.
    ///
    /// # Errors
    /// Never, as far as is known: its fields are texts and numbers.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Writes `report.json`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join("report.json");
        std::fs::write(&path, format!("{}\n", self.json()?))
            .with_context(|| format!("could not write {}", path.display()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} cores, load average {} when it began\n", self.cores, self.load_before)?;
        line(f, ["figure", "at most", "measured", "", "how"])?;
        for part in &self.parts {
            writeln!(f)?;
            if let Some(why) = &part.could_not {
                writeln!(f, "{} could not be measured: {why}", part.part)?;
            }
            part.figures.iter().try_for_each(|figure| write!(f, "\n{figure}"))?;
            if let Some(stolen) = part.stolen_percent {
                write!(f, "\nmeanwhile the host took {stolen:.1} % of the CPU")?;
            }
        }
        write!(f, "\n\n{} of {} limits are kept", self.limits() - self.missed(), self.limits())?;
        match self.parts.iter().filter(|part| part.could_not.is_some()).count() {
            0 => Ok(()),
            unmeasured => write!(f, "; {unmeasured} parts could not be measured"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Figure, Report};

    #[test]
    fn figure_keeps_its_limit_up_to_it_and_not_without_a_number() {
        assert!(Figure::limited("a", 1.2, "x", 1.2, "").kept);
        let bad = [Figure::limited("b", 1.21, "x", 1.2, ""), Figure::limited("c", f64::NAN, "x", 1.2, "")];
        let mut report = Report::begin();
        report.add("part", bad.into(), None);
        report.add("other", vec![Figure::unlimited("d", 7.0, "ms", "")], None);
        assert_eq!((report.limits(), report.missed(), report.is_kept()), (2, 2, false));
    }

    #[test]
    fn a_part_that_could_not_be_measured_is_no_success() {
        let mut report = Report::begin();
        report.add("part", vec![Figure::limited("a", 1.0, "x", 1.2, "how")], Some(2.34));
        assert!(report.is_kept());
        report.could_not("other", "no etcd".to_owned());
        assert!(!report.is_kept());
        let table = report.to_string();
        assert!(
            table.contains("other could not be measured: no etcd") && table.contains("1 of 1"),
            "{table}"
        );
        assert!(table.contains("the host took 2.3 % of the CPU"), "{table}");
    }
}
