//! What is wrong is refused with what, where and what is allowed, and changes nothing.

use super::fleet::Fleet;

/// What a person may do to a certificate, and what `verify` says then.
pub async fn certificate(_fleet: &Fleet, _text: &str) {}
