//! Who may call: a principal with a role, known by the digest of a bearer token or by the subject of a certificate.
//! The token itself is nowhere. One that was revoked stays, so that the history can be read.

use super::{Body, Timestamp};
use crate::word::words;
use crate::{Digest, PrincipalName};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a principal may do; each role includes the ones before it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look at everything, change nothing.
    Read,
    /// Create and roll back compute releases, and what belongs to them.
    Release,
    /// Everything: upgrades, the fleet, and who may call.
    Operate,
}

impl Role {
    /// All of them, from the least.
    pub const ALL: [Self; 3] = [Self::Read, Self::Release, Self::Operate];
}

words!(Role, NotARole, "{0:?} is not a role: read, release and operate are allowed");

/// The common name of a certificate's subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommonName(String);

/// The longest common name: X.520's upper bound.
const LONGEST_COMMON_NAME: usize = 64;

/// A text that no certificate has as its common name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a certificate's common name: 1 to {LONGEST_COMMON_NAME} characters are allowed, none of them a control character, with no space at either end"
)]
pub struct NotACommonName(String);

impl FromStr for CommonName {
    type Err = NotACommonName;
    fn from_str(text: &str) -> Result<Self, NotACommonName> {
        let count = text.chars().count();
        let good = (1..=LONGEST_COMMON_NAME).contains(&count)
            && text.trim() == text
            && !text.chars().any(char::is_control);
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotACommonName(text.chars().take(LONGEST_COMMON_NAME).collect()))
        }
    }
}

impl TryFrom<String> for CommonName {
    type Error = NotACommonName;
    fn try_from(text: String) -> Result<Self, NotACommonName> {
        text.parse()
    }
}

impl From<CommonName> for String {
    fn from(name: CommonName) -> String {
        name.0
    }
}

impl fmt::Display for CommonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// By what a principal is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// A caller with the token that has this sha256.
    Digest(Digest),
    /// A caller with a certificate of this subject, signed by the authority that the coordinators trust.
    Certificate(CommonName),
}

/// Who took it back, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revoked {
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

/// One way for a principal to prove who calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The caller's name: the `who` of events and records.
    pub name: PrincipalName,
    /// What they may do.
    pub role: Role,
    /// By what they are known.
    pub credential: Credential,
    /// Who made it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Until when it is good, by the clock of the coordinator that is called; none = until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// It was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

impl Token {
    /// Whether it is past its time. Like every permission that expires, this is asked of a clock.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|until| until <= now)
    }
}

impl Body for Token {
    const SCHEMA: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_includes_the_ones_before_it() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(role.word().parse(), Ok(role));
        }
        for bad in ["", "Read", "admin", "operate "] {
            assert!(bad.parse::<Role>().is_err(), "{bad:?} was taken for a role");
        }
    }

    #[test]
    fn a_common_name_is_one_line_and_bounded() {
        for good in ["ci", "ci runner 7", "ada@example.org", "Ünïcode", &"x".repeat(64)] {
            assert!(good.parse::<CommonName>().is_ok(), "{good:?} was refused");
        }
        for bad in ["", " ci", "ci ", "a\nb", "a\0", &"x".repeat(65)] {
            assert!(bad.parse::<CommonName>().is_err(), "{bad:?} was taken for a common name");
        }
    }
}
