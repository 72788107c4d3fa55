//! Whole numbers within limits, as they are written in YAML: one that is not names the limits.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// Reads a whole number from `LEAST` to `MOST`.
///
/// # Errors
/// When it is none of these.
pub fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>, const LEAST: u64, const MOST: u64>(
    deserializer: D,
) -> Result<T, D::Error> {
    Within::<T, LEAST, MOST>::deserialize(deserializer).map(|within| within.0)
}

/// The same for a field that may be absent.
///
/// # Errors
/// As [`whole`].
pub fn whole_if_any<'de, D: Deserializer<'de>, T: TryFrom<u64>, const LEAST: u64, const MOST: u64>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<Within<T, LEAST, MOST>>::deserialize(deserializer).map(|within| within.map(|within| within.0))
}

/// The same for a list.
///
/// # Errors
/// As [`whole`].
pub fn all_whole<'de, D: Deserializer<'de>, T: TryFrom<u64>, const LEAST: u64, const MOST: u64>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let all = Vec::<Within<T, LEAST, MOST>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|within| within.0).collect())
}

struct Within<T, const LEAST: u64, const MOST: u64>(T);

impl<'de, T: TryFrom<u64>, const LEAST: u64, const MOST: u64> Deserialize<'de> for Within<T, LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not `_u64`: a reader of YAML has words of its own for what is no number, with the limits of its type.
        deserializer.deserialize_any(Numbers::<T, LEAST, MOST>(PhantomData)).map(Self)
    }
}

struct Numbers<T, const LEAST: u64, const MOST: u64>(PhantomData<T>);

impl<T: TryFrom<u64>, const LEAST: u64, const MOST: u64> Visitor<'_> for Numbers<T, LEAST, MOST> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {LEAST} to {MOST}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let within = Some(number).filter(|number| (LEAST..=MOST).contains(number));
        let within = within.and_then(|number| T::try_from(number).ok());
        within.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        match text.parse() {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}
