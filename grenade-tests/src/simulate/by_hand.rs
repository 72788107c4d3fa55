//! What a person does with a schema at the command line, for `tidegate schema expand`, `migrate` and `adopt`.

use super::scenario::Scenario;
use super::world::{World, schema_name, variable};
use std::path::Path;
use tidegate_migrations::{Adoption, DatabaseUrl, Engine, MigrationSet, Owner, PhaseProgress, Term};
use tidegate_proto::ServiceVersion;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Runs the migrations above one version up to another again, as far as the database's history does not show them done.
///
/// # Errors
/// What the engine says.
pub(super) async fn expand_and_migrate(
    world: &World,
    schema: usize,
    (from, to): (ServiceVersion, ServiceVersion),
) -> Result<String, String> {
    let (engine, all, term) = opened(world, schema).await?;
    let set = all.between(from.get(), to.get());
    let (teller, cancel) = (watch::Sender::new(PhaseProgress::default()), CancellationToken::new());
    let expanded = engine.expand(&set, &term, &teller, &cancel).await.map_err(|e| e.to_string())?;
    let filled = engine.migrate(&set, &term, &teller, &cancel).await.map_err(|e| e.to_string())?;
    Ok(format!("{} steps, {} rows", expanded.steps + filled.steps, filled.rows))
}

/// Fills the rows of all migrations up to a version, which a person does with `tidegate schema migrate --to`.
///
/// # Errors
/// What the engine says.
pub(super) async fn migrate_up_to(
    world: &World,
    schema: usize,
    to: ServiceVersion,
) -> Result<String, String> {
    let (engine, all, term) = opened(world, schema).await?;
    let (teller, cancel) = (watch::Sender::new(PhaseProgress::default()), CancellationToken::new());
    let filled = engine.migrate(&all.up_to(to.get()), &term, &teller, &cancel).await;
    filled.map(|filled| format!("{} rows", filled.rows)).map_err(|e| e.to_string())
}

/// Ends an undo of one migration that has begun, which a person does with `tidegate schema undo --migration`, in the name
/// of the upgrade that expanded it or by hand.
///
/// # Errors
/// What the engine says.
pub(super) async fn end_undo(
    world: &World,
    schema: usize,
    migration: &str,
    made_by: Option<&str>,
) -> Result<String, String> {
    let (engine, all, term) = opened(world, schema).await?;
    let owner = made_by.map_or_else(Owner::by_hand, Owner::upgrade);
    let set = all.with_own(|own| own.id == migration).owned_by(owner);
    let (teller, cancel) = (watch::Sender::new(PhaseProgress::default()), CancellationToken::new());
    let undone = engine.undo(&set, &term, &teller, &cancel).await;
    undone.map(|undone| format!("{} steps", undone.steps)).map_err(|e| e.to_string())
}

/// The engine on a schema, its migrations, and the term that the database has.
async fn opened(world: &World, schema: usize) -> Result<(Engine, MigrationSet, Term), String> {
    let url = url(schema)?;
    let all = MigrationSet::load(&world.migrations().join(schema_name(schema))).map_err(|e| e.to_string())?;
    let engine = Engine::connect(&url).await.map_err(|e| e.to_string())?;
    let known = engine.identity().await.map_err(|e| e.to_string())?.term;
    Ok((engine, all, known.unwrap_or_else(|| Term { revision: 1, id: "by-hand".to_owned() })))
}

fn url(schema: usize) -> Result<DatabaseUrl, String> {
    let variable = variable(schema);
    let url = std::env::var(&variable).map_err(|error| format!("{variable}: {error}"))?;
    url.parse().map_err(|error| format!("{variable}: {error}"))
}

/// Brings every schema to where it is before the first upgrade: what was contracted before Tidegate came is adopted, or a
/// person runs it now.
///
/// # Errors
/// What the engine says.
pub(super) async fn adopt_all(scenario: &Scenario, migrations: &Path) -> anyhow::Result<()> {
    for (n, schema) in scenario.schemas.iter().enumerate().filter(|(_, schema)| schema.contracted > 0) {
        let to = u32::try_from(schema.contracted + 1)?;
        let all = MigrationSet::load(&migrations.join(schema_name(n)))?;
        let engine = Engine::connect(&url(n).map_err(anyhow::Error::msg)?).await?;
        let (own, cancel) = (all.between(1, to), CancellationToken::new());
        let term = Term { revision: 1, id: "by-hand".to_owned() };
        if schema.by_hand {
            let teller = watch::Sender::new(PhaseProgress::default());
            engine.expand(&own, &term, &teller, &cancel).await?;
            engine.migrate(&own, &term, &teller, &cancel).await?;
            continue;
        }
        let said = Adoption {
            expand_only: false,
            keep_old: false,
            who: "operator".to_owned(),
            why: "it was there before".to_owned(),
        };
        engine.adopt(&own, &term, &said, &cancel).await?;
    }
    Ok(())
}
