//! Questions.

use super::steer::pair;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show::{self, Page};
use crate::operation::release::view;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use tidegate_planner::gate::version::below::Below;
use tidegate_proto::ReleaseRevision;
use tidegate_proto::wire::v1::{
    ExplainReleaseRequest, GetReleaseRequest, ListReleasesRequest, ListStreamsRequest,
    ReleaseSettingsRequest, ShowStreamRequest, StartComputeRequest,
};

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text)
        .map_err(|e| Failure::failed(format!("the coordinator's answer cannot be read: {e}")))
}

/// A revision or a tag.
fn which(text: Option<String>) -> (u64, String) {
    match text {
        None => (0, String::new()),
        Some(text) => match text.parse() {
            Ok(revision) => (revision, String::new()),
            Err(_) => (0, text),
        },
    }
}

fn row(release: &view::Release) -> Vec<String> {
    vec![
        release.revision.to_string(),
        release.version.to_string(),
        release.tag.to_string(),
        release.status.to_string(),
        release.created_at.clone(),
        show::or_dash(release.deployed_at.clone()),
        release.created_by.clone(),
        show::or_dash(because(release.rollback_of, release.because.as_deref())),
    ]
}

/// What a list says of a release beside its status.
fn because(rollback_of: Option<ReleaseRevision>, because: Option<&str>) -> Option<String> {
    let back = rollback_of.map(|revision| format!("rollback of {revision}"));
    let words: Vec<String> = back.into_iter().chain(because.map(str::to_owned)).collect();
    (!words.is_empty()).then(|| words.join(": "))
}

const HEADER: [&str; 8] = ["REVISION", "VERSION", "TAG", "STATUS", "CREATED", "DEPLOYED", "BY", "BECAUSE"];

pub(super) async fn list(
    options: &GlobalOptions,
    stream: String,
    limit: u32,
    before: u64,
) -> Result<Outcome, Failure> {
    let message = ListReleasesRequest { stream, before, limit };
    let reply = options.releases().await?.list_releases(message).await?.into_inner();
    let page: view::Page = read(&reply.json)?;
    if options.json {
        for release in &page.releases {
            show::json(release)?;
        }
        return Ok(Outcome::Good);
    }
    show::table(&HEADER, page.releases.iter().map(row))?;
    if let Some(before) = page.before {
        show::note(format!("there are more: --before {before}"));
    }
    Ok(Outcome::Good)
}

pub(super) async fn get(
    options: &GlobalOptions,
    stream: String,
    asked: Option<String>,
) -> Result<String, Failure> {
    let (revision, tag) = which(asked);
    let message = GetReleaseRequest { stream, revision, tag };
    Ok(options.releases().await?.get_release(message).await?.into_inner().release)
}

pub(super) async fn show(
    options: &GlobalOptions,
    stream: String,
    asked: Option<String>,
) -> Result<Outcome, Failure> {
    let text = get(options, stream, asked).await?;
    if options.json {
        show::line(&text)?;
        return Ok(Outcome::Good);
    }
    let release: view::Release = read(&text)?;
    let mut lines = vec![
        ("revision", release.revision.to_string()),
        ("version", release.version.to_string()),
        ("tag", release.tag.to_string()),
        ("status", release.status.to_string()),
        ("branch", release.branch.to_string()),
        ("created", format!("{} by {}", release.created_at, release.created_by)),
        ("deployed", show::or_dash(release.deployed_at.clone())),
    ];
    let requires: Vec<String> = release.requires.iter().map(|(s, v)| format!("{s} {v}")).collect();
    if !requires.is_empty() {
        lines.push(("requires", requires.join(", ")));
    }
    let optional = [
        ("because", release.because.clone()),
        ("approved", release.approved_by.clone()),
        ("rollback of", release.rollback_of.map(|revision| revision.to_string())),
    ];
    lines.extend(optional.into_iter().filter_map(|(word, value)| Some((word, value?))));
    let manifest = release.manifest.unwrap_or_else(|| json!({}));
    let mut page = Page::default();
    page.lines(lines.iter().map(|(word, value)| format!("{word:<12} {value}")));
    page.document("manifest     ", &manifest);
    page.print()?;
    Ok(Outcome::Good)
}

fn object(pairs: &[String]) -> Result<String, Failure> {
    if pairs.is_empty() {
        return Ok(String::new());
    }
    let mut object = Map::new();
    for text in pairs {
        let (name, value) = pair(text)?;
        object.insert(name.to_owned(), Json::from(value));
    }
    Ok(Json::Object(object).to_string())
}

pub(super) async fn settings(
    options: &GlobalOptions,
    stream: String,
    asked: Option<String>,
    pg_version: u32,
    role: String,
    overrides: &[String],
    dynamic: &[String],
) -> Result<Outcome, Failure> {
    let (revision, tag) = which(asked);
    let (overrides, dynamic) = (object(overrides)?, object(dynamic)?);
    let message = ReleaseSettingsRequest {
        stream,
        revision,
        tag,
        compute_id: String::new(),
        pg_version,
        role,
        overrides,
        dynamic,
    };
    let reply = options.releases().await?.release_settings(message).await?.into_inner();
    if options.json {
        show::line(&reply.json)?;
        return Ok(Outcome::Good);
    }
    let settings: view::Settings = read(&reply.json)?;
    let rows = settings
        .settings
        .iter()
        .map(|(name, value)| vec![name.clone(), value.value.clone(), value.layer.clone()]);
    show::table(&["SETTING", "VALUE", "FROM"], rows)?;
    Ok(Outcome::Good)
}

pub(super) async fn start(
    options: &GlobalOptions,
    stream: String,
    compute: String,
) -> Result<Outcome, Failure> {
    let message = StartComputeRequest { stream, compute_id: compute };
    let reply = options.releases().await?.start_compute(message).await?.into_inner();
    if options.json {
        show::line(&reply.json)?;
        return Ok(Outcome::Good);
    }
    let start: view::Start = read(&reply.json)?;
    show::line(format!("{} (revision {}, {})", start.tag, start.revision, start.because))?;
    Ok(Outcome::Good)
}

pub(super) async fn explain(
    options: &GlobalOptions,
    stream: String,
    revision: Option<u64>,
) -> Result<Outcome, Failure> {
    let message = ExplainReleaseRequest { stream: stream.clone(), revision: revision.unwrap_or(0) };
    let reply = options.releases().await?.explain_release(message).await?.into_inner();
    if options.json {
        show::line(&reply.json)?;
        return Ok(Outcome::Good);
    }
    let waits: Vec<view::Waits> = read(&reply.json)?;
    if waits.is_empty() {
        show::line(format!("nothing of {stream} waits"))?;
    }
    for waits in waits {
        let because = waits.because.filter(|_| waits.reasons.is_empty());
        let because = because.map_or_else(String::new, |because| format!(": {because}"));
        show::line(format!("revision {} ({}) is {}{because}", waits.revision, waits.tag, waits.status))?;
        let reasons: Vec<_> = waits.reasons.into_iter().map(Into::into).collect();
        if !reasons.is_empty() {
            let mut page = Page::default();
            show::reasons(&mut page, &reasons, 0);
            page.print()?;
        }
    }
    Ok(Outcome::Good)
}

/// What differs, a line each: every part of the body, the manifest by its paths.
pub(super) async fn diff(
    options: &GlobalOptions,
    stream: String,
    from: u64,
    to: u64,
) -> Result<Outcome, Failure> {
    let one = get(options, stream.clone(), Some(from.to_string())).await?;
    let other = get(options, stream, Some(to.to_string())).await?;
    let (one, other) = (parts(&read(&one)?), parts(&read(&other)?));
    let paths: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for path in paths.into_iter().filter(|path| one.get(*path) != other.get(*path)) {
        if options.json {
            show::json(&json!({ "path": path, "from": one.get(path), "to": other.get(path) }))?;
            continue;
        }
        let text = |value: Option<&Json>| value.map_or_else(|| "absent".to_owned(), Json::to_string);
        show::line(format!("{path}: {} -> {}", text(one.get(path)), text(other.get(path))))?;
    }
    Ok(Outcome::Good)
}

/// The leaves of what was asked for, by their paths.
fn parts(release: &Json) -> BTreeMap<String, Json> {
    let mut leaves = BTreeMap::new();
    for name in ["version", "tag", "branch", "requires", "evidence", "canary", "manifest"] {
        if let Some(value) = release.get(name) {
            flatten(name, value, &mut leaves);
        }
    }
    leaves
}

fn flatten(path: &str, value: &Json, leaves: &mut BTreeMap<String, Json>) {
    match value {
        Json::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, leaves));
        }
        leaf => drop(leaves.insert(path.to_owned(), leaf.clone())),
    }
}

pub(super) async fn streams(options: &GlobalOptions) -> Result<Outcome, Failure> {
    let reply = options.releases().await?.list_streams(ListStreamsRequest {}).await?.into_inner();
    let streams: Vec<view::Stream> = read(&reply.json)?;
    if options.json {
        streams.iter().try_for_each(show::json)?;
        return Ok(Outcome::Good);
    }
    let tag = |release: Option<&view::Release>| show::or_dash(release.map(|release| release.tag.to_string()));
    let rows = streams.iter().map(|stream| {
        vec![
            stream.stream.to_string(),
            tag(stream.deployed.as_ref()),
            tag(stream.canary.as_ref().map(|trial| &trial.release)),
            stream.pending.len().to_string(),
            stream.kept.len().to_string(),
            stream.pins.len().to_string(),
        ]
    });
    show::table(&["STREAM", "DEPLOYED", "CANARY", "PENDING", "KEPT", "PINS"], rows)?;
    Ok(Outcome::Good)
}

pub(super) async fn stream(options: &GlobalOptions, name: String) -> Result<Outcome, Failure> {
    let message = ShowStreamRequest { stream: name };
    let reply = options.releases().await?.show_stream(message).await?.into_inner();
    if options.json {
        show::line(&reply.json)?;
        return Ok(Outcome::Good);
    }
    let stream: view::Stream = read(&reply.json)?;
    let mut page = Page::default();
    page.document(&format!("stream {} is run by ", stream.stream), &stream.settings);
    page.print()?;
    let heads = stream.deployed.iter().chain(stream.canary.as_ref().map(|trial| &trial.release));
    let heads = heads.chain(&stream.pending).chain(stream.kept.iter().map(|kept| &kept.release));
    show::table(&HEADER, heads.map(row))?;
    for kept in &stream.kept {
        let why = if kept.held_by.is_empty() {
            "about to be collected".to_owned()
        } else {
            kept.held_by.join("; ")
        };
        show::line(format!("revision {} is kept: {why}", kept.release.revision))?;
    }
    if let Some(trial) = &stream.canary {
        show::line(format!(
            "canary: {} of starts, {} computes signalled success, {} failure",
            show::or_dash(trial.fraction),
            trial.successes,
            trial.failures
        ))?;
    }
    for (compute, pin) in &stream.pins {
        show::line(format!("{compute} is pinned to revision {} by {}: {}", pin.revision, pin.who, pin.why))?;
    }
    for (tag, count) in &stream.running {
        show::line(format!("{count} computes run {tag}"))?;
    }
    for below in &stream.storage_below {
        let needs = Below::from(below).reason().to_string();
        show::line(format!("{needs}, which revision {} needs", below.revision))?;
    }
    Ok(Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_rollback_is_listed_with_what_its_hook_reported() {
        let back = ReleaseRevision::new(1).ok();
        let failed = because(back, Some("hook pull failed on n7: no space left"));
        assert_eq!(failed.as_deref(), Some("rollback of 1: hook pull failed on n7: no space left"));
        assert_eq!(because(back, None).as_deref(), Some("rollback of 1"));
        assert_eq!(because(None, Some("it failed")).as_deref(), Some("it failed"));
        assert_eq!(because(None, None), None);
    }
}
