//! Quotes answers of addresses in reasons and errors: short, and of printable characters only.

use crate::host::NoAnswer;
use bytes::Bytes;
use http::StatusCode;

/// How many characters of an answer are quoted.
const QUOTED: usize = 80;

/// An answer in words.
pub(crate) fn answer(answer: &Result<(StatusCode, Bytes), NoAnswer>) -> String {
    match answer {
        Ok((status, body)) => match printable(&String::from_utf8_lossy(body)) {
            body if body.is_empty() => status.as_u16().to_string(),
            body => format!("{} {body:?}", status.as_u16()),
        },
        Err(none) => printable(&none.to_string()),
    }
}

/// The beginning of a text, each run of blanks and control characters as one space.
pub(crate) fn printable(text: &str) -> String {
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let joined = text.split(blank).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match joined.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &joined[..end]),
        None => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answer_with_control_characters_is_short_and_printable() {
        let body = format!("DB\x1b[31m\r\n\tDOWN {}", "x".repeat(500));
        let words = answer(&Ok((StatusCode::SERVICE_UNAVAILABLE, body.into_bytes().into())));
        assert!(words.starts_with("503 \"DB [31m DOWN xxx") && words.ends_with("x…\""), "{words}");
        assert!(words.chars().count() <= QUOTED + 7 && !words.contains(char::is_control), "{words}");
    }
}
