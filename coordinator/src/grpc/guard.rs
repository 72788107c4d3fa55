//! Who may call: whoever bears the token, where there is one. Compared in constant time.

use sha2::{Digest, Sha256};
use std::path::Path;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

/// The shortest token: 16 characters of base64 are 96 bits, beyond guessing over a network.
const SHORTEST: usize = 16;

/// A token that callers must bear, or that we bear. Never printed.
#[derive(Clone)]
pub struct Token(String);

/// A file that holds no token.
#[derive(Debug, thiserror::Error)]
pub enum NoToken {
    /// It cannot be read.
    #[error("could not read the token file {path}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It holds something else.
    #[error(
        "the token file {0} holds no token: one line of at least {SHORTEST} visible ASCII characters is needed"
    )]
    Malformed(String),
}

impl Token {
    /// Reads the token that a file holds.
    pub fn read(path: &Path) -> Result<Self, NoToken> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| NoToken::Unreadable { path: shown.clone(), source })?;
        let token = text.trim();
        let good = token.len() >= SHORTEST && token.bytes().all(|b| b.is_ascii_graphic());
        if good { Ok(Self(token.to_owned())) } else { Err(NoToken::Malformed(shown)) }
    }

    /// As a call bears it.
    pub fn header(&self) -> MetadataValue<tonic::metadata::Ascii> {
        format!("Bearer {}", self.0).parse().expect("visible ASCII is a header value")
    }

    /// Whether a call bears it.
    pub fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let given = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        self.check_header(given)
            .then_some(())
            .ok_or_else(|| Status::unauthenticated("this coordinator asks for a token: give --token-file"))
    }

    /// Whether the value of an `authorization` header bears it.
    pub fn check_header(&self, given: Option<&str>) -> bool {
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        // Digests have one length and no structure that a guess could creep along; all bytes are compared.
        let (ours, theirs) = (Sha256::digest(self.0.as_bytes()), Sha256::digest(given.as_bytes()));
        ours.iter().zip(theirs.iter()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_let_in() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.check_header(Some("Bearer 0123456789abcdef")));
        for bad in
            [None, Some(""), Some("Bearer "), Some("0123456789abcdef"), Some("Bearer 0123456789abcdeF")]
        {
            assert!(!token.check_header(bad), "{bad:?} was let in");
        }
    }
}
