//! A metadata group: instances that share a document, and the update that brings them another one, batch by batch.
//!
//! The batch of each instance is drawn once, when an update begins, and stored in pages; the group's own record says
//! how many batches are exposed. So exposing another batch, and returning all of them, is one small write, however many
//! instances there are; and an instance learns what it is served from this record and one page.

use super::{Body, Timestamp};
use crate::metadata::{MetadataGeneration, UpdateTerms};
use crate::spec::Strategy;
use crate::{Digest, NodeId, ServiceName, mutant};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Who belongs to it.
    pub members: Members,
    /// The last generation that was given to a document; none is ever used again.
    pub latest: MetadataGeneration,
    /// The document of all instances that are not exposed to another; none = there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<DocumentVersion>,
    /// The one document besides those two that is still kept: what was current before, or what was returned from. A
    /// coordinator that sees a little less than the leader may still serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<MetadataGeneration>,
    /// The update that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<GroupUpdate>,
    /// How the last one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<EndedUpdate>,
}

impl Body for Group {
    const SCHEMA: u32 = 1;
}

/// Who belongs to a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Members {
    /// The instances of a service that were ever admitted and are not decommissioned, each by its node.
    Service(ServiceName),
    /// Those that `members/<group>` names.
    Named,
}

/// Which document: its place, and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DocumentVersion {
    /// Its place.
    pub generation: MetadataGeneration,
    /// The digest of its canonical form.
    pub digest: Digest,
}

/// An update that runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupUpdate {
    /// To which document.
    pub to: DocumentVersion,
    /// How instances are grouped into batches.
    pub strategy: Strategy,
    /// What the update waits for, and which failures it tolerates.
    pub terms: UpdateTerms,
    /// How many instances were drawn.
    pub drawn: u32,
    /// Into how many batches.
    pub batches: u32,
    /// How many pages hold that.
    pub pages: u32,
    /// The last batch that is exposed, from 0; those before it are too.
    pub batch: u32,
    /// Milliseconds since it was exposed, as last stored.
    #[serde(default)]
    pub waited_ms: u64,
    /// Who asked for it.
    pub by: String,
    /// Why.
    #[serde(default)]
    pub why: String,
    /// When.
    pub at: Timestamp,
}

/// How an update ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EndedUpdate {
    /// The generation that it was to bring.
    pub generation: MetadataGeneration,
    /// What became of it.
    pub outcome: UpdateOutcome,
    /// Why.
    pub because: String,
    /// Who ended it: a person, or the coordinator by itself.
    pub who: String,
    /// When.
    pub at: Timestamp,
}

/// What became of an update.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UpdateOutcome {
    /// All instances have the new document.
    Finished,
    /// It failed: all instances have the former document again.
    Returned,
    /// A person called it off: the same.
    Cancelled,
}

impl UpdateOutcome {
    /// The word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Who belongs to a group, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedMembers {
    /// The instances.
    pub instances: BTreeSet<NodeId>,
}

impl Body for NamedMembers {
    const SCHEMA: u32 = 1;
}

/// A document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Document {
    /// The document itself: an object, as it was given.
    pub document: Json,
}

impl Body for Document {
    const SCHEMA: u32 = 1;
}

/// A page of who is in which batch; which page an instance is on follows from its name ([`page_of`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExposedPage {
    /// The update that it belongs to, by the generation that it brings.
    pub generation: MetadataGeneration,
    /// The instances with their batch, from 0.
    pub members: BTreeMap<NodeId, u32>,
}

impl Body for ExposedPage {
    const SCHEMA: u32 = 1;
}

/// The page that an instance is on, of so many.
pub fn page_of(node: &NodeId, pages: u32) -> u32 {
    let digest = Digest::of(node.as_str().as_bytes());
    let [a, b, c, d, ..] = *digest.as_bytes();
    u32::from_be_bytes([a, b, c, d]) % pages.max(1)
}

/// The page of the update that runs is missing, unreadable, or of another update. A reader that reads the group's record
/// and then the page finds this when the update has ended in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the page of generation {0} that says which instances are exposed is missing, unreadable or of another update"
)]
pub struct ExposureUnknown(pub MetadataGeneration);

/// What an instance is served of a group: the document of the update that runs if it is exposed, else the current one; none
/// = there is no document yet. `page` is the instance's page of that update.
///
/// # Errors
/// [`ExposureUnknown`] while an update runs and `page` is not of it. Then the instance keeps the document that it has: the
/// current one may be the former of what it was served already.
pub fn served(
    group: &Group,
    page: Option<&ExposedPage>,
    node: &NodeId,
) -> Result<Option<DocumentVersion>, ExposureUnknown> {
    let Some(update) = &group.update else { return Ok(group.current) };
    let Some(page) = page.filter(|page| page.generation == update.to.generation) else {
        if mutant::is("exposure-is-guessed") {
            return Ok(group.current);
        }
        return Err(ExposureUnknown(update.to.generation));
    };
    let is_exposed = page.members.get(node).is_some_and(|batch| *batch <= update.batch);
    Ok(if is_exposed { Some(update.to) } else { group.current })
}
