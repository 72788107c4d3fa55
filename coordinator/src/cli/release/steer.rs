//! Commands that change a release or a stream.

use crate::cli::document::document;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show;
use serde_json::{Map, Value as Json, json};
use std::path::{Path, PathBuf};
use tidegate_planner::release::manifest;
use tidegate_proto::wire::v1::{CreateReleaseRequest, ReleaseReply};

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Version of the image. It never decreases within a branch.
    #[arg(long)]
    version: u64,
    /// Tag of the image.
    #[arg(long)]
    tag: String,
    /// Manifest with settings: a YAML or JSON file, or - for stdin. Default: empty.
    #[arg(long, value_name = "PATH")]
    manifest: Option<PathBuf>,
    /// Further part of the manifest, as KEY=FILE (YAML or JSON), for example extensions=extensions.json.
    #[arg(long, value_name = "KEY=PATH")]
    mix_in: Vec<String>,
    /// Lowest version of a storage service that the release works with.
    #[arg(long, value_name = "SERVICE=VERSION")]
    requires: Vec<String>,
    /// Branch of the release. Default: the name of the stream.
    #[arg(long)]
    branch: Option<String>,
    /// Require a passed compatibility run with each storage version in use.
    #[arg(long)]
    needs_evidence: bool,
    /// Canary: share of compute starts that get the release first, for example 0.05.
    #[arg(long, value_name = "FRACTION")]
    canary: Option<f64>,
    /// Deploy after this number of canary computes reported success. Default: an operator promotes it.
    #[arg(long, value_name = "N", requires = "canary")]
    promote_after: Option<u32>,
    /// Number of canary computes that may report a failure.
    #[arg(long, value_name = "N", requires = "canary", default_value_t = 0)]
    tolerate: u32,
    /// Time limit for the canary, for example 2h.
    #[arg(long, value_name = "SPAN", requires = "canary")]
    deadline: Option<String>,
    /// Pull request (number or branch), for a stream that is grouped by pull request.
    #[arg(long, value_name = "NAME")]
    pull_request: Option<String>,
    /// Group name, for a stream that is grouped by name.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
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
    let canary = asked.canary.map(|fraction| {
        let mut json = json!({ "fraction": fraction, "tolerate": asked.tolerate });
        if let Some(enough) = asked.promote_after {
            json["promote_after"] = json!(enough);
        }
        if let Some(deadline) = &asked.deadline {
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
            let what = format!("--mix-in {text}: the manifest says {key:?} already; nothing was changed");
            return Err(Failure::usage(what));
        }
        manifest[key] = mixed;
    }
    Ok(manifest)
}

pub(super) fn print_reply(options: &GlobalOptions, reply: &ReleaseReply) -> Result<Outcome, Failure> {
    reply.warnings.iter().for_each(|warning| show::note(format!("warning: {warning}")));
    if options.json && !reply.release.is_empty() {
        show::line(&reply.release)?;
    } else if options.json {
        show::json(reply)?;
    } else {
        show::line(&reply.what)?;
    }
    Ok(Outcome::Good)
}

pub(super) async fn create(
    options: &GlobalOptions,
    stream: String,
    asked: &Create,
) -> Result<Outcome, Failure> {
    let body = body(asked)?.to_string();
    let message = CreateReleaseRequest { stream, body, who: options.who() };
    let mut reply = options.releases().await?.create_release(message).await?.into_inner();
    if !options.json {
        reply.what = format!("{} ({})", reply.what, status(&reply));
    }
    print_reply(options, &reply)
}

fn status(reply: &ReleaseReply) -> String {
    let release: Option<crate::operation::release::view::Release> = serde_json::from_str(&reply.release).ok();
    release.map_or_else(String::new, |release| match release.status.word() {
        "pending" => format!("pending: `tidegate release explain {}` says what for", release.revision),
        word => word.to_owned(),
    })
}
