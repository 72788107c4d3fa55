//! What a person does with a schema at the command line, for `tidegate schema expand` and `migrate`.

use super::world::{World, schema_name, variable};
use tidegate_migrations::{DatabaseUrl, Engine, MigrationSet, PhaseProgress, Term};
use tidegate_proto::ServiceVersion;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Runs the migrations above one version up to another again, as far as the database's history does not show them done.
///
/// # Errors
/// What the engine says.
pub async fn expand_and_migrate(
    world: &World,
    schema: usize,
    (from, to): (ServiceVersion, ServiceVersion),
) -> Result<String, String> {
    let url: DatabaseUrl = format!("sqlite://{}.sqlite", schema_name(schema))
        .parse()
        .map_err(|error| format!("{}: {error}", variable(schema)))?;
    let all = MigrationSet::load(&world.migrations().join(schema_name(schema))).map_err(|e| e.to_string())?;
    let set = all.between(from.get(), to.get());
    let engine = Engine::connect(&url).await.map_err(|e| e.to_string())?;
    let known = engine.identity().await.map_err(|e| e.to_string())?.term;
    let term = known.unwrap_or_else(|| Term { revision: 1, id: "by-hand".to_owned() });
    let (teller, cancel) = (watch::Sender::new(PhaseProgress::default()), CancellationToken::new());
    let expanded = engine.expand(&set, &term, &teller, &cancel).await.map_err(|e| e.to_string())?;
    let filled = engine.migrate(&set, &term, &teller, &cancel).await.map_err(|e| e.to_string())?;
    Ok(format!("{} steps, {} rows", expanded.steps + filled.steps, filled.rows))
}
