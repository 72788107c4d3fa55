//! Rust source as code, comments and literals: for the tests of its layout and of its prose.

/// What a part of a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Code,
    /// From its `//` to the end of the line.
    Comment,
    /// A string without its quotes.
    Literal,
}

/// A part of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) kind: Kind,
    /// The line on which it begins, from 1.
    pub(crate) line: usize,
    /// What is before it on that line.
    pub(crate) before: &'a str,
    pub(crate) text: &'a str,
}

/// The parts of a source in their order.
pub(crate) fn parts(source: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < source.len() {
        let (kind, begin, end, after) = part(&source[at..]);
        let before = source[..at].rsplit('\n').next().unwrap_or_default();
        parts.push(Part { kind, line, before, text: &source[at + begin..at + end] });
        line += source[at..at + after].matches('\n').count();
        at += after;
    }
    parts
}

/// A source up to its tests.
pub(crate) fn without_tests(source: &str) -> &str {
    source.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default()
}

/// The first part: its kind, where its text begins and ends, and where the next part begins.
fn part(rest: &str) -> (Kind, usize, usize, usize) {
    if rest.starts_with("//") {
        let end = rest.find('\n').unwrap_or(rest.len());
        return (Kind::Comment, 0, end, end);
    }
    if let Some(marks) = marks_of_raw(rest) {
        let (begin, close) = (marks + 2, format!("\"{}", "#".repeat(marks)));
        let end = rest[begin..].find(&close).map_or(rest.len(), |at| begin + at);
        return (Kind::Literal, begin, end, (end + close.len()).min(rest.len()));
    }
    if let Some(literal) = rest.strip_prefix('"') {
        let end = 1 + end_of_literal(literal);
        return (Kind::Literal, 1, end, (end + 1).min(rest.len()));
    }
    let mut end = 0;
    while let Some(next) = rest[end..].chars().next() {
        let here = &rest[end..];
        if here.starts_with("//") || next == '"' || marks_of_raw(here).is_some() {
            break;
        }
        // Letters that would begin or end a literal.
        let letter = ["'\"'", r"'\''", r"'\\'"].into_iter().find(|letter| here.starts_with(letter));
        end += letter.map_or(next.len_utf8(), str::len);
    }
    (Kind::Code, 0, end, end)
}

/// How many `#` a raw literal has that begins here.
fn marks_of_raw(rest: &str) -> Option<usize> {
    let marked = rest.strip_prefix('r')?;
    let literal = marked.trim_start_matches('#');
    literal.starts_with('"').then_some(marked.len() - literal.len())
}

/// The length of a literal up to the quote that ends it.
fn end_of_literal(text: &str) -> usize {
    let mut escaped = false;
    let end = text.find(|letter| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

#[test]
fn source_is_read_as_code_comments_and_literals() {
    let source = "let x = \"a \\\" b\nc\"; // d\n'\"' r#\"e\"f\"#";
    let read: Vec<_> = parts(source).into_iter().map(|part| (part.kind, part.line, part.text)).collect();
    let expected = [
        (Kind::Code, 1, "let x = "),
        (Kind::Literal, 1, "a \\\" b\nc"),
        (Kind::Code, 2, "; "),
        (Kind::Comment, 2, "// d"),
        (Kind::Code, 2, "\n'\"' "),
        (Kind::Literal, 3, "e\"f"),
    ];
    assert_eq!(read, expected);
}
