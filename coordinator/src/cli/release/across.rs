//! From region to region: what is deployed in one is created in the next, which decides by its own gates.

use super::look::{get, read};
use super::regions::Regions;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show;
use crate::operation::release::view::{Release, Stream};
use serde_json::{Value as Json, json};
use std::path::Path;
use tidegate_proto::StreamName;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::Grouping;
use tidegate_proto::wire::v1::{CreateReleaseRequest, ShowStreamRequest};
use tonic::Code;

/// Where a release goes.
pub(super) struct Way<'a> {
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
pub(super) async fn promote(
    options: &GlobalOptions,
    stream: String,
    way: Way<'_>,
) -> Result<Outcome, Failure> {
    let Way { from, to, .. } = way;
    if from == to {
        return Err(Failure::usage(format!("--from and --to are both {to}; nothing was changed")));
    }
    let regions = Regions::read(way.regions)?;
    let (source, target) = (regions.options(from, options)?, regions.options(to, options)?);
    let text = get(&source, stream.clone(), way.revision.map(|revision| revision.to_string())).await?;
    let release: Release = read(&text)?;
    let (revision, tag) = (release.revision, release.tag.clone());
    if release.status != ReleaseStatus::Deployed {
        return Err(Failure::refused(format!(
            "revision {revision} ({tag}) is {} in {from}, and what is promoted is what is deployed there; nothing was changed",
            release.status
        )));
    }
    // Which line it belongs to there, that region's own grouping says; but not that it goes where everything goes.
    let stream = match &release.posted {
        Some(posted) => {
            is_grouped(&target, &posted.to, to, &release.stream).await?;
            posted.to.to_string()
        }
        None => stream,
    };
    let message = CreateReleaseRequest { stream, body: body(&release).to_string(), who: options.who() };
    let reply = target.releases().await?.create_release(message).await?.into_inner();
    for warning in &reply.warnings {
        show::note(format!("warning: {warning}"));
    }
    let created: Release = read(&reply.release)?;
    if options.json {
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
    show::line(format!(
        "{tag}, revision {revision} of {from}: in {to}, {} ({}{hint})",
        reply.what, created.status
    ))?;
    Ok(Outcome::Good)
}

/// Refuses to bring a release of a line to a region in which its stream has none.
async fn is_grouped(
    target: &GlobalOptions,
    base: &StreamName,
    region: &str,
    line: &StreamName,
) -> Result<(), Failure> {
    let asked = ShowStreamRequest { stream: base.to_string() };
    let grouping = match target.releases().await?.show_stream(asked).await {
        Ok(reply) => read::<Stream>(&reply.into_inner().json)?.settings.grouping,
        Err(status) if status.code() == Code::NotFound => Grouping::None,
        Err(status) => return Err(status.into()),
    };
    if grouping == Grouping::None {
        return Err(Failure::refused(format!(
            "{line} is a line of {base}, and {region} does not group {base}: set `grouping` there with `tidegate release stream {base} --set FILE`; nothing was changed"
        )));
    }
    Ok(())
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
    if let Some(posted) = &release.posted {
        let labels = [("pull_request", &posted.pull_request), ("group", &posted.group)];
        for (name, label) in labels.into_iter().filter_map(|(name, label)| Some((name, label.as_ref()?))) {
            body[name] = json!(label);
        }
    }
    body
}
