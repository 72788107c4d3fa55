//! `tidegate upgrade wait`: for scripts, which go on once an upgrade needs a person, is paused, or is over.

use super::follow::follow;
use super::watch::outcome;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show;
use serde::Serialize;
use std::time::Duration;
use tidegate_proto::Span;
use tidegate_proto::wire::v1::upgrade_seen::Seen;
use tidegate_proto::wire::v1::{ExplainUpgradeRequest, Reason};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum For {
    /// It needs a person's approval.
    Approval,
    /// It is paused.
    Paused,
    /// It is over.
    End,
}

/// Reasons are written a moment after what ends them: one that is still there after this is no former one.
const SETTLED: Duration = Duration::from_secs(1);

/// Waits, within a limit where one is given.
pub(super) async fn wait(
    options: &GlobalOptions,
    id: String,
    what: For,
    limit: Option<Span>,
) -> Result<Outcome, Failure> {
    let waits = until(options, &id, what);
    let Some(limit) = limit else { return waits.await };
    let late = || {
        format!("upgrade {id}: gave up after {limit} of waiting until {}; the upgrade goes on", words(what))
    };
    tokio::time::timeout(limit.into(), waits).await.unwrap_or_else(|_| Err(Failure::failed(late())))
}

async fn until(options: &GlobalOptions, id: &str, what: For) -> Result<Outcome, Failure> {
    follow(options, id, async |seen| match seen.seen {
        Some(Seen::Over(over)) if what == For::End => {
            say(options, &over, format!("{id} is over: {}", over.phase))?;
            Ok(Some(outcome(&over)))
        }
        Some(Seen::Over(over)) => {
            let because = over.because.map_or_else(String::new, |because| format!(": {because}"));
            let sought = words(what);
            Err(Failure::failed(format!("upgrade {id} is over ({}{because}), not: {sought}", over.phase)))
        }
        Some(Seen::Progress(at)) if what == For::Paused && at.paused => {
            say(options, &at, format!("{id} is {}", show::phase_text(&at)))?;
            Ok(Some(Outcome::Good))
        }
        Some(Seen::Waiting(waiting)) if what == For::Approval && waiting.reasons.iter().any(asks) => {
            tokio::time::sleep(SETTLED).await;
            let request = ExplainUpgradeRequest { id: id.to_owned() };
            let reply = options.client().await?.explain_upgrade(request).await?.into_inner();
            let Some(reason) = reply.reasons.iter().find(|reason| asks(reason)) else { return Ok(None) };
            say(options, reason, format!("{id}: {} ({})", reason.blocked_on, reason.next_step()))?;
            Ok(Some(Outcome::Good))
        }
        _ => Ok(None),
    })
    .await
}

fn say(options: &GlobalOptions, value: &impl Serialize, text: String) -> Result<(), Failure> {
    if options.json { show::json(value) } else { show::line(text) }
}

/// Whether a person's approval ends it.
fn asks(reason: &Reason) -> bool {
    reason.next_step().starts_with("tidegate upgrade approve")
}

fn words(what: For) -> &'static str {
    match what {
        For::Approval => "it needs an approval",
        For::Paused => "it is paused",
        For::End => "it is over",
    }
}
