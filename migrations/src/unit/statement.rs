//! SQL as tokens: enough to split, to normalise and to lint, and no grammar.
//!
//! Comments and spacing carry no meaning; strings, quoted names and dollar-quoted bodies are kept
//! byte for byte.

use serde::{Deserialize, Serialize, Serializer};

/// One SQL statement, or one expression: as written, and as tokens.
#[derive(Debug, Clone)]
pub struct Statement {
    text: String,
    tokens: Vec<Token>,
}

/// A token. Words keep their spelling; they compare without case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Word(String),
    Quoted(String),
    Text(String),
    Number(String),
    Mark(char),
}

impl Token {
    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(w) if w.eq_ignore_ascii_case(word))
    }

    fn spelled(&self) -> String {
        match self {
            Token::Word(t) | Token::Quoted(t) | Token::Text(t) | Token::Number(t) => t.clone(),
            Token::Mark(c) => c.to_string(),
        }
    }

    /// As a name: a word, or a quoted name without its quotes.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Token::Word(w) => Some(w.to_ascii_lowercase()),
            Token::Quoted(q) => Some(q.trim_matches('"').to_owned()),
            _ => None,
        }
    }
}

impl Statement {
    /// Splits a script at its semicolons. What is cut off in the middle (an open string, comment or
    /// block) is an error in words.
    pub fn script(text: &str) -> Result<Vec<Statement>, String> {
        let mut statements = Vec::new();
        let mut scan = Scan { rest: text };
        loop {
            scan.skip_blank()?;
            let start = scan.rest;
            let mut tokens = Vec::new();
            // Behind the last token: a comment after it would hide what is written behind an expression.
            let (mut depth, mut end) = (0_usize, 0);
            loop {
                match scan.next()? {
                    None if depth > 0 => return Err("a block that begins is not ended".into()),
                    None => break,
                    Some(Token::Mark(';')) if depth == 0 => break,
                    Some(token) => {
                        depth = block_depth(&tokens, &token, depth);
                        tokens.push(token);
                        end = start.len() - scan.rest.len();
                    }
                }
                scan.skip_blank()?;
            }
            if !tokens.is_empty() {
                statements.push(Statement { text: start[..end].to_owned(), tokens });
            } else if scan.rest.is_empty() {
                return Ok(statements);
            }
        }
    }

    /// Exactly one statement or expression.
    pub fn single(text: &str) -> Result<Statement, String> {
        let mut all = Statement::script(text)?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(one),
            (None, _) => Err("it is empty".into()),
            _ => Err("it holds several statements; allowed is one".into()),
        }
    }

    /// As written, without what follows the last token.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Without comments, one space between tokens.
    pub fn normal(&self) -> String {
        self.tokens.iter().map(Token::spelled).collect::<Vec<_>>().join(" ")
    }

    /// For messages: the first line, at most 120 characters.
    pub fn first_line(&self) -> String {
        self.text.lines().next().unwrap_or_default().chars().take(120).collect()
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The table whose form it changes, with the qualifier that is written, where that can be seen from the words.
    pub(crate) fn table(&self) -> Option<String> {
        let after = |word: &str| {
            let at = self.tokens.iter().position(|t| t.is(word))?;
            let skipped = ["IF", "NOT", "EXISTS", "ONLY"];
            let begins = self.tokens[at + 1..].iter().position(|t| !skipped.iter().any(|w| t.is(w)))?;
            qualified(&self.tokens[at + 1 + begins..]).map(|(name, _)| name)
        };
        let second = self.tokens.get(1)?;
        if second.is("TABLE") { after("TABLE") } else { after("ON") }
    }
}

/// The name with which these tokens begin, with its qualifier (`app.things`), and what follows it. Nothing where a part
/// is missing.
pub(crate) fn qualified(tokens: &[Token]) -> Option<(String, &[Token])> {
    let (first, mut rest) = tokens.split_first()?;
    let mut name = first.name()?;
    while let [Token::Mark('.'), after @ ..] = rest {
        let (part, after) = after.split_first()?;
        name.push('.');
        name.push_str(&part.name()?);
        rest = after;
    }
    Some((name, rest))
}

/// Blocks with semicolons inside: bodies of triggers and SQL-standard functions.
fn block_depth(before: &[Token], token: &Token, depth: usize) -> usize {
    let creates = before.first().is_some_and(|t| t.is("CREATE"));
    if !creates {
        depth
    } else if token.is("BEGIN") || (depth > 0 && token.is("CASE")) {
        depth + 1
    } else if token.is("END") {
        depth.saturating_sub(1)
    } else {
        depth
    }
}

impl Serialize for Statement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.normal())
    }
}

/// From a TOML string: one expression or query.
impl<'de> Deserialize<'de> for Statement {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Statement::single(&text)
            .map_err(|why| serde::de::Error::custom(format!("not one SQL expression: {why}")))
    }
}

struct Scan<'a> {
    rest: &'a str,
}

impl Scan<'_> {
    fn take(&mut self, bytes: usize) -> String {
        let (head, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        head.to_owned()
    }

    fn skip_blank(&mut self) -> Result<(), String> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with("--") {
                self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
            } else if self.rest.starts_with("/*") {
                let end = comment_end(self.rest).ok_or("a comment that begins is not ended")?;
                self.rest = &self.rest[end..];
            } else {
                return Ok(());
            }
        }
    }

    /// The next token; blanks before it were skipped.
    fn next(&mut self) -> Result<Option<Token>, String> {
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let escapes = self.rest.starts_with("E'") || self.rest.starts_with("e'");
        Ok(Some(match first {
            '\'' => Token::Text(self.quoted('\'', 0, false)?),
            _ if escapes => Token::Text(self.quoted('\'', 1, true)?),
            '"' => Token::Quoted(self.quoted('"', 0, false)?),
            '$' if dollar_tag(self.rest).is_some() => Token::Text(self.dollar_quoted()?),
            c if c.is_alphabetic() || c == '_' || c == '$' => {
                let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
                Token::Word(self.take(self.rest.find(|c| !word(c)).unwrap_or(self.rest.len())))
            }
            c if c.is_ascii_digit() => {
                let number = |c: char| c.is_ascii_alphanumeric() || c == '.';
                Token::Number(self.take(self.rest.find(|c| !number(c)).unwrap_or(self.rest.len())))
            }
            c => {
                self.take(c.len_utf8());
                Token::Mark(c)
            }
        }))
    }

    fn quoted(&mut self, quote: char, skip: usize, escapes: bool) -> Result<String, String> {
        let mut chars = self.rest.char_indices().skip(skip + 1).peekable();
        while let Some((at, c)) = chars.next() {
            if escapes && c == '\\' {
                chars.next();
            } else if c == quote {
                match chars.peek() {
                    Some((_, next)) if *next == quote => {
                        chars.next();
                    }
                    _ => return Ok(self.take(at + 1)),
                }
            }
        }
        Err(format!("a quote {quote} that begins is not ended"))
    }

    fn dollar_quoted(&mut self) -> Result<String, String> {
        let tag = dollar_tag(self.rest).unwrap_or_default().to_owned();
        let body = &self.rest[tag.len()..];
        let end = body.find(&tag).ok_or_else(|| format!("a body that begins with {tag} is not ended"))?;
        Ok(self.take(end + 2 * tag.len()))
    }
}

/// `$$` or `$word$` at the start.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 1;
    let tag = &text[1..end];
    let plain = tag.chars().all(|c| c.is_alphanumeric() || c == '_');
    let digit = tag.starts_with(|c: char| c.is_ascii_digit());
    (plain && !digit).then(|| &text[..=end])
}

/// Block comments nest, as in PostgreSQL.
fn comment_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Splits at commas that are in no parentheses.
pub(crate) fn split_top(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => depth -= 1,
            Token::Mark(',') if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> Vec<String> {
        Statement::script(text).unwrap().iter().map(Statement::normal).collect()
    }

    #[test]
    fn comments_and_spacing_carry_no_meaning() {
        let plain = normal("ALTER TABLE t ADD COLUMN c text; DROP TABLE u");
        let noisy = normal(
            "-- why; not\nALTER  TABLE t /* a /* nested; */ one */ ADD\n COLUMN c text;;\nDROP TABLE u;\n--x",
        );
        assert_eq!(plain, noisy);
        assert_eq!(plain.len(), 2);
    }

    #[test]
    fn comment_behind_an_expression_is_no_part_of_it() {
        for text in ["v IS NULL -- why", "v IS NULL /* why */ -- not", " v IS NULL; -- why"] {
            assert_eq!(Statement::single(text).unwrap().text(), "v IS NULL");
        }
        let within = "v IS NULL -- why\nAND w = '--'";
        assert_eq!(Statement::single(&format!("{within} --")).unwrap().text(), within);
    }

    #[test]
    fn strings_names_and_bodies_are_kept() {
        let text = "SELECT 'it''s;', E'a\\';b', \"odd;name\", $f$ BEGIN; -- kept\n END $f$";
        let one = Statement::single(text).unwrap();
        assert!(one.normal().contains("'it''s;'") && one.normal().contains("-- kept"), "{}", one.normal());
        assert_eq!(one.text(), text);
    }

    #[test]
    fn a_trigger_body_is_one_statement() {
        let text = "CREATE TRIGGER a AFTER INSERT ON t BEGIN UPDATE t SET x = CASE WHEN y THEN 1 END; DELETE FROM u; END; DROP TABLE v";
        assert_eq!(normal(text).len(), 2);
    }

    #[test]
    fn truncated_statement_is_refused() {
        for text in ["SELECT 'a", "SELECT $$ a", "/* a", "CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1;"]
        {
            assert!(Statement::script(text).is_err(), "{text}");
        }
        assert!(Statement::single("  ").is_err());
        assert!(Statement::single("a; b").is_err());
    }

    #[test]
    fn the_table_is_seen() {
        let table = |t: &str| Statement::single(t).unwrap().table();
        assert_eq!(table("ALTER TABLE IF EXISTS only \"images\" ADD x int").as_deref(), Some("images"));
        assert_eq!(table("CREATE INDEX i ON Images (a)").as_deref(), Some("images"));
        assert_eq!(table("ALTER TABLE App.\"Things\" ADD x int").as_deref(), Some("app.Things"));
    }
}
