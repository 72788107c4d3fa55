use super::{GOOD, at, findings};
use crate::gate::file::{Schema, parse};
use crate::gate::written::Engine;
use std::path::Path;

/// The example over MariaDB, with commands of its own for the schema.
fn on_mariadb() -> String {
    let text = GOOD.replace("engine: sqlite", "engine: mariadb").replace("{database_file}", "{database}");
    format!(
        "{text}\nschema: {{expand: [[items-manage, expand, \"{{database}}\"]], contract: [[items-manage]]}}\n"
    )
}

#[test]
fn mariadb_is_upgraded_with_commands_of_the_service() {
    let gate = parse(&on_mariadb(), Path::new("gate.yaml"), Path::new("/")).unwrap();
    assert!(matches!(gate.database, Some((Engine::MariaDb, init)) if init.len() == 1));
    assert!(matches!(gate.schema, Some(Schema::Commands { before, .. }) if before.len() == 1));
    let pools = on_mariadb().replace("tags: [", "rollback_from: [roll, remove]\ntags: [zero-impact, ");
    parse(&pools, Path::new("gate.yaml"), Path::new("/")).unwrap();
}

#[test]
fn mariadb_under_a_procedure_is_taken() {
    let text = on_mariadb();
    let (before, after) = text.split_once("\nupgrade:").unwrap();
    let (_, after) = after.split_once("\nload:").unwrap();
    let text = format!("{before}\nprocedure: [restart, \"{{fleet}}\"]\nload:{after}");
    assert!(parse(&text, Path::new("gate.yaml"), Path::new("/")).unwrap().procedure.is_some());
}

#[test]
fn fields_refused_with_mariadb_have_their_place() {
    let commands = on_mariadb().lines().last().unwrap().to_owned();
    let migrations = "schema: {migrations: .}";
    for (old, new, begin, expected) in [
        (
            commands.as_str(),
            migrations,
            "schema: {migrations",
            "schema.migrations: is not allowed with `database.engine: mariadb`: Tidegate runs and certifies migrations on \
             SQLite and PostgreSQL only; write the commands of your service (`expand`, `migrate`, `contract`)",
        ),
        (
            "items-manage, expand, \"{database}\"",
            "items-manage, expand, \"{database_file}\"",
            "schema: {expand",
            "schema.expand[0]: `{database_file}` is not known here; allowed: {database}, ",
        ),
        (
            "--init, --db, \"{database}\"",
            "--init, --db, \"{database_file}\"",
            "- [python3",
            "`{database_file}` is not known here",
        ),
        (
            "engine: mariadb",
            "engine: mysql",
            "engine: mysql",
            "database.engine: `mysql` is not allowed; one of `sqlite`, `postgres`, `mariadb` is",
        ),
        (
            "\ntags: [",
            "\nrollback_from: [expand]\ntags: [",
            "rollback_from:",
            "rollback_from[0]: an upgrade has the phase expand with `schema.migrations` only",
        ),
    ] {
        assert!(on_mariadb().contains(old), "{old}");
        let text = on_mariadb().replace(old, new);
        let said = findings(&text);
        let found = said.lines().find(|line| line.contains(expected));
        let found = found.unwrap_or_else(|| panic!("{expected}\nis not in\n{said}"));
        let line = at(&text, begin);
        let line = line.rsplitn(3, ':').last().unwrap();
        assert!(found.starts_with(&format!("{line}:")), "{begin}: {found}");
    }
}

#[test]
fn file_of_the_database_is_unknown_to_a_version_over_a_server() {
    for engine in ["postgres", "mariadb"] {
        let said = findings(&GOOD.replace("engine: sqlite", &format!("engine: {engine}")));
        for field in ["service.base.command", "service.target.command", "database.init[0]"] {
            let expected = format!("{field}: `{{database_file}}` is not known here");
            assert!(said.contains(&expected), "{engine}: {expected}\n{said}");
        }
    }
}
