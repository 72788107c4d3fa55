//! Shares of a fleet: whole percentages from 1 to 100, and amounts that are a number or a percentage.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A whole percentage from 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

impl Percent {
    /// `number` percent.
    pub fn new(number: u64) -> Result<Self, NotAnAmount> {
        match u8::try_from(number) {
            Ok(n @ 1..=100) => Ok(Self(n)),
            _ => Err(NotAnAmount(format!("{number}%"))),
        }
    }

    /// This share of `whole`, rounded up.
    pub fn of_rounded_up(self, whole: usize) -> usize {
        (whole * usize::from(self.0)).div_ceil(100)
    }

    /// This share of `whole`, rounded down.
    pub fn of_rounded_down(self, whole: usize) -> usize {
        whole * usize::from(self.0) / 100
    }
}

/// A number of instances, or a share of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    /// So many.
    Count(u32),
    /// That share.
    Share(Percent),
}

/// A text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an amount: a whole number such as 2, or a percentage from \"1%\" to \"100%\", is allowed"
)]
pub struct NotAnAmount(String);

impl Amount {
    /// Of `whole` instances, rounded up (what must remain, what a step takes).
    pub fn rounded_up(self, whole: usize) -> usize {
        match self {
            Self::Count(n) => n as usize,
            Self::Share(p) => p.of_rounded_up(whole),
        }
    }

    /// Of `whole` instances, rounded down (what may be lost).
    pub fn rounded_down(self, whole: usize) -> usize {
        match self {
            Self::Count(n) => n as usize,
            Self::Share(p) => p.of_rounded_down(whole),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Share(p) => write!(f, "{p}"),
        }
    }
}

impl FromStr for Amount {
    type Err = NotAnAmount;
    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        let refused = || NotAnAmount(text.chars().take(40).collect());
        let (digits, share) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused());
        }
        if share {
            let n = digits.parse().map_err(|_| refused())?;
            return Ok(Self::Share(Percent::new(n).map_err(|_| refused())?));
        }
        Ok(Self::Count(digits.parse().map_err(|_| refused())?))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(n) => serializer.serialize_u32(*n),
            Self::Share(p) => serializer.collect_str(p),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number such as 2, or a percentage from \"1%\" to \"100%\"")
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Amount, E> {
                u32::try_from(n).map(Amount::Count).map_err(|_| E::custom(NotAnAmount(n.to_string())))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Amount, E> {
                u64::try_from(n)
                    .map_err(|_| E::custom(NotAnAmount(n.to_string())))
                    .and_then(|n| self.visit_u64(n))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_from_1_to_100() {
        for bad in ["\"0%\"", "\"101%\"", "\"-1%\"", "-1", "1.5", "\"1.5%\"", "\"%\"", "\"ten\""] {
            assert!(serde_json::from_str::<Amount>(bad).is_err(), "{bad} was taken for an amount");
        }
        assert_eq!(serde_json::from_str::<Amount>("\"5%\"").unwrap().rounded_up(30), 2);
        assert_eq!(serde_json::from_str::<Amount>("\"5%\"").unwrap().rounded_down(30), 1);
        assert_eq!(serde_json::from_str::<Amount>("3").unwrap().rounded_up(30), 3);
    }
}
