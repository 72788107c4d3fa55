//! A text as tokens: enough to replace, repeat and swap what belongs together, in any of the forms.

use std::ops::Range;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Word,
    /// With its quotes.
    Quoted,
    Blank,
    Mark,
}

/// A token and where it is.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
}

/// Every byte is in one token.
pub(super) fn tokens(text: &[u8]) -> Vec<Token> {
    let mut found = Vec::with_capacity(text.len() / 3);
    let mut at = 0;
    while at < text.len() {
        let while_true = |is: fn(u8) -> bool| at + text[at..].iter().take_while(|b| is(**b)).count();
        let (kind, end) = match text[at] {
            b'0'..=b'9' => (Kind::Number, while_true(|b| b.is_ascii_digit() || b == b'.')),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                (Kind::Word, while_true(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b >= 0x80))
            }
            b' ' | b'\t' => (Kind::Blank, while_true(|b| b == b' ' || b == b'\t')),
            quote @ (b'"' | b'\'') => match text[at + 1..].iter().position(|b| *b == quote || *b == b'\n') {
                Some(end) if text[at + 1 + end] == quote => (Kind::Quoted, at + end + 2),
                _ => (Kind::Mark, at + 1),
            },
            _ => (Kind::Mark, at + 1),
        };
        found.push(Token { kind, at: at..end });
        at = end;
    }
    found
}
