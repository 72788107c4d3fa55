//! The verbs that look at upgrades.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::reach::Reach;
use crate::cli::{fleet, show};
use tidegate_proto::Digest;
use tidegate_proto::wire::v1::{
    ExplainUpgradeReply, ExplainUpgradeRequest, ListUpgradesRequest, UpgradeCertificateRequest,
    UpgradeHistoryRequest, UpgradeStatusReply, UpgradeStatusRequest, UpgradeSummary,
};

/// `tidegate upgrade list`: page after page.
pub async fn list(reach: &Reach, service: String, active: bool) -> Result<Outcome, Failure> {
    let mut client = reach.client().await?;
    let mut upgrades: Vec<UpgradeSummary> = Vec::new();
    loop {
        let after = upgrades.last().map(|upgrade| upgrade.id.clone()).unwrap_or_default();
        let request = ListUpgradesRequest { service: service.clone(), active, after, limit: 1000 };
        let page = client.list_upgrades(request).await?.into_inner();
        upgrades.extend(page.upgrades);
        if !page.more {
            break;
        }
    }
    if reach.json {
        upgrades.iter().try_for_each(show::json)?;
        return Ok(Outcome::Good);
    }
    let rows = upgrades.iter().map(|upgrade| {
        vec![
            upgrade.id.clone(),
            upgrade.service.clone(),
            format!("{} -> {}", upgrade.from, upgrade.to),
            show::stands(upgrade),
            format!("{}/{}", upgrade.done, upgrade.instances),
            upgrade.by.clone(),
            show::time(upgrade.at),
        ]
    });
    show::text(&show::table(&["ID", "SERVICE", "HOP", "STANDS", "DONE", "BY", "SINCE"], rows))?;
    Ok(Outcome::Good)
}

/// `tidegate upgrade status`.
pub async fn status(reach: &Reach, id: String, max_instances: u32) -> Result<Outcome, Failure> {
    let request = UpgradeStatusRequest { id, max_instances };
    let reply = reach.client().await?.upgrade_status(request).await?.into_inner();
    if reach.json {
        show::json(&reply)?
    } else {
        show::text(&described(&reply))?
    }
    Ok(Outcome::Good)
}

fn described(reply: &UpgradeStatusReply) -> String {
    let mut text = reply.upgrade.as_ref().map(heading).unwrap_or_default();
    if let Some(because) = &reply.because {
        text.push_str(&format!("because   {because}\n"));
    }
    if let Some(spread) = &reply.spread {
        text.push_str(&format!("versions  {}\n", show::spread(spread)));
    }
    if !reply.timetable.is_empty() {
        let times: Vec<_> =
            reply.timetable.iter().map(|t| format!("{} {}", t.phase, show::span(t.ms))).collect();
        text.push_str(&format!("took      {}\n", times.join(", ")));
    }
    for failure in &reply.failed {
        text.push_str(&format!("failed    {} in wave {}: {}\n", failure.node, failure.wave, failure.reason));
    }
    if reply.more_failed > 0 {
        text.push_str(&format!("failed    {} more: show them with --instances\n", reply.more_failed));
    }
    if !reply.waiting.is_empty() {
        text.push_str(&format!("waits for\n{}", show::reasons(&reply.waiting, reply.more_waiting)));
    }
    if !reply.instances.is_empty() {
        let header = ["INSTANCE", "VERSION", "RELEASE", "ROTATION", "HEALTH", "STEP", "WAVE"];
        text.push_str(&format!("\n{}\n", show::table(&header, reply.instances.iter().map(fleet::row))));
    }
    if reply.more_instances > 0 {
        text.push_str(&format!("and {} more: tidegate fleet list shows them all\n", reply.more_instances));
    }
    text
}

fn heading(upgrade: &UpgradeSummary) -> String {
    let text = format!(
        "upgrade   {}\nhop       {} {} -> {} ({})\nstands    {}\ndone      {}/{}\nby        {} at {}\n",
        upgrade.id,
        upgrade.service,
        upgrade.from,
        upgrade.to,
        upgrade.release,
        show::stands(upgrade),
        upgrade.done,
        upgrade.instances,
        upgrade.by,
        show::time(upgrade.at),
    );
    text + &left_in_place(upgrade)
}

fn left_in_place(upgrade: &UpgradeSummary) -> String {
    upgrade.left_in_place.iter().map(|left| format!("left in place in the database: {left}\n")).collect()
}

/// `tidegate upgrade explain`.
pub async fn explain(reach: &Reach, id: String) -> Result<Outcome, Failure> {
    let reply = reach.client().await?.explain_upgrade(ExplainUpgradeRequest { id }).await?.into_inner();
    if reach.json {
        show::json(&reply)?
    } else {
        show::text(&explained(&reply))?
    }
    Ok(Outcome::Good)
}

fn explained(reply: &ExplainUpgradeReply) -> String {
    let mut text = String::new();
    let over = reply.upgrade.as_ref().is_some_and(|upgrade| upgrade.over);
    if let Some(upgrade) = &reply.upgrade {
        let how = if upgrade.paused && !over { "is" } else { "stands in" };
        text.push_str(&format!("{} {how} {}\n", upgrade.id, show::stands(upgrade)));
    }
    if let Some(trouble) = &reply.trouble {
        text.push_str(&format!("nothing acts: {trouble}\n"));
    }
    if !reply.reasons.is_empty() {
        let at = reply.at.map(|at| format!(" (as of {})", show::time(at))).unwrap_or_default();
        text.push_str(&format!("it waits for{at}\n{}", show::reasons(&reply.reasons, reply.more)));
    } else if over {
        text.push_str("it is over and waits for nothing\n");
        text.push_str(&reply.upgrade.as_ref().map(left_in_place).unwrap_or_default());
    } else if let Some(held) = reply.upgrade.as_ref().filter(|upgrade| upgrade.paused) {
        // Reasons are written a moment after the pause.
        text.push_str(&format!("`tidegate upgrade resume {}` lets it go on\n", held.id));
    } else if reply.trouble.is_none() {
        text.push_str("it waits for nothing: it moves\n");
    }
    text
}

/// `tidegate upgrade history`.
pub async fn history(reach: &Reach, id: String) -> Result<Outcome, Failure> {
    let mut events = reach.client().await?.upgrade_history(UpgradeHistoryRequest { id }).await?.into_inner();
    while let Some(event) = events.message().await? {
        if reach.json { show::json(&event)? } else { show::text(&show::event(&event))? }
    }
    Ok(Outcome::Good)
}

/// `tidegate upgrade certificate`: its text as it was stored, byte for byte, with its digest.
pub async fn certificate(reach: &Reach, id: String) -> Result<Outcome, Failure> {
    let mut parts =
        reach.client().await?.upgrade_certificate(UpgradeCertificateRequest { id }).await?.into_inner();
    let mut text = String::new();
    while let Some(part) = parts.message().await? {
        text.push_str(&part.text);
    }
    show::text(&format!("{{\"certificate\":{text},\"digest\":\"{}\"}}", Digest::of(text.as_bytes())))?;
    Ok(Outcome::Good)
}
