//! The programs of a gate: all that is missing is said before anything is started.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::gate::databases;
use crate::gate::file::source::Source;
use crate::gate::file::{Command, Gate, Version};
use crate::gate::launcher::{self, found};
use crate::gate::orders;
use crate::gate::written::{Balancer, Store};
use crate::world::program;

/// Everything that a gate needs must be there before anything is started.
///
/// # Errors
/// All that is missing, each with the field of the gate file that needs it.
pub fn installed(gate: &Gate) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    for service in orders::services(gate) {
        let mut note = |field: &str, tried: anyhow::Result<PathBuf>| {
            missing.extend(tried.err().map(|error| format!("{}: {error}", service.origin.at(field))));
        };
        for (name, version) in [("base", &service.service.base), ("target", &service.service.target)] {
            of_version(service, name, version, &mut note);
        }
        for command in service.commands() {
            if let Some(program) = command.program(&|place| known(service, None, place)) {
                note(command.field(), found(&program, &service.here));
            }
        }
    }
    let mut note = |field: &str, tried: anyhow::Result<PathBuf>| {
        missing.extend(tried.err().map(|error| format!("{}: {error}", gate.origin.at(field))));
    };
    if gate.balancer == Balancer::Haproxy {
        note("balancer", found("haproxy", &gate.here));
    }
    if gate.store == Store::Etcd {
        note("store", found("etcd", &gate.here));
    }
    for own in ["tidegate", "tidegate-agent", "tidegate-balancer"] {
        missing.extend(program::own(own).err().map(|error| error.to_string()));
    }
    let engine = databases::missing(gate);
    missing.extend(engine.iter().map(|what| format!("{}: {what}", gate.origin.at("database.engine"))));
    if missing.is_empty() { Ok(()) } else { anyhow::bail!("{}", missing.join("\n")) }
}

/// The programs that build and start a version.
fn of_version(
    gate: &Gate,
    name: &str,
    version: &Version,
    note: &mut impl FnMut(&str, anyhow::Result<PathBuf>),
) {
    let program = |command: &Command| command.program(&|place| known(gate, Some(&version.source), place));
    // By its own path another program would be found.
    let has_path = version.env.iter().any(|(name, _)| name == "PATH");
    if let Some(program) = program(&version.command).filter(|program| program.contains('/') || !has_path) {
        // It is started in the directory of a node, where it cannot be.
        note(version.command.field(), found(&program, Path::new("/")));
    }
    let Source::Git(commit) = &version.source else { return };
    note(&format!("service.{name}.git"), found("git", &gate.here));
    for command in &commit.build {
        // A path that is not whole is one in the checkout, which is not there yet.
        let in_checkout = |program: &String| program.contains('/') && !program.starts_with('/');
        if let Some(program) = program(command).filter(|program| !in_checkout(program)) {
            note(command.field(), found(&program, &gate.here));
        }
    }
}

/// What a place means before anything was started; `own` is the source of the version whose command it is in.
fn known(gate: &Gate, own: Option<&Source>, place: &str) -> Option<Value> {
    let of = |source: &Source| source.directory().map(Path::to_owned);
    let path = match place {
        "here" => gate.here.clone(),
        "bin" => launcher::bin().ok()?,
        "source" => of(own?)?,
        "base_source" => of(&gate.service.base.source)?,
        "target_source" => of(&gate.service.target.source)?,
        _ => return None,
    };
    Some(path.display().to_string().into())
}

#[cfg(test)]
mod tests {
    use super::installed;
    use crate::gate::file;
    use crate::gate::init::EXAMPLE;
    use std::path::Path;

    const MORE: &str = r#"
schema: {expand: [[no-such-expand]], migrate: [[no-such-migrate]], contract: [[no-such-contract, x]]}
survival:
  create: [no-such-create]
  verify: [[no-such-verify], [sh]]
  down: [./no-such-down]
  verify_after: [no-such-after]
  destroy: [no-such-destroy]
companions:
  - service:
      name: mirror
      base: {number: 4, command: [no-such-mirror, "{port}"]}
      target: {number: 5, git: main, build: [[no-such-make], [./configure]], command: ["{source}/x", "{port}"]}
      version: {path: /}
      ready: /
"#;

    #[test]
    fn missing_program_of_each_command_has_its_field_and_place() {
        let text = EXAMPLE.replace("[python3, \"{here}/items.py\", --init", "[no-such-init, --init");
        let text =
            format!("{}{MORE}", text.replace("    - name: list\n", "    - name: list\n      to: mirror\n"));
        let gate = file::parse(&text, Path::new("gate.yaml"), Path::new("/nowhere")).unwrap();
        let said = installed(&gate).unwrap_err().to_string();
        for (field, program) in [
            ("database.init[0]", "no-such-init"),
            ("schema.expand[0]", "no-such-expand"),
            ("schema.migrate[0]", "no-such-migrate"),
            ("schema.contract[0]", "no-such-contract"),
            ("survival.create", "no-such-create"),
            ("survival.verify[0]", "no-such-verify"),
            ("survival.verify_after", "no-such-after"),
            ("survival.destroy", "no-such-destroy"),
            ("companions[0].service.base.command", "no-such-mirror"),
            ("companions[0].service.target.build[0]", "no-such-make"),
        ] {
            let expected = format!(": {field}: the program `{program}` is not installed");
            let found = said.lines().find(|line| line.contains(&expected));
            let found = found.unwrap_or_else(|| panic!("{expected}\nis not in\n{said}"));
            let line = text.lines().position(|line| line.contains(program)).unwrap() + 1;
            assert!(found.starts_with(&format!("gate.yaml:{line}:")), "{found}");
        }
        assert!(said.contains(": survival.down: there is no program /nowhere/./no-such-down"), "{said}");
        for fine in ["configure", "companions[0].service.target.command", "`sh`"] {
            assert!(!said.contains(fine), "{fine}: {said}");
        }
    }
}
