//! Text in pieces, each with a tone: cut and wrapped by display width, so that no line wraps on the terminal.

use std::fmt::Write as _;
use tidegate_proto::printable::one_line;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a piece of text means to its reader; the colour follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Neither good nor bad.
    Plain,
    /// Read first.
    Strong,
    /// Read last.
    Faint,
    /// As it should be.
    Good,
    /// Under way, or a person is needed.
    Warn,
    /// Failed.
    Bad,
}

impl Tone {
    /// The tone of a phase.
    pub fn of_phase(phase: &str) -> Self {
        match phase {
            "completed" => Self::Good,
            "failed" => Self::Bad,
            "rolling-back" | "rolled-back" => Self::Warn,
            _ => Self::Strong,
        }
    }

    /// The tone of a word about an instance: its rotation, its health or its step.
    pub fn of_instance(word: &str) -> Self {
        match word {
            "in" | "healthy" => Self::Good,
            "unhealthy" | "silent" | "failed" | "refused" | "not-answering" => Self::Bad,
            "leaving" | "out" | "returning" | "maintenance" | "draining" | "drained" | "replacing"
            | "verifying" | "starting" | "stopped" => Self::Warn,
            _ => Self::Plain,
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
        }
    }

    /// The text, in this tone where colours are on.
    pub fn paint(self, text: &str, colour: bool) -> String {
        match self.code().filter(|_| colour && !text.is_empty()) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

/// A line of text. Pieces are escaped as they are added ([`one_line`]): none holds a control sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(Vec<(Tone, String)>);

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// With another piece at its end.
    pub fn with(mut self, tone: Tone, text: impl AsRef<str>) -> Self {
        self.0.push((tone, one_line(text.as_ref()).into_owned()));
        self
    }

    /// With another line at its end.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// Cut to so many columns.
    pub fn text(&self, width: usize, colour: bool) -> String {
        let (mut text, mut left) = (String::new(), width);
        for (tone, piece) in &self.0 {
            let shown = cut(piece, left);
            let _ = write!(text, "{}", tone.paint(shown, colour));
            left -= shown.width();
            if shown.len() < piece.len() {
                break;
            }
        }
        text
    }
}

/// The beginning of a text, of at most so many columns.
pub fn cut(text: &str, width: usize) -> &str {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += c.width().unwrap_or(0);
        if taken > width {
            return &text[..at];
        }
    }
    text
}

/// A text in lines of at most so many columns, broken at spaces where there are any.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let (width, mut lines, mut line) = (width.max(1), Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        let mut word = word;
        while word.width() > width {
            // A character that is wider than the line is shown alone.
            let first = word.chars().next().map_or(0, char::len_utf8);
            let (head, rest) = word.split_at(cut(word, width).len().max(first));
            lines.push(head.to_owned());
            word = rest;
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// How much is done: `[####....]`.
pub fn bar(done: u32, of: u32, width: usize) -> String {
    let full = if of == 0 { 0 } else { (width as u64 * u64::from(done.min(of)) / u64::from(of)) as usize };
    format!("[{}{}]", "#".repeat(full), ".".repeat(width - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_cut_by_display_width_and_without_its_colours() {
        let line = Line::new().with(Tone::Strong, "tide").with(Tone::Plain, "g\u{e4}te").with(Tone::Bad, "x");
        assert_eq!(line.text(6, true), "\x1b[1mtide\x1b[0mg\u{e4}");
        assert_eq!((line.text(99, false), line.width()), ("tideg\u{e4}tex".to_owned(), 9));
        let wide = Line::new().with(Tone::Plain, "\u{6f6e}\u{6c50}");
        assert_eq!((wide.text(3, false), wide.width()), ("\u{6f6e}".to_owned(), 4));
    }

    #[test]
    fn control_sequence_in_a_piece_is_escaped() {
        assert_eq!(Line::new().with(Tone::Plain, "a\x1b[2J\n").text(99, true), "a\\u001b[2J\\n");
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_a_long_word_anywhere() {
        assert_eq!(wrap("n1 leaves rotation", 9), ["n1 leaves", "rotation"]);
        assert_eq!(wrap("a abcdefgh", 4), ["a", "abcd", "efgh"]);
        assert_eq!(wrap("\u{6f6e}\u{6f6e}", 1), ["\u{6f6e}", "\u{6f6e}"]);
        assert!(wrap("", 4).is_empty());
    }

    #[test]
    fn bar_is_full_only_when_all_are_done() {
        assert_eq!(
            [bar(0, 0, 4), bar(3, 4, 4), bar(99, 100, 4), bar(9, 4, 4)],
            ["[....]", "[###.]", "[###.]", "[####]"]
        );
    }
}
