//! JSON with a schema number in two files. A version reads every schema up to the one that it writes.

use super::{Kept, Pair};
use crate::crash;
use crate::file_error::FileError;
use crate::host::Host;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a [`StateFile`] keeps.
pub(crate) trait State: Serialize + DeserializeOwned + Default {
    /// What messages call it.
    const NAME: &'static str;
    /// The schema number that this version writes, and the highest that it reads.
    const SCHEMA: u32;
    /// What a person does about a damaged one.
    const IF_DAMAGED: &'static str;
    /// The kind of its crash points.
    const CRASH_POINT: &'static str;

    /// The step that is written, for tests that end the agent there.
    fn step(&self) -> String;
}

/// Why what is kept cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It has another form.
    #[error("the {name} {} is damaged: {found}; {}", path.display(), if_damaged)]
    Damaged {
        /// What it is called.
        name: &'static str,
        /// Both files, as a shell names them.
        path: PathBuf,
        found: String,
        /// What to do.
        if_damaged: &'static str,
    },
    /// A newer agent wrote it.
    #[error(
        "the {name} {} has schema {found}, this agent reads up to {newest}: start the newer agent again",
        path.display()
    )]
    Newer {
        /// What it is called.
        name: &'static str,
        /// Both files, as a shell names them.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The highest schema that this agent reads.
        newest: u32,
    },
}

/// Where a `T` is kept: two files of one directory.
#[derive(Debug, Clone)]
pub(crate) struct StateFile<T> {
    /// Both files, as a shell names them.
    path: PathBuf,
    pair: Pair,
    keeps: PhantomData<T>,
}

#[derive(Serialize, Deserialize)]
struct Form<T> {
    schema: u32,
    #[serde(flatten)]
    kept: T,
}

impl<T: State> StateFile<T> {
    /// The one within `home`.
    pub(crate) fn within(host: &Arc<dyn Host>, home: &Path) -> Self {
        let pair = Pair::new(host, [home.join("journal.a"), home.join("journal.b")]);
        Self { path: home.join("journal.[ab]"), pair, keeps: PhantomData }
    }

    /// Reads it, before anything is written; one that was never written is empty.
    pub(crate) fn read(&mut self) -> Result<T, StateError> {
        let bytes = match self.pair.read().map_err(self.failed("read"))? {
            Kept::Nothing => return Ok(T::default()),
            Kept::Damaged => return Err(self.damaged("neither file is whole")),
            Kept::Text(bytes) => bytes,
        };
        let form: Form<IgnoredAny> = serde_json::from_slice(&bytes).map_err(|e| self.damaged(e))?;
        if form.schema > T::SCHEMA {
            let (path, found, newest) = (self.path.clone(), form.schema, T::SCHEMA);
            return Err(StateError::Newer { name: T::NAME, path, found, newest });
        }
        serde_json::from_slice(&bytes).map_err(|e| self.damaged(e))
    }

    /// Writes it, as people can read it, and returns when it is on the disk.
    pub(crate) fn write(&mut self, kept: &T) -> Result<(), StateError> {
        crash::point(T::CRASH_POINT, || kept.step(), crash::When::Before);
        let text = serde_json::to_vec_pretty(&Form { schema: T::SCHEMA, kept }).map_err(io::Error::other);
        text.and_then(|text| self.pair.write(&text)).map_err(self.failed("write"))?;
        crash::point(T::CRASH_POINT, || kept.step(), crash::When::After);
        Ok(())
    }

    pub(crate) fn failed(&self, doing: &str) -> impl FnOnce(io::Error) -> FileError + use<T> {
        FileError::at(format!("{doing} the {}", T::NAME), &self.path)
    }

    fn damaged(&self, found: impl ToString) -> StateError {
        let (path, found) = (self.path.clone(), found.to_string());
        StateError::Damaged { name: T::NAME, path, found, if_damaged: T::IF_DAMAGED }
    }
}
