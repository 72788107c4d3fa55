//! What of a gate file changes the schema, and goes into the upgrade spec.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tidegate_proto::spec::Spec;

use crate::gate::file::command::{Command, commands};
use crate::gate::written::{self, Engine};
use crate::load::findings::Findings;

/// The fields of an upgrade spec that the runner fills in.
const OF_RUNNER: [&str; 5] = ["service", "from", "to", "release", "schema"];
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

/// The fields of the upgrade spec must be valid, and none of those that the runner fills in.
pub fn spec(fields: &Map<String, Value>, findings: &mut Findings) {
    for own in OF_RUNNER.into_iter().filter(|own| fields.contains_key(*own)) {
        findings.add(&format!("upgrade.{own}"), "is filled in by the runner");
    }
    let mut whole = fields.clone();
    let runner = serde_json::json!({
        "service": "service", "from": 1, "to": 2, "release": {"tag": "service-2", "sha256": "0".repeat(64)},
    });
    whole.extend(runner.as_object().cloned().unwrap_or_default());
    whole.remove("schema");
    match serde_json::from_value::<Spec>(Value::Object(whole)) {
        Err(error) => findings.add("upgrade", error),
        Ok(spec) => spec.flaws().iter().for_each(|flaw| findings.add("upgrade", flaw)),
    }
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
