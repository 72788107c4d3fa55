//! The service version: an order, and nothing else.

use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use std::str::FromStr;

/// An integer from 1 to 2147483647, bumped with every change that other nodes or the schema must know of. It has
/// no meaning but its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ServiceVersion(u32);

/// A number that is no service version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a service version: a whole number from 1 to {max} is allowed", max = ServiceVersion::MAX.0)]
pub struct NotAVersion(String);

impl ServiceVersion {
    /// The lowest; and what a program from before versioning is taken for (Nova: absent reads as 1).
    pub const ABSENT: Self = Self(1);
    /// The highest (Nova's column is a signed 32-bit integer).
    pub const MAX: Self = Self(i32::MAX as u32);

    /// The version `number`, if it is one.
    pub fn new(number: i64) -> Result<Self, NotAVersion> {
        match u32::try_from(number) {
            Ok(n) if (1..=Self::MAX.0).contains(&n) => Ok(Self(n)),
            _ => Err(NotAVersion(number.to_string())),
        }
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// What a missing version reads as (Nova: absent reads as 1). For serde's `default`.
    pub fn absent() -> Option<Self> {
        Some(Self::ABSENT)
    }
}

impl Default for ServiceVersion {
    fn default() -> Self {
        Self::ABSENT
    }
}

impl fmt::Display for ServiceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for ServiceVersion {
    type Err = NotAVersion;
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let shown = || NotAVersion(format!("{:?}", text.chars().take(40).collect::<String>()));
        if !plain {
            return Err(shown());
        }
        Self::new(text.parse().map_err(|_| shown())?)
    }
}

impl<'de> Deserialize<'de> for ServiceVersion {
    /// Only a whole JSON number in range: a float, a string, zero or a negative number is malformed.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ServiceVersion;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a service version, a whole number from 1 to {}", ServiceVersion::MAX)
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<ServiceVersion, E> {
                ServiceVersion::new(n).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<ServiceVersion, E> {
                i64::try_from(n)
                    .map_err(|_| E::custom(NotAVersion(n.to_string())))
                    .and_then(|n| self.visit_i64(n))
            }
        }
        // Not `_i64`: YAML would hand over a quoted number as a number.
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_in_range_are_versions() {
        for bad in ["0", "-1", "2147483648", "1.0", "1.5", "\"2\"", "null", "true", "99999999999999999999"] {
            assert!(serde_json::from_str::<ServiceVersion>(bad).is_err(), "{bad} was taken for a version");
        }
        for good in ["1", "2147483647"] {
            assert!(serde_json::from_str::<ServiceVersion>(good).is_ok(), "{good} was refused");
        }
        for bad in ["", " 1", "1 ", "+1", "0", "0x1", "one"] {
            assert!(bad.parse::<ServiceVersion>().is_err(), "{bad:?} was taken for a version");
        }
    }
}
