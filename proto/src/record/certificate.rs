//! The stored proof on which a contract ran (rule 1). Paged: a list over the fleet does not outgrow a record.

use super::Body;
use serde::{Deserialize, Serialize};

/// One page of a certificate's text, in order; the pages joined are its canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CertificatePage {
    /// This page's part of the text.
    pub text: String,
}

impl Body for CertificatePage {
    const SCHEMA: u32 = 1;
}
