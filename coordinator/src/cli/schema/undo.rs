//! `tidegate schema undo`: expand is taken back, in the name of the owner who expanded.

use super::{Which, failed};
use crate::cli::exit::{Failure, Outcome};
use tidegate_migrations::{MigrationStatus, Owner, Phase, UNRECORDED};
use tidegate_proto::UpgradeId;

pub(super) const AFTER: &str = "\
Name what is undone: with --migration, or with --from the version that still runs. By --from a migration that is
finished and whose contract has no steps is refused, because a running version may use it; --migration undoes it, too.

  tidegate schema undo --migrations ./migrations --migration 0002_colour --nothing-new-runs

Exit codes: 0 done (also where nothing is left to undo), 1 failed, 2 bad input, 3 refused, 4 the database does not
answer.";

/// What is undone.
#[derive(Debug, clap::Args)]
pub(super) struct UndoArgs {
    /// Migration ID, such as 0002_colour; may be given several times. Default: all that --from and --to leave.
    #[arg(long = "migration", value_name = "ID", required_unless_present = "from")]
    ids: Vec<String>,
    /// Your statement that no process of the new version runs; it is not checked.
    #[arg(long, required = true)]
    nothing_new_runs: bool,
    /// Take back what this upgrade expanded instead, by its ID; `unrecorded`: what a coordinator expanded before
    /// owners were recorded.
    #[arg(long, value_name = "UPGRADE", value_parser = maker)]
    made_by: Option<Owner>,
}

fn maker(text: &str) -> Result<Owner, String> {
    if text == UNRECORDED {
        return Ok(Owner::by_hand().with_unrecorded());
    }
    let upgrade = text.parse::<UpgradeId>().map_err(|error| error.to_string())?;
    Ok(Owner::upgrade(upgrade.as_str()))
}

impl UndoArgs {
    /// Takes it back.
    pub(super) async fn run(self, which: Which, as_json: bool) -> Result<Outcome, Failure> {
        let mut opened = which.open().await?;
        opened.choose(&self.ids)?;
        opened.set = opened.set.owned_by(self.made_by.unwrap_or_else(Owner::by_hand));
        if self.ids.is_empty() {
            let status = opened.engine.status_by_history(&opened.set).await.map_err(failed)?;
            let finished: Vec<&str> =
                status.migrations.iter().filter(|m| serves(m)).map(|m| &*m.id).collect();
            if !finished.is_empty() {
                return Err(Failure::refused(format!(
                    "finished, so that a running version may use it: {}. Nothing was undone. Give the version that runs \
                     with --from, or name what is to be undone with --migration",
                    finished.join(", ")
                )));
            }
        }
        opened.run(Phase::Undo, None, as_json).await
    }
}

/// Whether an undo would take a finished migration. Once its contract has removed something, it takes nothing of it.
fn serves(m: &MigrationStatus) -> bool {
    m.own && m.undoable && m.is_finished()
}
