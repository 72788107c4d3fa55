//! Durations as people write them in a spec: `10s`, `5m`, `500ms`.

use crate::text::parsed_from_text;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A span of time, never negative, written like `10s`, `1m 30s` or `500ms`; kept in whole milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct Span(u64);

parsed_from_text!(Span);

/// A text that is no span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a duration: a number with a unit is allowed, such as 500ms, 10s, 5m or 1h, from 0s to 365days"
)]
pub struct NotASpan(String);

impl Span {
    const LONGEST: u64 = 365 * 24 * 3600 * 1000;

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1000)
    }

    /// In milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        Duration::from_millis(span.0)
    }
}

impl FromStr for Span {
    type Err = NotASpan;
    fn from_str(text: &str) -> Result<Self, NotASpan> {
        let refused = || NotASpan(text.chars().take(40).collect());
        let parsed = humantime::parse_duration(text).map_err(|_| refused())?;
        let ms = u64::try_from(parsed.as_millis()).map_err(|_| refused())?;
        if ms > Self::LONGEST { Err(refused()) } else { Ok(Self(ms)) }
    }
}

impl TryFrom<String> for Span {
    type Error = NotASpan;
    fn try_from(text: String) -> Result<Self, NotASpan> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> String {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&humantime::format_duration(Duration::from_millis(self.0)).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_never_negative_or_bare() {
        for bad in ["-1s", "10", "", "ten", "1y 1y", "NaN"] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?} was taken for a duration");
        }
        for text in ["0s", "500ms", "1m 30s", "10m"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }
}
