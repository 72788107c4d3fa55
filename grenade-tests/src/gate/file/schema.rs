//! What of a gate file changes the schema.

use std::path::{Path, PathBuf};

use crate::gate::file::command::{Command, commands};
use crate::gate::written::{self, Engine};
use crate::load::findings::Findings;

/// The schema change.
#[derive(Debug)]
pub enum Schema {
    /// Tidegate's migrations in this directory.
    Migrations(PathBuf),
    /// The service's own commands.
    Commands {
        /// Before the first instance is drained.
        before: Vec<Command>,
        /// When every instance is at the target.
        contract: Vec<Command>,
    },
}

/// Checks the steps of the schema change.
pub fn schema_of(
    steps: &written::SchemaSteps,
    here: &Path,
    (engine, skips_level): (Option<Engine>, bool),
    of_service: &[&str],
    findings: &mut Findings,
) -> Option<Schema> {
    if engine.is_none() {
        findings.add("schema", "there is no `database` that it would change");
    }
    let own = steps.expand.len() + steps.migrate.len() + steps.contract.len();
    match &steps.migrations {
        Some(_) if own > 0 => {
            findings.add("schema", "either `migrations` or commands of its own, not both");
            None
        }
        Some(directory) => {
            let directory = here.join(directory);
            if !directory.is_dir() {
                findings.add("schema.migrations", format!("{} is no directory", directory.display()));
            }
            if skips_level {
                let one = "is not allowed with `service.skip_level`: Tidegate runs the migrations of one version in an \
                           upgrade; write the commands of your service (`expand`, `migrate`, `contract`)";
                findings.add("schema.migrations", one);
            }
            if engine == Some(Engine::MariaDb) {
                let own = "is not allowed with `database.engine: mariadb`: Tidegate runs and certifies migrations on \
                           SQLite and PostgreSQL only; write the commands of your service (`expand`, `migrate`, \
                           `contract`)";
                findings.add("schema.migrations", own);
            }
            Some(Schema::Migrations(directory))
        }
        None if own == 0 => {
            findings.add("schema", "has neither `migrations` nor commands");
            None
        }
        None => {
            let mut before = commands("schema.expand", &steps.expand, of_service, findings);
            before.extend(commands("schema.migrate", &steps.migrate, of_service, findings));
            let contract = commands("schema.contract", &steps.contract, of_service, findings);
            Some(Schema::Commands { before, contract })
        }
    }
}
