//! The verbs that look at upgrades.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::fleet;
use crate::cli::options::GlobalOptions;
use crate::cli::show::{self, Page};
use tidegate_proto::Digest;
use tidegate_proto::wire::v1::{
    ExplainUpgradeReply, ExplainUpgradeRequest, ListUpgradesRequest, UpgradeCertificateRequest,
    UpgradeStatusReply, UpgradeStatusRequest, UpgradeSummary,
};

/// `tidegate upgrade list`: page after page.
pub(super) async fn list(options: &GlobalOptions, service: String, active: bool) -> Result<Outcome, Failure> {
    let mut client = options.client().await?;
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
    upgrades.sort_by_key(|upgrade| upgrade.at);
    if options.json {
        upgrades.iter().try_for_each(show::json)?;
        return Ok(Outcome::Good);
    }
    let rows = upgrades.iter().map(|upgrade| {
        vec![
            upgrade.id.clone(),
            upgrade.service.clone(),
            format!("{} -> {}", upgrade.from, upgrade.to),
            show::phase_text(upgrade),
            format!("{}/{}", upgrade.done, upgrade.instances),
            upgrade.by.clone(),
            show::time(upgrade.at),
        ]
    });
    show::table(&["ID", "SERVICE", "VERSIONS", "PHASE", "DONE", "BY", "SINCE"], rows)?;
    Ok(Outcome::Good)
}

/// `tidegate upgrade status`.
pub(super) async fn status(
    options: &GlobalOptions,
    id: String,
    max_instances: u32,
) -> Result<Outcome, Failure> {
    let request = UpgradeStatusRequest { id, max_instances };
    let reply = options.client().await?.upgrade_status(request).await?.into_inner();
    if options.json {
        show::json(&reply)?
    } else {
        described(&reply).print()?
    }
    Ok(Outcome::Good)
}

fn described(reply: &UpgradeStatusReply) -> Page {
    let mut page = Page::default();
    if let Some(upgrade) = &reply.upgrade {
        heading(&mut page, upgrade);
    }
    page.lines(reply.because.as_ref().map(|because| format!("because   {because}")));
    page.lines(reply.spread.as_ref().map(|spread| format!("running   {}", show::spread(spread))));
    if !reply.timetable.is_empty() {
        let times: Vec<_> =
            reply.timetable.iter().map(|t| format!("{} {}", t.phase, show::span(t.ms))).collect();
        page.line(format!("took      {}", times.join(", ")));
    }
    for failure in &reply.failed {
        page.line(format!("failed    {} in wave {}: {}", failure.node, failure.wave, failure.reason));
    }
    if reply.more_failed > 0 {
        page.line(format!("failed    {} more: show them with --instances", reply.more_failed));
    }
    if !reply.waiting.is_empty() {
        page.line("waiting on");
        show::reasons(&mut page, &reply.waiting, reply.more_waiting);
    }
    if !reply.instances.is_empty() {
        page.line("");
        page.table(&fleet::HEADER, reply.instances.iter().map(fleet::row));
        page.lines(reply.instances.iter().filter_map(fleet::under_way));
    }
    if reply.more_instances > 0 {
        page.line(format!("and {} more: tidegate fleet list shows them all", reply.more_instances));
    }
    page
}

fn heading(page: &mut Page, upgrade: &UpgradeSummary) {
    let (service, from, to, release) = (&upgrade.service, upgrade.from, upgrade.to, &upgrade.release);
    page.lines([
        format!("upgrade   {}", upgrade.id),
        format!("versions  {service} {from} -> {to} ({release})"),
        format!("phase     {}", show::phase_text(upgrade)),
        format!("done      {}/{}", upgrade.done, upgrade.instances),
        format!("by        {} at {}", upgrade.by, show::time(upgrade.at)),
    ]);
    left_in_place(page, upgrade);
}

fn left_in_place(page: &mut Page, upgrade: &UpgradeSummary) {
    page.lines(upgrade.left_in_place.iter().map(|left| format!("left in place in the database: {left}")));
}

/// `tidegate upgrade explain`.
pub(super) async fn explain(options: &GlobalOptions, id: String) -> Result<Outcome, Failure> {
    let reply = options.client().await?.explain_upgrade(ExplainUpgradeRequest { id }).await?.into_inner();
    if options.json {
        show::json(&reply)?
    } else {
        explained(&reply).print()?
    }
    Ok(Outcome::Good)
}

fn explained(reply: &ExplainUpgradeReply) -> Page {
    let mut page = Page::default();
    let upgrade = reply.upgrade.as_ref();
    let over = upgrade.is_some_and(|upgrade| upgrade.over);
    let state = upgrade.map(|upgrade| match upgrade.paused || over {
        true => format!("{}: {}", upgrade.id, show::phase_text(upgrade)),
        false => format!("{}: phase {}", upgrade.id, show::phase_text(upgrade)),
    });
    let state = state.unwrap_or_default();
    if !reply.reasons.is_empty() {
        let at = reply.at.map(|at| format!(" (as of {})", show::time(at))).unwrap_or_default();
        page.line(format!("{state}, waiting on{at}:"));
        show::reasons(&mut page, &reply.reasons, reply.more);
        page.lines(reply.leaving.iter().filter_map(fleet::under_way));
    } else if over {
        page.line(format!("{state} (over)"));
        upgrade.iter().for_each(|upgrade| left_in_place(&mut page, upgrade));
    } else if let Some(paused) = upgrade.filter(|upgrade| upgrade.paused) {
        // Reasons are written a moment after the pause.
        page.line(format!("{state}; resume it with `tidegate upgrade resume {}`", paused.id));
    } else {
        let moving = if reply.trouble.is_none() { ", in progress" } else { "" };
        page.line(format!("{state}{moving}"));
    }
    page.lines(reply.trouble.as_ref().map(|trouble| format!("no step is taken: {trouble}")));
    page
}

/// `tidegate upgrade certificate`: its text as it was stored, byte for byte, with its digest.
pub(super) async fn certificate(options: &GlobalOptions, id: String) -> Result<Outcome, Failure> {
    let mut parts =
        options.client().await?.upgrade_certificate(UpgradeCertificateRequest { id }).await?.into_inner();
    let mut text = String::new();
    while let Some(part) = parts.message().await? {
        text.push_str(&part.text);
    }
    show::raw(&format!("{{\"certificate\":{text},\"digest\":\"{}\"}}", Digest::of(text.as_bytes())))?;
    Ok(Outcome::Good)
}
