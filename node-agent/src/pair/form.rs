//! A journal in two files: JSON with a schema number, which a version reads up to the one that it writes.

use super::{Kept, Pair};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io;

/// Why what is kept cannot be read.
#[derive(Debug)]
pub(crate) enum NotRead {
    /// What the system said.
    File(io::Error),
    /// It is no such journal; what was found.
    Damaged(String),
    /// A newer agent wrote it, under this schema.
    Newer(u32),
}

#[derive(Deserialize)]
struct Form {
    schema: u32,
}

impl Pair {
    /// Reads what is kept, before anything is written; what was never written is empty.
    pub(crate) fn read_form<T: DeserializeOwned + Default>(&mut self, newest: u32) -> Result<T, NotRead> {
        let bytes = match self.read().map_err(NotRead::File)? {
            Kept::Nothing => return Ok(T::default()),
            Kept::Damaged => return Err(NotRead::Damaged("neither file is whole".to_owned())),
            Kept::Text(bytes) => bytes,
        };
        let damaged = |e: serde_json::Error| NotRead::Damaged(e.to_string());
        let form: Form = serde_json::from_slice(&bytes).map_err(damaged)?;
        if form.schema > newest {
            return Err(NotRead::Newer(form.schema));
        }
        serde_json::from_slice(&bytes).map_err(damaged)
    }

    /// Writes it, as people can read it, and returns when it is on the disk.
    pub(crate) fn write_form<T: Serialize>(&mut self, kept: &T) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(kept).map_err(io::Error::other)?;
        self.write(&bytes)
    }
}
