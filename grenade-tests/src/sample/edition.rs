//! What one version of pantry is: its numbers and its statements. Pure data.
//!
//! Every statement of an edition binds the same arguments and answers the same columns as that of any other, so that the
//! rest of the service never asks which version it is.

use crate::sample::image::Audience;

/// One version of the service.
#[derive(Debug)]
pub struct Edition {
    /// The service version, as reported by `/version`.
    pub version: u32,
    /// The release tag that carries it.
    pub release: &'static str,
    /// The SQL that it speaks. Explicit column lists only: an expand that adds a column must change no answer.
    pub statements: Statements,
    /// The field of its own that an answer carries beside the stable form: name and value.
    pub own_field: fn(Audience) -> (&'static str, serde_json::Value),
    /// Reads the edition's own field in a request body: is the image to be public? `None` when the field is absent.
    pub own_audience: fn(&serde_json::Map<String, serde_json::Value>) -> Result<Option<bool>, String>,
    /// The name of that field, for the sentence that lists what a body may hold.
    pub own_field_name: &'static str,
}

impl Edition {
    /// The same program under a later release `pantry-N.0.0`: a version that needs nothing of the schema beyond this one.
    ///
    /// # Errors
    /// What is wrong with the tag, in words.
    pub fn released_as(&'static self, tag: &str) -> Result<&'static Self, String> {
        let number = tag.strip_prefix("pantry-").and_then(|rest| rest.strip_suffix(".0.0"));
        let version: u32 = number
            .and_then(|number| number.parse().ok())
            .filter(|version| *version >= self.version)
            .ok_or_else(|| format!("{tag:?}: pantry-N.0.0 with N from {} on is allowed", self.version))?;
        if version == self.version {
            return Ok(self);
        }
        // One for the life of the process.
        let statements = &self.statements;
        Ok(Box::leak(Box::new(Self {
            version,
            release: String::leak(tag.to_owned()),
            statements: Statements { ..*statements },
            ..*self
        })))
    }
}

/// The SQL of an edition; `$n` is understood by PostgreSQL and SQLite alike.
#[derive(Debug)]
pub struct Statements {
    /// `$1` id, `$2` name, `$3` public, `$4` size, `$5` checksum, `$6` version, `$7` unix milliseconds.
    pub insert: &'static str,
    /// `$1` id, `$2` name, `$3` public, `$4` version, `$5` unix milliseconds.
    pub update: &'static str,
    /// `$1` id, `$2` size in bytes, `$3` checksum, `$4` version, `$5` unix milliseconds.
    pub upload: &'static str,
    /// `$1` id, `$2` version, `$3` unix milliseconds: what a new member changes in the image's own row.
    pub touch: &'static str,
    /// `$1` id. Answers id, name, audience, size, checksum, written_by.
    pub read: &'static str,
    /// `$1` marker, `$2` limit. Answers the columns of `read`, in order of id.
    pub list: &'static str,
    /// Answers one number: how many reasons the schema gives not to serve yet (bounded, 0 is good).
    pub unready: &'static str,
    /// What a number above 0 means.
    pub unready_means: &'static str,
}
