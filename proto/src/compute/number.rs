//! The two numbers of a compute release: its revision, which counts, and its version, which its image carries.

/// A text or number that is neither revision nor version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a {1}: a whole number from 1 to {max} is allowed", max = i64::MAX)]
pub struct NotANumber(pub(crate) String, pub(crate) &'static str);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub struct $name(u64);

        impl $name {
            /// The first.
            pub const FIRST: Self = Self(1);

            /// The one after `last` (none = none was ever given).
            pub fn after(last: Option<Self>) -> Self {
                Self(last.map_or(0, |last| last.0) + 1)
            }

            /// This number, if it is one.
            pub fn new(number: u64) -> Result<Self, $crate::compute::NotANumber> {
                if (1..=i64::MAX as u64).contains(&number) {
                    Ok(Self(number))
                } else {
                    Err($crate::compute::NotANumber(number.to_string(), $word))
                }
            }

            /// The number.
            pub fn get(self) -> u64 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::compute::NotANumber;
            fn from_str(text: &str) -> Result<Self, $crate::compute::NotANumber> {
                let shown = || $crate::compute::NotANumber(format!("{:?}", text.chars().take(40).collect::<String>()), $word);
                if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(shown());
                }
                text.parse().ok().and_then(|n| Self::new(n).ok()).ok_or_else(shown)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            /// Only a whole JSON number in range: a float, a string, zero or a negative number is malformed.
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(f, "a {}, a whole number from 1 to {}", $word, i64::MAX)
                    }
                    fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<$name, E> {
                        $name::new(n).map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<$name, E> {
                        u64::try_from(n)
                            .map_err(|_| E::custom($crate::compute::NotANumber(n.to_string(), $word)))
                            .and_then(|n| self.visit_u64(n))
                    }
                }
                // Not `_u64`: YAML would hand over a quoted number as a number.
                deserializer.deserialize_any(Visitor)
            }
        }
    };
}

pub(crate) use number;

number!(
    /// The place of a compute release in its stream: counted by the stream, never reused.
    ReleaseRevision,
    "revision of a compute release"
);
number!(
    /// The version of a compute image, `9057`. It never falls within a branch, and a tag belongs to one for ever.
    ReleaseVersion,
    "version of a compute release"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_in_range_are_revisions_and_versions() {
        for bad in ["0", "-1", "1.0", "\"2\"", "null", "9223372036854775808", "99999999999999999999"] {
            assert!(serde_json::from_str::<ReleaseRevision>(bad).is_err(), "{bad} was taken for a revision");
            assert!(serde_json::from_str::<ReleaseVersion>(bad).is_err(), "{bad} was taken for a version");
        }
        for bad in ["", " 1", "+1", "0", "0x1", "one"] {
            assert!(bad.parse::<ReleaseRevision>().is_err(), "{bad:?} was taken for a revision");
        }
        assert_eq!("9057".parse::<ReleaseVersion>().unwrap().get(), 9057);
        assert_eq!(ReleaseRevision::after(None), ReleaseRevision::FIRST);
    }
}
