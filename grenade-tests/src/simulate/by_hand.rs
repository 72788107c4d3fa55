//! What a person does with a schema at the command line, for `tidegate schema expand`, `migrate` and `adopt`.

use super::coordinator::of_a_person;
use super::scenario::Scenario;
use super::world::{World, schema_name, variable};
use futures::future::LocalBoxFuture;
use std::path::Path;
use std::time::Duration;
use tidegate_migrations::{Adoption, DatabaseUrl, Engine, MigrationSet, Owner, PhaseProgress, Term};
use tidegate_proto::ServiceVersion;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// After so long a person ends a command that has not ended. The world stands still meanwhile: no fault of it ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a command of a person, who ends it with Ctrl-C after [`PATIENCE`]: `cancel` is its token.
async fn run(
    cancel: &CancellationToken,
    command: LocalBoxFuture<'_, Result<String, String>>,
) -> Result<String, String> {
    let mut command = std::pin::pin!(of_a_person(command));
    tokio::select! {
        biased;
        done = &mut command => return done,
        () = tokio::time::sleep(PATIENCE) => cancel.cancel(),
    }
    command.await
}

/// The same, and says that a person worked at a database.
async fn work(
    world: &World,
    cancel: &CancellationToken,
    command: LocalBoxFuture<'_, Result<String, String>>,
) -> Result<String, String> {
    let done = run(cancel, command).await;
    world.testbed.state().facts.worked_by_hand = Some(world.testbed.now());
    done
}

/// Runs the migrations above one version up to another again in the name of their owner, as far as the database's history
/// does not show them done.
///
/// # Errors
/// What the engine says.
pub(super) async fn expand_and_migrate(
    world: &World,
    schema: usize,
    (from, to): (u32, u32),
    owner: Owner,
) -> Result<String, String> {
    let (teller, cancel) = (watch::Sender::new(PhaseProgress::default()), CancellationToken::new());
    let command = async {
        let (engine, all, term) = opened(world, schema).await?;
        let set = all.between(from, to).owned_by(owner);
        let expanded = engine.expand(&set, &term, &teller, &cancel).await.map_err(|e| e.to_string())?;
        let filled = engine.migrate(&set, &term, &teller, &cancel).await.map_err(|e| e.to_string())?;
        Ok::<_, String>(format!("{} steps, {} rows", expanded.steps + filled.steps, filled.rows))
    };
    work(world, &cancel, Box::pin(command)).await
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
    let (teller, cancel) = (watch::Sender::new(PhaseProgress::default()), CancellationToken::new());
    let command = async {
        let (engine, all, term) = opened(world, schema).await?;
        let filled = engine.migrate(&all.up_to(to.get()), &term, &teller, &cancel).await;
        filled.map(|filled| format!("{} rows", filled.rows)).map_err(|e| e.to_string())
    };
    work(world, &cancel, Box::pin(command)).await
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
    let owner = made_by.map_or_else(Owner::by_hand, Owner::upgrade);
    let (teller, cancel) = (watch::Sender::new(PhaseProgress::default()), CancellationToken::new());
    let command = async {
        let (engine, all, term) = opened(world, schema).await?;
        let set = all.with_own(|own| own.id == migration).owned_by(owner);
        let undone = engine.undo(&set, &term, &teller, &cancel).await;
        undone.map(|undone| format!("{} steps", undone.steps)).map_err(|e| e.to_string())
    };
    work(world, &cancel, Box::pin(command)).await
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
        let shown = engine.adoptable(&own, &said).await?;
        let adopted = engine.adopt(&own, &term, &said, &cancel).await?;
        anyhow::ensure!(shown == adopted, "the dry run showed {shown:?}, and {adopted:?} was adopted");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::coordinator::{goes_on, session_is_of};
    use super::super::gate::{Gate, Passage};
    use super::*;
    use futures::FutureExt;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn command_that_does_not_end_is_ended_after_a_while() {
        let (cancel, began) = (CancellationToken::new(), Instant::now());
        let waits = async {
            cancel.cancelled().await;
            Err::<String, _>("cancelled".to_owned())
        };
        assert_eq!(run(&cancel, Box::pin(waits)).await, Err("cancelled".to_owned()));
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());

        let cancel = CancellationToken::new();
        let done = async { Ok::<_, String>("2 steps".to_owned()) };
        assert_eq!(run(&cancel, Box::pin(done)).await, Ok("2 steps".to_owned()));
        assert!(!cancel.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn command_goes_on_beside_a_stopped_coordinator() {
        let (session, gate) = ("tidegate/7/schema", Gate::open());
        session_is_of(session, &gate);
        gate.set(Passage::Stalled);
        assert!(goes_on(session).now_or_never().is_none(), "that coordinator's own session");

        let cancel = CancellationToken::new();
        let command = async {
            goes_on(session).await;
            Ok::<_, String>("2 steps".to_owned())
        };
        assert_eq!(run(&cancel, Box::pin(command)).await, Ok("2 steps".to_owned()));
        assert!(!cancel.is_cancelled(), "it waits for nothing");
    }
}
