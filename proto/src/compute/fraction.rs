//! A share of computes: above 0, at most 1, in millionths.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

const WHOLE: u32 = 1_000_000;

/// A share of the starts of computes, above 0 and at most 1; written `0.05`, kept in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u32);

/// A number that is no fraction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a fraction of starts: a number from 0.000001 to 1, such as 0.05, is allowed")]
pub struct NotAFraction(String);

impl Fraction {
    /// All of them.
    pub const ALL: Self = Self(WHOLE);

    /// This share, to the nearest millionth.
    pub fn new(share: f64) -> Result<Self, NotAFraction> {
        let millionths = (share * f64::from(WHOLE)).round();
        if share > 0.0 && (1.0..=f64::from(WHOLE)).contains(&millionths) && share <= 1.0 {
            return Ok(Self(millionths as u32));
        }
        Err(NotAFraction(share.to_string()))
    }

    /// In millionths, 1 to 1,000,000.
    pub fn millionths(self) -> u32 {
        self.0
    }
}

impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> f64 {
        f64::from(fraction.0) / f64::from(WHOLE)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&f64::from(*self), f)
    }
}

impl FromStr for Fraction {
    type Err = NotAFraction;
    fn from_str(text: &str) -> Result<Self, NotAFraction> {
        let refused = || NotAFraction(format!("{:?}", text.chars().take(40).collect::<String>()));
        text.parse().ok().and_then(|share| Self::new(share).ok()).ok_or_else(refused)
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64((*self).into())
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Fraction;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a fraction of starts, a number above 0 and at most 1")
            }
            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Fraction, E> {
                Fraction::new(share).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, share: u64) -> Result<Fraction, E> {
                self.visit_f64(share as f64)
            }
            fn visit_i64<E: de::Error>(self, share: i64) -> Result<Fraction, E> {
                self.visit_f64(share as f64)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_above_0_and_at_most_1() {
        for bad in ["0", "0.0", "-0.1", "1.0000001", "2", "\"0.5\"", "1e-9", "null", "1e400"] {
            assert!(serde_json::from_str::<Fraction>(bad).is_err(), "{bad} was taken for a fraction");
        }
        for bad in ["NaN", "inf", "", "5%"] {
            assert!(bad.parse::<Fraction>().is_err(), "{bad:?} was taken for a fraction");
        }
        assert_eq!(serde_json::from_str::<Fraction>("1").unwrap(), Fraction::ALL);
    }

    #[test]
    fn every_millionth_is_written_and_read_back() {
        for millionths in (1..=1_000_000).step_by(977) {
            let written = serde_json::to_string(&Fraction(millionths)).unwrap();
            assert_eq!(
                serde_json::from_str::<Fraction>(&written).unwrap(),
                Fraction(millionths),
                "{written}"
            );
        }
    }
}
