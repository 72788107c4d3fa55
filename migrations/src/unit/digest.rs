//! Checksums over meaning: the canonical form of steps, with normalised SQL.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A sha256, shown as `sha256:<hex>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// Of anything with a canonical form.
    pub(crate) fn of<T: Serialize + ?Sized>(content: &T) -> Digest {
        let canonical =
            serde_json::to_string(content).expect("plain structs with text keys always have a json form");
        Digest(format!("sha256:{}", hex::encode(Sha256::digest(canonical.as_bytes()))))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
