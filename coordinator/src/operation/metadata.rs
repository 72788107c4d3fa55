//! What is asked about metadata groups: one file a verb, called by every door alike.

mod cancel;
mod explain;
mod get;
mod groups;
mod history;
mod report;
mod set;
pub mod view;

pub use cancel::cancel_metadata;
pub use explain::explain_group;
pub use get::instance_metadata;
pub use groups::{list_groups, show_group};
pub use history::group_history;
pub use report::report_metadata;
pub use set::set_metadata;

use super::mutation::Mutation;
use super::{OperationError, parse};
use tidegate_planner::ask::metadata::Asked;
use tidegate_planner::{Fleet, Stored};
use tidegate_proto::record::group::Group;
use tidegate_proto::wire::v1::MetadataReply;
use tidegate_proto::{Commit, GroupName, Key, Revision};

impl Mutation for Asked {
    fn commit(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }
}

/// A group as this coordinator sees it.
fn find<'a>(fleet: &'a Fleet, name: &GroupName) -> Result<&'a Stored<Group>, OperationError> {
    if let Some(why) = fleet.unreadable_at(&Key::Group(name.clone())) {
        return Err(OperationError::Refused(format!(
            "the record groups/{name} {why}: a person must look at it"
        )));
    }
    fleet.group(name).ok_or_else(|| OperationError::NotFound(format!("there is no metadata group {name}")))
}

fn reply(group: &GroupName, (asked, revision): (Asked, Revision), what: String) -> MetadataReply {
    MetadataReply {
        group: group.to_string(),
        generation: asked.generation.map_or(0, |generation| generation.get()),
        changed: asked.commit.is_some(),
        what,
        revision: revision.0,
    }
}
