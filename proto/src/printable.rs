//! The one function through which text from outside (records, files, hooks, other programs) reaches a terminal, a table
//! or a log.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// The text in one line, with nothing in it that a terminal acts on: control characters, line and paragraph separators
/// and characters that change the direction of text become JSON escapes (`\n`, `\u001b`), so that the result is also
/// valid where the text was JSON.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if acts(c) => drop(write!(escaped, "\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes one line to stderr. `eprintln!` panics where the pipe is closed or the disk is full; here the line is lost, and
/// the caller goes on to its exit code.
pub fn to_stderr(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A writer of log events: each `write` is one event, and becomes one line.
#[derive(Debug)]
pub struct OneLineEach<W>(pub W);

impl<W: Write> Write for OneLineEach<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = one_line(text.strip_suffix('\n').unwrap_or(&text));
        self.0.write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_and_line_ends_become_text() {
        assert_eq!(one_line("ü is \\ fine"), "ü is \\ fine");
        assert_eq!(one_line("a\u{1b}[2J\nb\r\tc\u{9b}1m"), "a\\u001b[2J\\nb\\r\\tc\\u009b1m");
        assert_eq!(one_line("\u{202e}evil\u{2066}\u{2028}\u{7f}"), "\\u202eevil\\u2066\\u2028\\u007f");
    }

    #[test]
    fn event_of_several_lines_is_logged_as_one() {
        let mut log = OneLineEach(Vec::new());
        log.write_all(b"INFO n1 says: gone\n2026 INFO forged\x1b[2J\xff\n").unwrap();
        log.write_all(b"next\n").unwrap();
        let logged = String::from_utf8(log.0).unwrap();
        assert_eq!(logged, "INFO n1 says: gone\\n2026 INFO forged\\u001b[2J\u{fffd}\nnext\n");
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            prop_assert!(!one_line(&text).contains(acts));
        }

        #[test]
        fn json_stays_the_same_value(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&one_line(&json)).unwrap(), text);
        }
    }
}
