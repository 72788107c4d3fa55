//! `tidegate upgrade watch`: a frame on a terminal, lines that can be read in a pipe, until it is over.

use super::follow::follow;
use super::live::live;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show;
use crate::terminal::colour;
use crate::terminal::screen::{self, Screen};
use tidegate_proto::wire::v1::upgrade_seen::Seen;
use tidegate_proto::wire::v1::{Over, Reasons, UpgradeSeen, UpgradeSummary};

/// Watches until it is over.
pub(super) async fn watch(options: &GlobalOptions, id: String) -> Result<Outcome, Failure> {
    if !options.json && screen::can_draw() {
        return live(options, id, Screen::new(colour::stdout())).await;
    }
    let mut shown = Shown { json: options.json, reasons: None, progress: None };
    follow(options, &id, async |seen| shown.show(seen)).await
}

/// The exit status that reports an upgrade's end to a script.
pub(super) fn outcome(over: &Over) -> Outcome {
    if over.phase == "completed" { Outcome::Good } else { Outcome::Negative }
}

struct Shown {
    json: bool,
    reasons: Option<Reasons>,
    progress: Option<UpgradeSummary>,
}

impl Shown {
    /// Shows what is new; the outcome, where it is the end.
    fn show(&mut self, seen: UpgradeSeen) -> Result<Option<Outcome>, Failure> {
        let known = match &seen.seen {
            Some(Seen::Waiting(reasons)) => self.reasons.replace(reasons.clone()).as_ref() == Some(reasons),
            Some(Seen::Progress(progress)) => {
                self.progress.replace(progress.clone()).as_ref() == Some(progress)
            }
            Some(Seen::Event(_) | Seen::Over(_)) => false,
            // A newer coordinator says something that this version does not know.
            None => true,
        };
        if !known && self.json {
            show::json(&seen)?;
        } else if !known {
            show::line(line(&seen))?;
        }
        Ok(match &seen.seen {
            Some(Seen::Over(over)) => Some(outcome(over)),
            _ => None,
        })
    }
}

fn line(seen: &UpgradeSeen) -> String {
    match &seen.seen {
        Some(Seen::Event(event)) => show::event(event),
        Some(Seen::Waiting(waiting)) => {
            let more = if waiting.more > 0 { format!("; and {} more", waiting.more) } else { String::new() };
            let what: Vec<&str> = waiting.reasons.iter().map(|reason| reason.blocked_on.as_str()).collect();
            format!("    waiting on: {}{more}", what.join("; "))
        }
        Some(Seen::Progress(at)) => {
            format!("    {}: {}/{} done", show::phase_text(at), at.done, at.instances)
        }
        Some(Seen::Over(over)) => match &over.because {
            Some(because) => format!("over: {} ({because})", over.phase),
            None => format!("over: {}", over.phase),
        },
        None => String::new(),
    }
}
