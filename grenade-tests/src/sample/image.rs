//! The words of the catalogue: an image, who may see it, and what a client may ask for. Parsed at the border.

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::sample::edition::Edition;

/// Who may see an image, in the form that both editions agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Every caller.
    Public,
    /// Its owner.
    Private,
    /// Its owner and its members.
    Shared,
}

impl Audience {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Shared => "shared",
        }
    }

    /// Reads the word that a statement answered.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Public, Self::Private, Self::Shared].into_iter().find(|audience| audience.as_str() == word)
    }
}

/// One image as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The client's name for it.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// Who may see it.
    pub audience: Audience,
    /// Bytes of its file.
    pub size: i64,
    /// sha256 of its file in hex, or empty before an upload.
    pub checksum: String,
    /// The service version that wrote the row last.
    pub written_by: i32,
}

impl Image {
    /// The answer: the stable form, and beside it the edition's own field.
    pub fn to_json(&self, edition: &Edition) -> Value {
        let (own, value) = (edition.own_field)(self.audience);
        json!({
            "id": self.id,
            "name": self.name,
            "public": self.audience == Audience::Public,
            "shared": self.audience == Audience::Shared,
            "size": self.size,
            "checksum": self.checksum,
            "written_by": self.written_by,
            own: value,
        })
    }
}

/// Why a request's words were refused; the text is the answer to the client.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Malformed(pub String);

/// An identifier of an image or a member: 1 to 64 of letters, digits, `-`, `_` and `.`.
pub fn parse_id(text: &str) -> Result<String, Malformed> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 64 || !text.chars().all(allowed) {
        let shown: String = text.chars().take(80).collect();
        return Err(Malformed(format!(
            "`{shown}` is no identifier; 1 to 64 letters, digits, `-`, `_` or `.` are allowed"
        )));
    }
    Ok(text.to_owned())
}

/// What a client wants an image to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRequest {
    /// The identifier, where the client chose one.
    pub id: Option<String>,
    /// A name for people: 1 to 255 bytes, no control characters.
    pub name: String,
    /// Whether every caller may see it; absent means no.
    pub public: bool,
}

impl ImageRequest {
    /// Reads a JSON body: `name`, and optionally `id`, `public`, or the edition's own field.
    pub fn parse(bytes: &[u8], edition: &Edition) -> Result<Self, Malformed> {
        let body: Value =
            serde_json::from_slice(bytes).map_err(|e| Malformed(format!("the body is not JSON: {e}")))?;
        let Value::Object(body) = body else {
            return Err(Malformed("the body is JSON but not an object; {\"name\": …} is allowed".to_owned()));
        };
        refuse_unknown(&body, edition)?;
        let id = match body.get("id") {
            None => None,
            Some(Value::String(id)) => Some(parse_id(id)?),
            Some(other) => return Err(Malformed(format!("`id` is {other}; a string is allowed"))),
        };
        Ok(Self { id, name: name_of(&body)?, public: public_of(&body, edition)? })
    }
}

fn refuse_unknown(body: &Map<String, Value>, edition: &Edition) -> Result<(), Malformed> {
    let known = ["id", "name", "public", edition.own_field_name];
    match body.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let shown: String = key.chars().take(80).collect();
            Err(Malformed(format!("`{shown}` is not a field of an image; allowed are {}", known.join(", "))))
        }
    }
}

fn name_of(body: &Map<String, Value>) -> Result<String, Malformed> {
    match body.get("name") {
        Some(Value::String(name))
            if (1..=255).contains(&name.len()) && !name.chars().any(char::is_control) =>
        {
            Ok(name.clone())
        }
        Some(Value::String(_)) => {
            Err(Malformed("`name` must be 1 to 255 bytes without control characters".to_owned()))
        }
        Some(other) => Err(Malformed(format!("`name` is {other}; a string is allowed"))),
        None => Err(Malformed("`name` is missing".to_owned())),
    }
}

fn public_of(body: &Map<String, Value>, edition: &Edition) -> Result<bool, Malformed> {
    let stable = match body.get("public") {
        None => None,
        Some(Value::Bool(public)) => Some(*public),
        Some(other) => return Err(Malformed(format!("`public` is {other}; true or false is allowed"))),
    };
    let own = (edition.own_audience)(body).map_err(Malformed)?;
    match (stable, own) {
        (Some(a), Some(b)) if a != b => {
            Err(Malformed(format!("`public` and `{}` contradict each other", edition.own_field_name)))
        }
        (a, b) => Ok(a.or(b).unwrap_or(false)),
    }
}
