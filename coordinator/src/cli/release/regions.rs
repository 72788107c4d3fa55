//! The file of regions: the coordinator of each region, and its credentials.

use crate::cli::exit::Failure;
use crate::cli::options::GlobalOptions;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All regions, by name.
#[derive(Debug)]
pub(super) struct Regions {
    file: PathBuf,
    all: BTreeMap<String, Region>,
}

/// How a region's coordinator is reached. Paths that are relative start where the file is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Region {
    coordinator: String,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Regions {
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let shown = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|e| Failure::usage(format!("could not read the regions {shown}: {e}")))?;
        let all: BTreeMap<String, Region> = tidegate_planner::document::read(&text)
            .map_err(|e| Failure::usage(format!("{shown}:{e}; nothing was changed")))?;
        Ok(Self { file: file.to_owned(), all })
    }

    /// How a region is reached, with what else was asked for on the command line.
    pub(super) fn options(&self, name: &str, asked: &GlobalOptions) -> Result<GlobalOptions, Failure> {
        let Some(region) = self.all.get(name) else {
            let known: Vec<&str> = self.all.keys().map(String::as_str).collect();
            let (file, known) = (self.file.display(), known.join(", "));
            return Err(Failure::usage(format!(
                "{file} knows no region {name}, only {known}; nothing was changed"
            )));
        };
        if region.cert.is_some() != region.key.is_some() {
            let file = self.file.display();
            return Err(Failure::usage(format!(
                "{file}: {name} has one of cert and key, and needs both or none; nothing was changed"
            )));
        }
        let here = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| self.file.parent().unwrap_or(Path::new("")).join(path))
        };
        Ok(GlobalOptions {
            coordinator: region.coordinator.clone(),
            token_file: here(&region.token_file),
            ca: here(&region.ca),
            cert: here(&region.cert),
            key: here(&region.key),
            ..asked.clone()
        })
    }
}
