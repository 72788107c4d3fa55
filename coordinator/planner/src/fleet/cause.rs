//! Why an instance is not in service, in a few words for people.

use super::instance::{Instance, Known};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};

/// The longest text of an agent in a cause, in characters.
const LONGEST: usize = 120;

/// The same of the last answers: of the probe and two addresses.
const LONGEST_ANSWERS: usize = 360;

impl Instance {
    /// Why it is not in service; none where it is.
    pub fn why_out(&self) -> Option<String> {
        if self.is_in_service() {
            return None;
        }
        let Some(report) = &self.report else { return Some("no report".to_owned()) };
        Some(match () {
            () if !self.unreadable.is_empty() => "a record of it cannot be read".to_owned(),
            () if self.maintained => "node cordoned".to_owned(),
            () if report.rotation == Rotation::Maintenance => "a person's disable-file".to_owned(),
            () => troubled(report).unwrap_or_else(|| {
                let word = self.ordered().unwrap_or_else(|| observed(report, self.known()));
                let held = report.balancers.iter().filter(|heard| heard.is_by_hand());
                let held: String = held.map(|heard| short(&format!("; {heard}"))).collect();
                let unreachable = report.balancer_unreachable.as_ref();
                let more = unreachable.map(|why| short(&format!("; a balancer could not be asked: {why}")));
                let answers =
                    report.answers.as_ref().map(|said| within(LONGEST_ANSWERS, &format!("; {said}")));
                [word.to_owned(), held, more.unwrap_or_default(), answers.unwrap_or_default()].concat()
            }),
        })
    }

    /// Whether its agent says what it answers, because it has not been well for some seconds.
    pub fn tells_answers(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.answers.is_some())
    }

    /// What an order does with it.
    fn ordered(&self) -> Option<&'static str> {
        let directive = self.directive.as_ref().filter(|_| self.is_still_out_by_order())?;
        Some(match &directive.disposition {
            Disposition::Drain if self.is_drained() => "drained",
            Disposition::Drain => "being drained",
            Disposition::Replace { .. } => "being replaced",
            Disposition::Stop => "being stopped",
            Disposition::Serve { .. } => "going back into rotation",
        })
    }
}

/// What its agent says went wrong.
fn troubled(report: &Report) -> Option<String> {
    match &report.step {
        Step::Failed { at, reason } => Some(short(&format!("failed {at}: {reason}"))),
        Step::Refused { reason } => Some(short(&format!("admission refused: {reason}"))),
        _ => None,
    }
}

fn observed(report: &Report, known: Known) -> &'static str {
    match (&report.step, report.rotation) {
        (Step::Stopped | Step::Starting, _) => "service not running",
        (Step::Replacing, _) => "being replaced",
        (Step::Verifying, _) if report.health != Health::Unhealthy => "being verified",
        (_, Rotation::Out) if report.abilities.asks_balancers() => "out of rotation",
        (_, Rotation::Out) => "its health URL refuses (no balancer is asked)",
        (_, Rotation::Leaving) => "leaving rotation",
        _ if report.health == Health::Unhealthy => "unhealthy: readiness URL fails",
        _ if report.health == Health::Unknown => "health unknown",
        (_, Rotation::Unknown) => "health URL does not answer 200",
        (_, Rotation::Returning) => "not every balancer is known to send it requests",
        _ if known == Known::Unknown => "version unknown: the probe failed",
        _ => "not verified yet",
    }
}

fn short(text: &str) -> String {
    within(LONGEST, text)
}

fn within(longest: usize, text: &str) -> String {
    let mut kept: String = text.chars().take(longest).collect();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}
