//! The verbs of a schema change outside of any upgrade.

use std::path::Path;

use tidegate_migrations::{DatabaseUrl, Engine, MigrationSet, PhaseProgress, Term};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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
        Ok(Self { engine, set, term: Term { revision: 1, id: "by-hand".to_owned() } })
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
