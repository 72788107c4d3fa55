//! The stored proof on which a contract ran (rule 1). Paged: a list over the fleet does not outgrow a record.

use super::Body;
use crate::Digest;
use serde::{Deserialize, Serialize};

/// One page of a certificate's text, in order; the pages joined are its canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CertificatePage {
    /// This page's part of the text.
    pub text: String,
    /// What it was stored with; a page of a former version has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
}

/// What shows that a page was altered after it was stored, or that another one is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seal {
    /// The digest of this page's text.
    pub digest: Digest,
    /// How many pages the certificate has.
    pub pages: u32,
}

impl CertificatePage {
    /// One of so many pages, with its seal.
    pub fn sealed(text: String, pages: u32) -> Self {
        let seal = Some(Seal { digest: Digest::of(text.as_bytes()), pages });
        Self { text, seal }
    }

    /// Whether its text is another one than was stored with its seal.
    pub fn is_altered(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.digest != Digest::of(self.text.as_bytes()))
    }
}

impl Body for CertificatePage {
    const SCHEMA: u32 = 1;
}
