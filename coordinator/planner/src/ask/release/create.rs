//! Create a compute release: a new revision that waits, or the latest one where that says the same already.

use super::{Asked, begun, granted, readable};
use crate::ask::{Asker, Refusal};
use crate::fleet::{Fleet, Stored};
use crate::moment::Moment;
use crate::release::history;
use crate::release::manifest::{findings, listed};
use crate::stream::grouping;
use std::collections::BTreeSet;
use tidegate_proto::commit::Precondition;
use tidegate_proto::compute::{DEFAULT_STREAM, EvidenceRule, ReleaseRequest, canonical};
use tidegate_proto::record::manifest::Manifest;
use tidegate_proto::record::release::{ComputeRelease, Posted, ReleaseStatus, TagRecord};
use tidegate_proto::record::stream::{
    Grouping, MAX_MANIFEST_BYTES, MAX_PENDING, MAX_REQUIRES, Stream, StreamSettings,
};
use tidegate_proto::{Branch, Key, ReleaseRevision, Revision, StreamName, mutant};

/// The most services that all releases of a stream together can require: a commit that supersedes all that wait still
/// fits into one transaction.
const MAX_SERVICES: usize = 32;

/// How many streams a refusal names.
const NAMED: usize = 10;

/// The stream that a release posted to `base` belongs to: under its name the tag's record is read for [`create`].
pub fn home(fleet: &Fleet, base: &StreamName, request: &ReleaseRequest) -> Result<StreamName, Refusal> {
    readable(fleet, base)?;
    let by = grouping_of(fleet, base).unwrap_or(Grouping::None);
    grouping::stream_of(base, by, request).map_err(Refusal::invalid)
}

fn grouping_of(fleet: &Fleet, base: &StreamName) -> Option<Grouping> {
    fleet.stream(base).map(|stream| stream.settings.grouping)
}

/// A new revision that waits to go out. `tag` is the tag's record of [`home`], read for this attempt (none = there is
/// none); it is compared. Where the latest revision has the same body, that is the answer, and nothing is written.
pub fn create(
    fleet: &Fleet,
    moment: &Moment,
    base: &StreamName,
    tag: Option<&Stored<TagRecord>>,
    request: &ReleaseRequest,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let name = home(fleet, base, request)?;
    exists(fleet, base)?;
    let mut change = begun(fleet, moment, &name)?;
    if fleet.stream(&name).is_none() && name != *base {
        change.stream.settings = Box::new(inherited(fleet, base));
    }
    let branch = request.branch.clone().unwrap_or_else(|| default_branch(base));
    let digest = request.digest(&branch);
    if let Some(revision) = history::same_as_latest(&change.stream, digest)
        && !mutant::is("identical-is-created-again")
    {
        return Ok(Asked::already(&name, Some(revision)));
    }
    let stream = &change.stream;
    valid(stream, request)?;
    history::fits(stream, &branch, request.version, &request.tag, tag.map(|tag| &tag.record.body))
        .map_err(Refusal::state)?;
    if let Some(Grouping::Semver(_)) = grouping_of(fleet, base) {
        grouping::in_order(stream, &request.tag).map_err(Refusal::state)?;
    }
    if stream.pending.len() >= MAX_PENDING {
        return Err(Refusal::state(format!(
            "{MAX_PENDING} releases of {name} wait already: `tidegate release explain` says what for; promote one, or roll back, which overtakes them all"
        )));
    }
    let revision = ReleaseRevision::after(stream.latest.as_ref().map(|latest| latest.revision));
    let manifest = request.manifest_digest();
    change.created(ComputeRelease {
        revision,
        version: request.version,
        tag: request.tag.clone(),
        branch,
        requires: request.requires.clone(),
        evidence: request.evidence,
        canary: request.canary.clone(),
        posted: (name != *base).then(|| Posted {
            to: base.clone(),
            pull_request: request.pull_request.clone(),
            group: request.group.clone(),
        }),
        manifest,
        digest,
        rollback_of: None,
        status: ReleaseStatus::Pending,
        because: String::new(),
        by: asker.who.clone(),
        created_at: moment.wall,
        approved: None,
        deployed_at: None,
    });
    let key = Key::ReleaseTag(name.clone(), request.tag.clone());
    change.relies_on([Precondition::At(key.clone(), tag.map_or(Revision::ABSENT, |tag| tag.at))]);
    let body = TagRecord { revision, version: request.version };
    change.also(|commit| match tag {
        Some(tag) => commit.put(key, tag.record.with(body)),
        None => commit.put(key, body),
    });
    // The same bytes under the same digest, whichever request writes them.
    let body = Manifest { manifest: request.manifest.clone() };
    change.also(|commit| commit.put(Key::Manifest(manifest), body));
    let to = format!("revision {revision} ({}) pending", request.tag);
    Ok(granted(change, asker, Some(revision), String::new(), to))
}

/// A release makes no stream but the default one: a mistyped name would get its own, unnoticed stream.
fn exists(fleet: &Fleet, base: &StreamName) -> Result<(), Refusal> {
    if fleet.stream(base).is_some() || base.as_str() == DEFAULT_STREAM {
        return Ok(());
    }
    let known: Vec<&str> = fleet.streams().map(|(name, _)| name.as_str()).take(NAMED).collect();
    let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
    Err(Refusal::not_found(format!(
        "there is no release stream {base} (there are: {known}); nothing was created. \
             `tidegate release stream {base} --set FILE` makes it"
    )))
}

fn default_branch(base: &StreamName) -> Branch {
    base.as_str().parse().expect("names of streams and branches have the same form")
}

/// A line of a grouped stream begins with its settings.
fn inherited(fleet: &Fleet, base: &StreamName) -> StreamSettings {
    let mut settings = fleet.stream(base).map(|stream| (*stream.settings).clone()).unwrap_or_default();
    settings.grouping = Grouping::None;
    settings.strategy.manual = None;
    settings
}

/// What is wrong with a request, besides its place in the history.
fn valid(stream: &Stream, request: &ReleaseRequest) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::invalid(message));
    if !request.manifest.is_object() {
        return invalid(
            "manifest is not an object: an object of settings is needed, {} where there are none".to_owned(),
        );
    }
    let bytes = canonical(&request.manifest).len();
    if bytes > MAX_MANIFEST_BYTES {
        return Err(Refusal::too_large(format!(
            "the manifest has {bytes} bytes, at most {MAX_MANIFEST_BYTES} are allowed"
        )));
    }
    let flaws = listed(&findings(&request.manifest), true);
    if !flaws.is_empty() {
        return invalid(format!("the manifest is not valid: {}", flaws.join("; ")));
    }
    if request.requires.len() > MAX_REQUIRES {
        return invalid(format!(
            "requires names {} services, at most {MAX_REQUIRES} are allowed",
            request.requires.len()
        ));
    }
    let evidence = request.evidence.max(stream.settings.evidence);
    if evidence == EvidenceRule::Required && request.requires.is_empty() {
        return invalid(
            "evidence is required, and requires names no storage service that there could be evidence for"
                .to_owned(),
        );
    }
    let services: BTreeSet<_> =
        stream.heads().flat_map(|head| head.release.requires.keys()).chain(request.requires.keys()).collect();
    if services.len() > MAX_SERVICES {
        return invalid(format!(
            "the releases of the stream would require {} services in all, at most {MAX_SERVICES} are allowed",
            services.len()
        ));
    }
    match &request.canary {
        Some(canary) => super::configure::valid_canary("canary", canary),
        None => Ok(()),
    }
}
