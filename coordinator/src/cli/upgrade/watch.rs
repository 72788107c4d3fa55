//! `tidegate upgrade watch`: lines that can be read in a pipe, until it is over. A coordinator that goes away is
//! waited for; what was shown is not shown again.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::reach::Reach;
use crate::cli::show;
use std::time::{Duration, Instant};
use tidegate_proto::wire::v1::upgrade_seen::Seen;
use tidegate_proto::wire::v1::{Over, Reasons, UpgradeSeen, UpgradeSummary, WatchUpgradeRequest};

/// How long a coordinator may be away (longer than the longest leader TTL that anybody should choose).
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked again meanwhile.
const PAUSE: Duration = Duration::from_millis(500);

/// Watches until it is over.
pub async fn watch(reach: &Reach, id: String) -> Result<Outcome, Failure> {
    let mut shown = Shown { json: reach.json, events: 0, reasons: None, progress: None };
    let mut away: Option<Instant> = None;
    loop {
        let failure = match shown.follow(reach, &id, &mut away).await {
            Ok(over) if over.phase == "completed" => return Ok(Outcome::Good),
            Ok(_) => return Ok(Outcome::Negative),
            Err(failure) => failure,
        };
        let began = away.get_or_insert_with(Instant::now);
        if !failure.is_away() || shown.events == 0 || began.elapsed() > PATIENCE {
            return Err(failure);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

struct Shown {
    json: bool,
    events: usize,
    reasons: Option<Reasons>,
    progress: Option<UpgradeSummary>,
}

impl Shown {
    async fn follow(&mut self, reach: &Reach, id: &str, away: &mut Option<Instant>) -> Result<Over, Failure> {
        let request = WatchUpgradeRequest { id: id.to_owned() };
        let mut stream = reach.client().await?.watch_upgrade(request).await?.into_inner();
        let mut skip = self.events;
        while let Some(seen) = stream.message().await? {
            *away = None;
            if skip > 0 && matches!(seen.seen, Some(Seen::Event(_))) {
                skip -= 1;
            } else if let Some(over) = self.show(seen)? {
                return Ok(over);
            }
        }
        // The coordinator ends its streams when it ends.
        Err(tonic::Status::unavailable("the coordinator has gone away").into())
    }

    /// Shows what is new; the end, where it is that.
    fn show(&mut self, seen: UpgradeSeen) -> Result<Option<Over>, Failure> {
        let known = match &seen.seen {
            Some(Seen::Waiting(reasons)) => self.reasons.replace(reasons.clone()).as_ref() == Some(reasons),
            Some(Seen::Progress(progress)) => {
                self.progress.replace(progress.clone()).as_ref() == Some(progress)
            }
            Some(Seen::Event(_)) => {
                self.events += 1;
                false
            }
            Some(Seen::Over(_)) => false,
            // A newer coordinator says something that this version does not know.
            None => true,
        };
        if !known && self.json {
            show::json(&seen)?;
        } else if !known {
            show::text(&line(&seen))?;
        }
        Ok(match seen.seen {
            Some(Seen::Over(over)) => Some(over),
            _ => None,
        })
    }
}

fn line(seen: &UpgradeSeen) -> String {
    match &seen.seen {
        Some(Seen::Event(event)) => show::event(event),
        Some(Seen::Waiting(waiting)) => {
            let more = if waiting.more > 0 { format!("; and {} more", waiting.more) } else { String::new() };
            let what: Vec<&str> = waiting.reasons.iter().map(|reason| reason.what.as_str()).collect();
            format!("    waits for: {}{more}", what.join("; "))
        }
        Some(Seen::Progress(at)) => format!("    {}: {}/{} done", show::stands(at), at.done, at.instances),
        Some(Seen::Over(over)) => match &over.because {
            Some(because) => format!("over: {} ({because})", over.phase),
            None => format!("over: {}", over.phase),
        },
        None => String::new(),
    }
}
