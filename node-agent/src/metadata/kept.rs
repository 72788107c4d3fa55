//! What the agent remembers of a group's document: one small file, on the disk before each act that it names.

use crate::host::Host;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_proto::record::group::DocumentVersion;

/// The document that the file holds, or is about to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub version: DocumentVersion,
    /// How that went; none = it has begun.
    pub outcome: Option<Outcome>,
    /// Whether that was signalled.
    #[serde(default, alias = "told")]
    pub reported: bool,
    /// Whether the store had it as the document of all instances: no update of the same store takes that away.
    #[serde(default)]
    pub current: bool,
}

/// How applying it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// The file holds it, and the hook said so by its exit code.
    Good,
    /// Not so.
    Failed {
        /// What kind of failure it was.
        kind: String,
        /// What was tried and found.
        why: String,
    },
}

impl Kept {
    pub(super) fn is(&self, version: DocumentVersion) -> bool {
        self.version == version
    }

    /// As an agent that begins takes it up: what failed is tried again.
    pub(super) fn taken_up(self) -> Self {
        match self.outcome {
            Some(Outcome::Failed { .. }) => Self { outcome: None, reported: false, ..self },
            _ => self,
        }
    }
}

#[derive(Debug)]
pub(super) struct Keeper {
    host: Arc<dyn Host>,
    path: PathBuf,
}

/// It is smaller by far.
const MOST: usize = 64 * 1024;

impl Keeper {
    pub(super) fn within(host: &Arc<dyn Host>, home: &Path) -> Self {
        Self { host: Arc::clone(host), path: home.join("document.json") }
    }

    /// What was remembered. What cannot be read is as good as nothing: then the document is taken again.
    pub(super) fn read(&self) -> io::Result<Option<Kept>> {
        match self.host.read(&self.path, MOST) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)
                .inspect_err(|error| {
                    tracing::error!(path = %self.path.display(), %error, "what was remembered cannot be read; the document is taken again");
                })
                .ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, kept: &Kept) -> io::Result<()> {
        self.host.replace(&self.path, &serde_json::to_vec(kept)?)
    }

    pub(super) fn forget(&self) -> io::Result<()> {
        self.host.erase(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_read_under_its_former_name() {
        let version =
            DocumentVersion { generation: "7".parse().unwrap(), digest: tidegate_proto::Digest::of(b"{}") };
        let kept = Kept { version, outcome: Some(Outcome::Good), reported: true, current: false };
        let mut former = serde_json::to_value(&kept).unwrap();
        former["told"] = former.as_object_mut().unwrap().remove("reported").unwrap();
        assert_eq!(serde_json::from_value::<Kept>(former).unwrap(), kept);
    }
}
