//! Commands that change a release or a stream.

use crate::cli::document::document;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::reach::Reach;
use crate::cli::show;
use serde_json::{Map, Value as Json, json};
use std::path::{Path, PathBuf};
use tidegate_planner::release::manifest;
use tidegate_proto::wire::v1::{
    ApproveReleaseRequest, ConfigureStreamRequest, CreateReleaseRequest, PinComputeRequest,
    PromoteReleaseRequest, RecordEvidenceRequest, ReleaseReply, RetryReleaseRequest, RollBackReleaseRequest,
    UnpinComputeRequest,
};

/// What a release is created of.
pub(super) struct Create {
    pub version: u64,
    pub tag: String,
    pub manifest: Option<PathBuf>,
    pub mix_in: Vec<String>,
    pub requires: Vec<String>,
    pub branch: Option<String>,
    pub needs_evidence: bool,
    pub canary: Option<Canary>,
    pub pull_request: Option<String>,
    pub group: Option<String>,
}

/// How it is tried first.
pub(super) struct Canary {
    pub fraction: f64,
    pub promote_after: Option<u32>,
    pub tolerate: u32,
    pub deadline: Option<String>,
}

/// `NAME=VALUE`.
pub(super) fn pair(text: &str) -> Result<(&str, &str), Failure> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(format!("{text:?} is not NAME=VALUE; nothing was changed")))
}

fn body(asked: &Create) -> Result<Json, Failure> {
    let mut requires = Map::new();
    for text in &asked.requires {
        let (service, version) = pair(text)?;
        let version: u32 = version.parse().map_err(|_| {
            Failure::usage(format!(
                "--requires {text}: {version:?} is not a service version; nothing was changed"
            ))
        })?;
        requires.insert(service.to_owned(), json!(version));
    }
    let mut body = json!({
        "version": asked.version,
        "tag": asked.tag,
        "manifest": manifest(asked)?,
        "requires": requires,
        "evidence": if asked.needs_evidence { "required" } else { "none" },
    });
    let canary = asked.canary.as_ref().map(|canary| {
        let mut json = json!({ "fraction": canary.fraction, "tolerate": canary.tolerate });
        if let Some(enough) = canary.promote_after {
            json["promote_after"] = json!(enough);
        }
        if let Some(deadline) = &canary.deadline {
            json["deadline"] = json!(deadline);
        }
        json
    });
    let optional = [
        ("branch", asked.branch.clone().map(Json::from)),
        ("pull_request", asked.pull_request.clone().map(Json::from)),
        ("group", asked.group.clone().map(Json::from)),
        ("canary", canary),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    Ok(body)
}

/// The manifest, and what other builds have to say in it, each under a key of its own.
fn manifest(asked: &Create) -> Result<Json, Failure> {
    let read = |path| document(path, manifest::read);
    let mut manifest = asked.manifest.as_deref().map(read).transpose()?.unwrap_or_else(|| json!({}));
    for text in &asked.mix_in {
        let (key, path) = pair(text)?;
        let mixed = document(Path::new(path), tidegate_planner::document::read::<Json>)?;
        if manifest.get(key).is_some() {
            let told = format!("--mix-in {text}: the manifest says {key:?} already; nothing was changed");
            return Err(Failure::usage(told));
        }
        manifest[key] = mixed;
    }
    Ok(manifest)
}

fn told(reach: &Reach, reply: &ReleaseReply) -> Result<Outcome, Failure> {
    if reach.json && !reply.release.is_empty() {
        show::line(&reply.release)?;
    } else if reach.json {
        show::json(reply)?;
    } else {
        show::line(&reply.what)?;
    }
    Ok(Outcome::Good)
}

pub(super) async fn create(reach: &Reach, stream: String, asked: Create) -> Result<Outcome, Failure> {
    let body = body(&asked)?.to_string();
    let message = CreateReleaseRequest { stream, body, who: reach.who() };
    let reply = reach.releases().await?.create_release(message).await?.into_inner();
    warned(&reply);
    if !reach.json {
        show::line(format!("{} ({})", reply.what, status(&reply)))?;
        return Ok(Outcome::Good);
    }
    told(reach, &reply)
}

fn status(reply: &ReleaseReply) -> String {
    let release: Option<crate::operation::release::view::Release> = serde_json::from_str(&reply.release).ok();
    release.map_or_else(String::new, |release| match release.status.word() {
        "pending" => format!("pending: `tidegate release explain {}` says what for", release.revision),
        word => word.to_owned(),
    })
}

pub(super) async fn roll_back(
    reach: &Reach,
    stream: String,
    revision: u64,
    why: String,
    no_prewarm: bool,
) -> Result<Outcome, Failure> {
    let prewarm = Some(!no_prewarm);
    let message = RollBackReleaseRequest { stream, revision, who: reach.who(), why, prewarm };
    told(reach, reach.releases().await?.roll_back_release(message).await?.get_ref())
}

pub(super) async fn approve(
    reach: &Reach,
    stream: String,
    revision: u64,
    note: String,
) -> Result<Outcome, Failure> {
    let message = ApproveReleaseRequest { stream, revision, who: reach.who(), note };
    told(reach, reach.releases().await?.approve_release(message).await?.get_ref())
}

/// Without a fraction: to all.
pub(super) async fn promote(
    reach: &Reach,
    stream: String,
    revision: u64,
    fraction: Option<f64>,
    why: String,
) -> Result<Outcome, Failure> {
    let deploy = fraction.is_none();
    let message = PromoteReleaseRequest { stream, revision, fraction, who: reach.who(), why, deploy };
    told(reach, reach.releases().await?.promote_release(message).await?.get_ref())
}

pub(super) async fn retry(
    reach: &Reach,
    stream: String,
    revision: u64,
    why: String,
) -> Result<Outcome, Failure> {
    let message = RetryReleaseRequest { stream, revision, who: reach.who(), why };
    told(reach, reach.releases().await?.retry_release(message).await?.get_ref())
}

pub(super) async fn pin(
    reach: &Reach,
    stream: String,
    compute: String,
    revision: u64,
    why: String,
) -> Result<Outcome, Failure> {
    let message = PinComputeRequest { stream, compute, revision, who: reach.who(), why };
    told(reach, reach.releases().await?.pin_compute(message).await?.get_ref())
}

pub(super) async fn unpin(
    reach: &Reach,
    stream: String,
    compute: String,
    why: String,
) -> Result<Outcome, Failure> {
    let message = UnpinComputeRequest { stream, compute, who: reach.who(), why };
    told(reach, reach.releases().await?.unpin_compute(message).await?.get_ref())
}

pub(super) async fn configure(reach: &Reach, stream: String, path: &Path) -> Result<Outcome, Failure> {
    let settings = document(path, tidegate_planner::document::read)?.to_string();
    let message = ConfigureStreamRequest { stream, settings, who: reach.who(), why: String::new() };
    told(reach, reach.releases().await?.configure_stream(message).await?.get_ref())
}

pub(super) async fn evidence(reach: &Reach, message: RecordEvidenceRequest) -> Result<Outcome, Failure> {
    let reply = reach.releases().await?.record_evidence(message).await?.into_inner();
    warned(&reply);
    told(reach, &reply)
}

fn warned(reply: &ReleaseReply) {
    reply.warnings.iter().for_each(|warning| show::note(format!("warning: {warning}")));
}
