//! What two processes agree on does not change unnoticed: every key's shape, and every record's form.

#![expect(clippy::unwrap_used, reason = "tests say what they expect in one word")]

mod fuzz;
mod key_tree;
mod record_compat;
