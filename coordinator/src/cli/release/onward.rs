//! From region to region: what is deployed in one is created in the next, which decides by its own gates.

use super::look::{get, read};
use super::regions::Regions;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::reach::Reach;
use crate::cli::show;
use crate::operation::release::view::Release;
use serde_json::{Value as Json, json};
use std::path::Path;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::wire::v1::CreateReleaseRequest;

/// Where a release goes.
pub struct Way<'a> {
    /// The file of regions.
    pub regions: &'a Path,
    /// The region that it was proved in.
    pub from: &'a str,
    /// The next one.
    pub to: &'a str,
    /// Its revision in the first. Absent = what is deployed there.
    pub revision: Option<u64>,
}

/// Creates in one region what is deployed in another. Asked twice, it is created once.
pub async fn promote(reach: &Reach, stream: String, way: Way<'_>) -> Result<Outcome, Failure> {
    let Way { from, to, .. } = way;
    if from == to {
        return Err(Failure::usage(format!("--from and --to are both {to}; nothing was changed")));
    }
    let regions = Regions::read(way.regions)?;
    let (source, target) = (regions.reach(from, reach)?, regions.reach(to, reach)?);
    let text = get(&source, stream.clone(), way.revision.map(|revision| revision.to_string())).await?;
    let release: Release = read(&text)?;
    let (revision, tag) = (release.revision, release.tag.clone());
    if release.status != ReleaseStatus::Deployed {
        return Err(Failure::refused(format!(
            "revision {revision} ({tag}) is {} in {from}, and what is promoted is what is deployed there; nothing was changed",
            release.status
        )));
    }
    let message = CreateReleaseRequest { stream, body: body(&release).to_string(), who: reach.who() };
    let reply = target.releases().await?.create_release(message).await?.into_inner();
    for warning in &reply.warnings {
        eprintln!("warning: {warning}");
    }
    let created: Release = read(&reply.release)?;
    if reach.json {
        show::json(&json!({
            "from": { "region": from, "release": release },
            "to": { "region": to, "release": created },
        }))?;
        return Ok(Outcome::Good);
    }
    let hint = match created.status {
        ReleaseStatus::Pending => {
            format!("; `tidegate release explain {}` there says what for", created.revision)
        }
        _ => String::new(),
    };
    show::text(&format!(
        "{tag}, revision {revision} of {from}: in {to}, {} ({}{hint})",
        reply.what, created.status
    ))?;
    Ok(Outcome::Good)
}

/// What a release says, without what one region made of it.
fn body(release: &Release) -> Json {
    let mut body = json!({
        "version": release.version,
        "tag": release.tag,
        "manifest": release.manifest,
        "branch": release.branch,
        "requires": release.requires,
        "evidence": release.evidence,
    });
    if let Some(canary) = &release.canary {
        body["canary"] = json!(canary);
    }
    body
}
