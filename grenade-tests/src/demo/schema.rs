//! The schema change of the sample service, and its verbs outside of any upgrade.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate_migrations::{DatabaseUrl, Engine, MigrationSet, PhaseProgress, Term};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// The one migration; it is part of the program, so that the demo needs no source tree.
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
    let dir = home.join(DIRECTORY);
    std::fs::create_dir_all(&dir).context("could not make the directory of migrations")?;
    std::fs::write(dir.join(MIGRATION.0), MIGRATION.1).context("could not write a migration")?;
    Ok(home)
}

/// An engine on one database with the migrations, for a leader of our own.
#[derive(Debug)]
pub struct ByHand {
    engine: Engine,
    set: MigrationSet,
    term: Term,
}

impl ByHand {
    /// Connects.
    ///
    /// # Errors
    /// When the database does not answer or the migrations are not in `dir`.
    pub async fn on(database: &str, dir: &Path) -> anyhow::Result<Self> {
        let set = MigrationSet::load(dir)?;
        let engine = Engine::connect(&database.parse::<DatabaseUrl>()?).await?;
        Ok(Self { engine, set, term: Term { revision: 1, id: "measured-alone".to_owned() } })
    }

    /// Adds what version 2 needs.
    ///
    /// # Errors
    /// The engine's.
    pub async fn expand(&self) -> anyhow::Result<()> {
        let (watch, _) = watch::channel(PhaseProgress::default());
        self.engine.expand(&self.set, &self.term, &watch, &CancellationToken::new()).await?;
        Ok(())
    }

    /// Fills the rows that were there before.
    ///
    /// # Errors
    /// The engine's.
    pub async fn migrate(&self) -> anyhow::Result<()> {
        let (watch, _) = watch::channel(PhaseProgress::default());
        self.engine.migrate(&self.set, &self.term, &watch, &CancellationToken::new()).await?;
        Ok(())
    }
}
