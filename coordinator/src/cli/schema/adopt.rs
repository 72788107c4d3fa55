//! `tidegate schema adopt`: what a migration makes is there already.

use super::{Which, failed};
use crate::cli::exit::{Failure, Outcome};
use crate::cli::show;
use serde_json::json;
use tidegate_migrations::{Adoption, Phase};
use tokio_util::sync::CancellationToken;

pub(super) const AFTER: &str = "\
The history records who adopted what, when and why. Adopting runs no statement of the migration. It is refused where
the history shows the migration in progress, and where the database has not what the migration makes.

  tidegate schema adopt --migrations ./migrations --to 1 --why 'made by the installer' --dry-run

Exit codes: 0 done (also where all of it was adopted before), 2 bad input, 3 refused, 4 the database does not answer.";

/// What is adopted.
#[derive(Debug, clap::Args)]
pub(super) struct AdoptArgs {
    /// Migration ID, such as 0001_things; may be given several times. Default: all that --from and --to leave.
    #[arg(long = "migration", value_name = "ID", required_unless_present = "to")]
    ids: Vec<String>,
    /// Adopt expand alone; migrate and contract are still to run. For a version that does not run everywhere yet.
    #[arg(long)]
    expand_only: bool,
    /// Count a migration that is migrated as finished without its contract: what that would remove stays.
    #[arg(long, conflicts_with = "expand_only")]
    keep_old: bool,
    /// Reason, recorded in the history.
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Only show what would be marked.
    #[arg(long)]
    dry_run: bool,
}

impl AdoptArgs {
    /// Marks, or shows what would be marked.
    pub(super) async fn run(self, which: Which, who: String, as_json: bool) -> Result<Outcome, Failure> {
        let mut opened = which.open().await?;
        opened.choose(&self.ids)?;
        let adoption =
            Adoption { expand_only: self.expand_only, keep_old: self.keep_old, who, why: self.why };
        let (engine, term) = (&opened.engine, opened.term());
        let adopted = match self.dry_run {
            true => engine.adoptable(&opened.set, &adoption).await,
            false => engine.adopt(&opened.set, &term, &adoption, &CancellationToken::new()).await,
        };
        let adopted = adopted.map_err(failed)?;
        let words = |phases: &[Phase]| phases.iter().map(|p| p.as_str()).collect::<Vec<_>>();
        if as_json {
            let each = adopted.iter().map(|a| json!({"migration": a.migration, "phases": words(&a.phases)}));
            show::json(&json!({ "dry_run": self.dry_run, "adopted": each.collect::<Vec<_>>() }))?;
            return Ok(Outcome::Good);
        }
        let verb = if self.dry_run { "would adopt" } else { "adopted" };
        for one in &adopted {
            show::line(format!("{verb} {}: {}", one.migration, words(&one.phases).join(", ")))?;
        }
        if adopted.is_empty() {
            show::line("nothing to adopt: all of it is in the history")?;
        }
        Ok(Outcome::Good)
    }
}
