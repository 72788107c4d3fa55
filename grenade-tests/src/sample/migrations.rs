//! The schema change of the sample service, as files.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::world::World;

/// The one migration; it is part of the program, so that nothing needs the source tree.
const MIGRATION: (&str, &str) =
    ("0002_image_visibility.toml", include_str!("../../sample/migrations/0002_image_visibility.toml"));
/// The directory of the sample service's migrations, below the coordinator's `--migrations`.
pub const DIRECTORY: &str = "pantry";

/// Writes the migrations where the coordinator looks for them; answers the directory for `--migrations`.
///
/// # Errors
/// When the files cannot be written.
pub fn write(world: &World) -> anyhow::Result<PathBuf> {
    let home = world.path("migrations");
    write_to(&home.join(DIRECTORY))?;
    Ok(home)
}

/// Writes the migrations into a directory, which is made.
///
/// # Errors
/// When the files cannot be written.
pub fn write_to(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).context("could not make the directory of migrations")?;
    std::fs::write(directory.join(MIGRATION.0), MIGRATION.1).context("could not write a migration")
}
