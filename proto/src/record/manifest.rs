//! A manifest, under the digest of its canonical form: releases with the same one share it, and it never changes.

use super::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Manifest {
    /// The manifest itself: an object, as it was posted.
    pub manifest: Json,
}

impl Body for Manifest {
    const SCHEMA: u32 = 1;
}
