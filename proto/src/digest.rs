//! A sha256, of an artifact, a spec or a certificate.

use crate::text::parsed_from_text;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

/// A sha256, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct Digest([u8; 32]);

parsed_from_text!(Digest);

/// A text that is no sha256.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a sha256: 64 hexadecimal digits are allowed")]
pub struct NotADigest(String);

/// A text that is neither a sha256 nor the word for none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or the word absent")]
pub struct NotADeclaredDigest(NotADigest);

/// What is written where it was declared that there is none.
const ABSENT_WORD: &str = "absent";

impl Digest {
    /// Replaces a digest where a node's own configuration declares that there is none to verify. It is written as 64
    /// zeros, so that a binary that does not know it refuses to stage, because no artifact has it.
    pub const ABSENT: Self = Self([0; 32]);

    /// Whether it was declared that there is none.
    pub fn is_absent(&self) -> bool {
        *self == Self::ABSENT
    }

    /// As people write it: the word `absent` where it was declared that there is none.
    pub fn declared(self) -> String {
        if self.is_absent() { ABSENT_WORD.to_owned() } else { self.to_string() }
    }

    /// Reads what [`Digest::declared`] writes.
    ///
    /// # Errors
    /// When it is neither.
    pub fn from_declared(text: &str) -> Result<Self, NotADeclaredDigest> {
        match text {
            ABSENT_WORD => Ok(Self::ABSENT),
            text => text.parse().map_err(NotADeclaredDigest),
        }
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed elsewhere, piece by piece.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for a comparison that takes the same time whatever they are.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NotADigest;
    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| NotADigest(text.chars().take(80).collect()))?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = NotADigest;
    fn try_from(text: String) -> Result<Self, NotADigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}
