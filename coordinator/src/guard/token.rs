//! The text of a token: `tgt_<id>_<secret>`, made here of 256 bits of randomness, shown once, kept nowhere but as its
//! sha256. A coordinator's own token file may hold any text that is long enough.

use rand::TryRng;
use rand::rngs::SysRng;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use subtle::ConstantTimeEq;
use tidegate_proto::{Digest, TokenId};
use tonic::metadata::{Ascii, MetadataValue};

/// What every token that is made here begins with, so that scanners for leaked secrets know one.
const BEGINNING: &str = "tgt_";

/// The shortest token: 16 characters of base64 are 96 bits, beyond guessing over a network.
const SHORTEST: usize = 16;

/// The longest that is looked at.
const LONGEST: usize = 512;

/// A token that a caller sends, or that we send. Never printed.
#[derive(Clone)]
pub struct Token(String);

/// A file that holds no token.
#[derive(Debug, thiserror::Error)]
pub enum NoToken {
    /// It cannot be read.
    #[error("could not read the token file {path}")]
    Unreadable {
        path: String,
        #[source]
        source: io::Error,
    },
    /// It cannot be written.
    #[error("could not write the token file {path}")]
    Unwritable {
        path: String,
        #[source]
        source: io::Error,
    },
    /// It holds something else.
    #[error(
        "the token file {0} holds no token: one line of {SHORTEST} to {LONGEST} visible ASCII characters is needed"
    )]
    Malformed(String),
    /// The system has no randomness.
    #[error("the system gave no random bytes to make a token of: {0}")]
    NoRandomness(String),
}

impl Token {
    /// Makes one with this id.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn make(id: &TokenId) -> Result<Self, NoToken> {
        Ok(Self(format!("{BEGINNING}{id}_{}", random::<32>()?)))
    }

    /// Reads the token that a file holds.
    pub fn read(path: &Path) -> Result<Self, NoToken> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| NoToken::Unreadable { path: shown.clone(), source })?;
        Self::of(text.trim()).ok_or(NoToken::Malformed(shown))
    }

    /// The same; where there is no such file, one is made that only its owner can read.
    pub fn keep(path: &Path, id: &TokenId) -> Result<Self, NoToken> {
        match Self::read(path) {
            Err(NoToken::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let token = Self::make(id)?;
        token
            .write(path)
            .map_err(|source| NoToken::Unwritable { path: path.display().to_string(), source })?;
        Ok(token)
    }

    /// The file is there whole or not at all.
    fn write(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("new");
        // What a crash left there may be of another mode.
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        writeln!(file, "{}", self.0)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    }

    fn of(text: &str) -> Option<Self> {
        let good = (SHORTEST..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        good.then(|| Self(text.to_owned()))
    }

    /// The token of an `authorization` header; none where it has none that could be good.
    pub fn of_header(value: &[u8]) -> Option<Self> {
        let (scheme, token) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| Self::of(token.trim())).flatten()
    }

    /// As a call sends it.
    pub fn header(&self) -> MetadataValue<Ascii> {
        let mut value: MetadataValue<Ascii> =
            format!("Bearer {}", self.0).parse().expect("visible ASCII is a header value");
        value.set_sensitive(true);
        value
    }

    /// Its public half, where it has one.
    pub fn id(&self) -> Option<TokenId> {
        let (id, _) = self.0.strip_prefix(BEGINNING)?.rsplit_once('_')?;
        id.parse().ok()
    }

    /// What is kept of it.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// Whether it is the one with this digest. All bytes are compared, whatever the first ones are.
    pub fn is(&self, digest: &Digest) -> bool {
        self.digest().as_bytes().ct_eq(digest.as_bytes()).into()
    }

    /// Its text, for the one time that it is shown.
    pub fn reveal(self) -> String {
        self.0
    }
}

/// A new id that no token has yet.
///
/// # Errors
/// When the system has no randomness.
pub fn new_id() -> Result<TokenId, NoToken> {
    Ok(random::<6>()?.parse().expect("hexadecimal digits are a name"))
}

fn random<const N: usize>() -> Result<String, NoToken> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| NoToken::NoRandomness(error.to_string()))?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_token_itself_has_its_digest() {
        let token = Token::make(&"k1".parse().unwrap()).unwrap();
        let other = Token::make(&"k1".parse().unwrap()).unwrap();
        let presented = Token::of_header(token.header().as_bytes()).unwrap();
        assert!(presented.is(&token.digest()) && !presented.is(&other.digest()));
        assert_eq!(presented.id(), Some("k1".parse().unwrap()));
        assert_eq!(token.reveal().len(), "tgt_k1_".len() + 64, "256 bits");
    }

    #[test]
    fn a_header_bears_a_token_or_none() {
        for good in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef", "BEARER  0123456789abcdef "] {
            assert_eq!(Token::of_header(good.as_bytes()).unwrap().reveal(), "0123456789abcdef");
        }
        let long = format!("Bearer {}", "x".repeat(513));
        for bad in
            ["", "Bearer", "Bearer ", "Bearer short", "0123456789abcdef", "Basic 0123456789abcdef", &long]
        {
            assert!(Token::of_header(bad.as_bytes()).is_none(), "{bad:?} was taken for a token");
        }
        assert!(Token::of_header(b"Bearer \xff123456789abcdef").is_none());
    }

    #[test]
    fn a_kept_token_is_made_once_and_only_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("operator.token");
        let first = Token::keep(&path, &"operator".parse().unwrap()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Token::keep(&path, &"operator".parse().unwrap()).unwrap().is(&first.digest()));
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(Token::keep(&path, &"operator".parse().unwrap()), Err(NoToken::Malformed(_))));
    }
}
