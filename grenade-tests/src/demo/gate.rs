//! The gate file of the demo, with what its arguments change, and the files that it names.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use tidegate_planner::document;

use crate::demo::arguments::DemoPlan;
use crate::fixture::{load, migrations};
use crate::gate::file::{self, Gate};
use crate::world::World;

/// They are part of the program, so that the demo needs no source tree.
const GATE: &str = include_str!("../../gates/demo.yaml");
/// At most so many instances are out of rotation at any instant.
pub const MAX_UNAVAILABLE: u32 = 1;
/// A broken version costs all of it, so it is short where one is expected, yet several times what a start takes.
const BROKEN_DEADLINE: &str = "6s";
/// Where starts of a broken version are counted.
const STARTS: &str = "{work}/starts-of-version-2";

/// Writes the gate file and what it names, and reads it.
///
/// # Errors
/// When the files cannot be written.
pub fn gate(world: &World, plan: &DemoPlan) -> anyhow::Result<Gate> {
    let mut text: Value = document::yaml(GATE).context("the demo's gate file")?;
    let mut set = |field: &str, value: Value| {
        *text.pointer_mut(field).expect("the demo's gate file has every field that is set") = value;
    };
    set("/instances", json!(plan.instances));
    set("/load/rate", json!(plan.rate));
    set("/load/existing/0/objects", json!(load::seeded(plan.rows)));
    set("/load/steps_from", json!("steps.yaml"));
    set("/schema/migrations", json!("sample-migrations"));
    let init = ["{bin}/pantry-v1", "init", "--database", "{database}", "--rows", &plan.rows.to_string()];
    set("/database/init/0", json!(init));
    if plan.real {
        set("/database/engine", json!("postgres"));
        set("/store", json!("etcd"));
        set("/balancer", json!("haproxy"));
    }
    if plan.break_at.is_some() {
        set("/upgrade/health/healthy_deadline", json!(BROKEN_DEADLINE));
    }
    if let (Some(from), Some(Value::Array(command))) =
        (plan.break_at, text.pointer_mut("/service/target/command"))
    {
        let broken = ["--broken-from", &from.to_string(), "--broken-version", "2", "--start-ledger", STARTS];
        command.extend(broken.map(Value::from));
    }
    migrations::write_to(&world.path("sample-migrations"))?;
    let write = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
        let path = world.path(name);
        std::fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
        Ok(path)
    };
    write("steps.yaml", load::STEPS)?;
    let path = write("gate.json", &serde_json::to_string_pretty(&text)?)?;
    let mut gate = file::load(&path)?;
    "demo".clone_into(&mut gate.upgrade_id);
    Ok(gate)
}

/// A span of the upgrade's fields.
///
/// # Errors
/// When there is none at this place.
pub fn span(gate: &Gate, group: &str, field: &str) -> anyhow::Result<std::time::Duration> {
    let text = gate.upgrade.fields();
    let text = text.get(group).and_then(|group| group.get(field)).and_then(Value::as_str);
    let span: tidegate_proto::Span = text.context("the demo's gate file lacks a span")?.parse()?;
    Ok(std::time::Duration::from_millis(span.as_millis()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::gate;
    use crate::demo::arguments::Arguments;
    use crate::gate::written::Store;
    use crate::world::World;

    #[test]
    fn every_argument_gives_a_gate_that_is_sound() {
        let room = tempfile::tempdir().unwrap();
        for arguments in [&[][..], &["--real"], &["--break-at=3"], &["--instances=2", "--rows=2", "--rate=5"]]
        {
            let dir = tempfile::tempdir_in(room.path()).unwrap();
            let plan = Arguments::try_parse_from([&["tidegate-demo"], arguments].concat()).unwrap();
            let plan = plan.into_plan().unwrap();
            let made = gate(&World::beside(dir.path()).unwrap(), &plan);
            let made = made.unwrap_or_else(|error| panic!("{arguments:?}: {error:#}"));
            assert_eq!(made.instances, plan.instances);
            assert_eq!(made.store == Store::Etcd, plan.real);
        }
    }
}
