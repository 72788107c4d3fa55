//! What the history of a stream says about a request: whether it is the latest already, whether its version falls, and
//! whether its tag belongs to another version.

use tidegate_proto::record::release::TagRecord;
use tidegate_proto::record::stream::{MAX_BRANCHES, Stream};
use tidegate_proto::{Branch, Digest, ReleaseRevision, ReleaseTag, ReleaseVersion};

/// Why a request does not fit into the history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The version is below one that the branch has had.
    #[error(
        "version {asked} is below {highest}, which branch {branch} has had: versions never fall within a branch; to go back, roll back to a revision"
    )]
    VersionFalls {
        /// What was asked for.
        asked: ReleaseVersion,
        /// What there was.
        highest: ReleaseVersion,
        /// In which branch.
        branch: Branch,
    },
    /// The tag is another version's.
    #[error(
        "tag {tag} belongs to version {owner} (revision {revision}) for ever and cannot be used for version {asked}: build a new tag"
    )]
    TagReused {
        /// The tag.
        tag: ReleaseTag,
        /// Whose it is.
        owner: ReleaseVersion,
        /// The latest revision with it.
        revision: ReleaseRevision,
        /// What was asked for.
        asked: ReleaseVersion,
    },
    /// One branch too many.
    #[error(
        "the stream has had {MAX_BRANCHES} branches already, and {0} would be one more: use another stream"
    )]
    TooManyBranches(Branch),
}

/// The latest revision, where a body with this digest is what it has already.
pub fn same_as_latest(stream: &Stream, digest: Digest) -> Option<ReleaseRevision> {
    stream.latest.as_ref().filter(|latest| latest.digest == digest).map(|latest| latest.revision)
}

/// Whether the version fits: it does not fall within its branch, and the tag is its own.
pub fn fits(
    stream: &Stream,
    branch: &Branch,
    version: ReleaseVersion,
    tag: &ReleaseTag,
    owner: Option<&TagRecord>,
) -> Result<(), Misfit> {
    if let Some(owner) = owner.filter(|owner| owner.version != version) {
        return Err(Misfit::TagReused {
            tag: tag.clone(),
            owner: owner.version,
            revision: owner.revision,
            asked: version,
        });
    }
    match stream.branches.get(branch) {
        Some(highest) if version < *highest => {
            Err(Misfit::VersionFalls { asked: version, highest: *highest, branch: branch.clone() })
        }
        None if stream.branches.len() >= MAX_BRANCHES => Err(Misfit::TooManyBranches(branch.clone())),
        _ => Ok(()),
    }
}
