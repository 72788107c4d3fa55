//! Why an instance is not in service, in a few words for people.

use super::instance::Instance;
use crate::spread::Known;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};

/// The longest text of an agent in a cause, in characters.
const LONGEST: usize = 120;

/// How many balancers a cause names.
const HELD: usize = 2;

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
            () if self.cordoned => "node cordoned".to_owned(),
            () if report.rotation == Rotation::Maintenance => "a person's disable-file".to_owned(),
            () => troubled(report).unwrap_or_else(|| {
                let word = self.word(report);
                let held = report.balancers.iter().filter(|balancer| balancer.is_by_hand());
                // Without its sessions: this text is stored, and they change all the time.
                let held =
                    held.map(|balancer| short(&format!("; {}: {}", balancer.balancer, balancer.status)));
                let held: String = held.take(HELD).collect();
                let unreachable = report.balancer_unreachable.as_ref();
                let more = unreachable.map(|why| short(&format!("; a balancer could not be asked: {why}")));
                let answers =
                    report.answers.as_ref().map(|said| within(LONGEST_ANSWERS, &format!("; {said}")));
                [word, held, more.unwrap_or_default(), answers.unwrap_or_default()].concat()
            }),
        })
    }

    /// Whether its agent says what it answers, because it has not been well for some seconds.
    pub fn reports_answers(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.answers.is_some())
    }

    /// What it does, or what is done with it.
    fn word(&self, report: &Report) -> String {
        // Where nothing runs, that is the cause, however it left rotation.
        let runs = report.step != Step::Stopped;
        let settled = self.settled().filter(|_| runs && report.rotation == Rotation::Out);
        match (self.ordered(), settled) {
            (Some(word), Some(settled)) if self.is_drained() => format!("{word} ({settled})"),
            (Some(word), _) => word.to_owned(),
            (None, Some(settled)) => settled,
            (None, None) => observed(report, self.known()).to_owned(),
        }
    }

    /// How it left rotation where no balancer is asked: by time alone.
    pub fn settled(&self) -> Option<String> {
        let abilities = &self.report.as_ref().filter(|report| !report.abilities.asks_balancers())?.abilities;
        let asked = self.directive.as_ref().map(|directive| directive.drain.settle);
        let length = asked.max(abilities.settle);
        let settled = length.map_or_else(|| "settled".to_owned(), |length| format!("settled for {length}"));
        Some(format!("{settled}; no balancer was asked"))
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
        (_, Rotation::Out) => "out of rotation",
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
