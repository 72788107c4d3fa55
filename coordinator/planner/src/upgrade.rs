//! Machine 1: the phases of an upgrade, and whether it may be rolled back.

mod later;
pub mod phase;
mod rollback_path;
pub mod schema_lock;
mod view;

pub(crate) use later::{later_contract, unseen_of_others};
pub(crate) use rollback_path::{databases_allow, is_unseen, rollback_path};
pub(crate) use view::View;
