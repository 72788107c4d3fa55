//! The settings that a compute runs with, each with the layer that it came from.

use super::super::OperationError;
use super::{body, get, parse, read, stream_name, view};
use crate::context::Context;
use std::collections::BTreeMap;
use tidegate_planner::release::settings::{Asked, Outside, Role, resolve};
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::wire::v1::ReleaseSettingsRequest;
use tidegate_proto::{ComputeId, ReleaseTag, StreamName};

/// Resolves them.
pub async fn release_settings(
    context: &Context,
    asked: &ReleaseSettingsRequest,
) -> Result<view::Settings, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let of = Asked { pg_version: version(asked.pg_version)?, role: role(&asked.role)? };
    let outside = Outside {
        fixed: (*context.static_settings).clone(),
        overrides: layer("overrides", &asked.overrides)?,
        dynamic: layer("dynamic", &asked.dynamic)?,
    };
    let release = of_compute(context, &stream, asked).await?;
    let manifest = read::manifest(context, release.manifest).await?;
    Ok(view::Settings {
        revision: release.revision,
        tag: release.tag,
        settings: resolve(&manifest, &of, &outside).into_iter().map(|(name, s)| (name, s.into())).collect(),
    })
}

/// The release whose manifest counts. A tag that was never released here is a custom image: it has the settings of the
/// revision that its compute is pinned to, else of the deployed one (Neon's rule for pinned images).
async fn of_compute(
    context: &Context,
    stream: &StreamName,
    asked: &ReleaseSettingsRequest,
) -> Result<ComputeRelease, OperationError> {
    if asked.revision != 0 || asked.tag.is_empty() {
        return get::find(context, stream, asked.revision, "").await;
    }
    let tag: ReleaseTag = parse(&asked.tag)?;
    if let Some(found) = read::tag(context, stream, &tag).await? {
        return read::release(context, stream, found.revision).await;
    }
    let pinned = match asked.compute_id.as_str() {
        "" => None,
        text => {
            let compute: ComputeId = parse(text)?;
            let view = context.mirror.view();
            view.fleet.stream(stream).and_then(|stream| stream.pins.get(&compute)).map(|pin| pin.revision)
        }
    };
    match pinned {
        Some(revision) => read::release(context, stream, revision).await,
        None => get::find(context, stream, 0, "").await,
    }
}

fn version(number: u32) -> Result<u32, OperationError> {
    match number {
        0 => Err(OperationError::BadInput(
            "pg_version is 0: a major version of PostgreSQL, such as 17, is needed".to_owned(),
        )),
        number => Ok(number),
    }
}

fn role(text: &str) -> Result<Role, OperationError> {
    match text {
        "" | "primary" => Ok(Role::Primary),
        "replica" => Ok(Role::Replica),
        _ => Err(OperationError::BadInput(format!("{text:?} is no role: primary or replica is allowed"))),
    }
}

/// A layer that the caller knows; its values are strings, as the manifest's are.
fn layer(name: &str, text: &str) -> Result<BTreeMap<String, String>, OperationError> {
    if text.is_empty() { Ok(BTreeMap::new()) } else { body(&format!("the layer {name}"), text) }
}
