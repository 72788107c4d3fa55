//! JUnit XML: a test case for each check, so that a build shows which of them failed.

use std::fmt::Write;

use crate::gate::exit::OnInconclusive;
use crate::gate::report::{Died, GateReport};
use crate::gate::verdict::{Check, Word};

/// The document. An inconclusive check is an error, which builds distinguish from a failure; or what it is to count as.
pub fn xml(report: &GateReport, on_inconclusive: Option<OnInconclusive>) -> String {
    let checks: Vec<&Check> = report.tags.iter().flat_map(|tag| &tag.checks).collect();
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let inconclusive = count(Word::Inconclusive);
    let counted_as = |what| if on_inconclusive == what { inconclusive } else { 0 };
    let element = match on_inconclusive {
        None => "error type=\"inconclusive\"",
        Some(OnInconclusive::Fail) => "failure type=\"inconclusive\"",
        Some(OnInconclusive::Pass) => "skipped",
    };
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" \
         errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">\n",
        escaped(&report.gate),
        checks.len() + report.not_decided.len(),
        count(Word::Fail) + counted_as(Some(OnInconclusive::Fail)),
        counted_as(None),
        report.not_decided.len() + counted_as(Some(OnInconclusive::Pass)),
        report.context.seconds
    );
    for tag in &report.tags {
        for check in &tag.checks {
            // Writing to a string cannot fail.
            let _ = write!(
                xml,
                "    <testcase classname=\"{}.{}\" name=\"{}\"",
                escaped(&report.gate),
                tag.tag.word(),
                escaped(&check.check)
            );
            let found = escaped(&check.found);
            let _ = match check.verdict {
                Word::Pass => writeln!(xml, "><system-out>{found}</system-out></testcase>"),
                Word::Fail => writeln!(xml, "><failure message=\"{found}\"/></testcase>"),
                Word::Inconclusive => writeln!(xml, "><{element} message=\"{found}\"/></testcase>"),
            };
        }
    }
    for tag in &report.not_decided {
        let _ = writeln!(
            xml,
            "    <testcase classname=\"{}.{}\" name=\"the tag as a whole\"><skipped message=\"{}\"/></testcase>",
            escaped(&report.gate),
            tag.word(),
            report.why_not_decided()
        );
    }
    if !report.deaths.is_empty() {
        let died = |died: &Died| format!("{}: {}\n{}\n", died.part, died.death.words(), died.death.log);
        let text: String = report.deaths.iter().map(died).collect();
        let _ = writeln!(xml, "    <system-err>{}</system-err>", lines(&text));
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// The document of a run that came to no verdict, and why.
pub fn not_run(gate: &str, why: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{gate}\" tests=\"1\" failures=\"0\" \
         errors=\"1\" skipped=\"0\">\n    <testcase classname=\"{gate}\" name=\"the gate is run to a verdict\"><error \
         type=\"not-run\" message=\"{}\"/></testcase>\n  </testsuite>\n</testsuites>\n",
        escaped(why),
        gate = escaped(gate)
    )
}

/// Escaped, with its lines kept.
pub fn lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

/// As text or attribute of XML and HTML; characters that XML does not allow are shown as `?`.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}
