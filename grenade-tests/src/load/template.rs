//! Texts and JSON values with `{name}` in them. `{{` and `}}` mean braces.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::load::findings::Findings;

/// A text with places for variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(String),
}

impl Template {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, in words: a brace that is not closed, or no name in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if after.starts_with(brace) {
                plain.push_str(brace);
                rest = &after[1..];
                continue;
            }
            let Some((name, after)) = after.split_once('}').filter(|_| brace == "{") else {
                return Err(format!(
                    "`{text}` has a `{brace}` without its pair; `{brace}{brace}` stands for one"
                ));
            };
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(format!(
                    "`{{{name}}}` in `{text}` is no variable; letters, digits and `_` are allowed"
                ));
            }
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Variable(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// The names in it.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text, with each variable as `value` has it.
    ///
    /// # Errors
    /// The first name that has no value.
    pub fn fill(&self, value: &dyn Fn(&str) -> Option<Value>) -> Result<String, String> {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Variable(name) => match value(name).ok_or_else(|| name.clone())? {
                    Value::String(text) => filled.push_str(&text),
                    // Writing to a string cannot fail.
                    other => drop(write!(filled, "{other}")),
                },
            }
        }
        Ok(filled)
    }

    /// The same as a JSON value: one that is nothing but a variable keeps its type.
    fn value(&self, value: &dyn Fn(&str) -> Option<Value>) -> Result<Value, String> {
        match &self.parts[..] {
            [Part::Variable(name)] => value(name).ok_or_else(|| name.clone()),
            _ => self.fill(value).map(Value::String),
        }
    }

    /// A word of a shell, in which each variable is read from the shell's own of that name.
    pub fn shell_word(&self) -> String {
        let mut word = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => word.push_str(&quoted(text)),
                Part::Variable(name) => drop(write!(word, "\"${name}\"")),
            }
        }
        if word.is_empty() { "''".to_owned() } else { word }
    }
}

/// A text as a shell takes it literally.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A JSON value whose texts are templates.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// A text.
    Text(Template),
    /// Neither text nor collection.
    Plain(Value),
    /// A list.
    List(Vec<Pattern>),
    /// An object; its names are no templates.
    Object(Vec<(String, Pattern)>),
}

impl Pattern {
    /// Reads one.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(text)?),
            Value::Array(items) => Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| Ok((name.clone(), Self::parse(value)?));
                Self::Object(fields.iter().map(field).collect::<Result<_, String>>()?)
            }
            plain => Self::Plain(plain.clone()),
        })
    }

    /// The value, with each variable as `value` has it.
    ///
    /// # Errors
    /// The first name that has no value.
    pub fn fill(&self, value: &dyn Fn(&str) -> Option<Value>) -> Result<Value, String> {
        Ok(match self {
            Self::Text(template) => template.value(value)?,
            Self::Plain(plain) => plain.clone(),
            Self::List(items) => items.iter().map(|item| item.fill(value)).collect::<Result<_, _>>()?,
            Self::Object(fields) => {
                let field = |(name, pattern): &(String, Self)| Ok((name.clone(), pattern.fill(value)?));
                Value::Object(fields.iter().map(field).collect::<Result<Map<_, _>, String>>()?)
            }
        })
    }

    /// The names in it.
    pub fn variables(&self) -> Vec<&str> {
        match self {
            Self::Text(template) => template.variables().collect(),
            Self::Plain(_) => Vec::new(),
            Self::List(items) => items.iter().flat_map(Self::variables).collect(),
            Self::Object(fields) => fields.iter().flat_map(|(_, pattern)| pattern.variables()).collect(),
        }
    }
}

/// Each variable must be one of these.
pub fn known<'a>(
    field: &str,
    variables: impl Iterator<Item = &'a str>,
    allowed: &[&str],
    findings: &mut Findings,
) {
    for variable in variables.filter(|variable| !allowed.contains(variable)) {
        let allowed: Vec<String> = allowed.iter().map(|name| format!("{{{name}}}")).collect();
        findings.add(field, format!("`{{{variable}}}` is not known here; allowed: {}", allowed.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Pattern, Template};

    fn known(name: &str) -> Option<Value> {
        match name {
            "id" => Some(json!("a b")),
            "size" => Some(json!(7)),
            _ => None,
        }
    }

    #[test]
    fn variables_are_filled_and_braces_are_escaped() {
        let filled = Template::parse("/x/{id}?s={size}&{{}}").unwrap().fill(&known);
        assert_eq!(filled, Ok("/x/a b?s=7&{}".to_owned()));
        assert_eq!(Template::parse("{nobody}").unwrap().fill(&known), Err("nobody".to_owned()));
        for bad in ["{", "}", "a{b", "{}", "{a b}"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn value_of_one_variable_keeps_its_type() {
        let pattern =
            Pattern::parse(&json!({"n": "{size}", "t": "{size} bytes", "l": ["{id}", true]})).unwrap();
        assert_eq!(pattern.fill(&known), Ok(json!({"n": 7, "t": "7 bytes", "l": ["a b", true]})));
        assert_eq!(pattern.variables(), ["size", "size", "id"]);
    }

    #[test]
    fn shell_takes_texts_literally() {
        let word = Template::parse("it's $HOME {port}").unwrap().shell_word();
        let said = std::process::Command::new("sh")
            .args(["-c", &format!("port=80; printf %s {word}")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), "it's $HOME 80");
    }
}
