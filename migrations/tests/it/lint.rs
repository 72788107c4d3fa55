//! Bad migrations: clear findings with file and step, and nothing loaded.

use crate::support::*;
use std::path::Path;
use tidegate_migrations::{Dialect, Finding, LoadError, MigrationSet, Phase, Requires, Rule, Step};

fn findings(directory: &Path) -> Vec<Finding> {
    match MigrationSet::load(directory) {
        Err(LoadError::Findings(findings)) => findings,
        Err(other) => panic!("{other}"),
        Ok(_) => Vec::new(),
    }
}

fn of(text: &str) -> Vec<Finding> {
    let directory = written(&[("0001_it.toml", text)]);
    findings(directory.path())
}

const HEAD: &str = "id = '0001_it'\nversion = 2\nold_reads_migrated = true\n";
const UNDO: &str = "\n[undo]\nsteps = [{ sql = 'DROP INDEX IF EXISTS fresh' }]\n";

/// The rules that one statement of a phase breaks.
fn broken(phase: &str, sql: &str) -> Vec<Rule> {
    let requires = if phase == "migrate" { "requires = 'expanded'\n" } else { "" };
    let undo = if phase == "expand" { UNDO } else { "" };
    let text = format!("{HEAD}[{phase}]\n{requires}steps = [{{ sql = \"\"\"{sql}\"\"\" }}]\n{undo}");
    let found = of(&text);
    assert!(found.iter().all(|f| f.place.is_some_and(|p| p.step == 0)), "{found:?}");
    found.iter().map(|f| f.rule).collect()
}

#[test]
fn the_sample_is_clean_and_says_what_it_needs() {
    let set = sample();
    let migration = set.iter().next().unwrap();
    assert_eq!(
        (migration.version, migration.requires.clone(), migration.old_reads_migrated),
        (2, Requires::Expanded, true)
    );
    assert!(matches!(migration.steps(Phase::Expand, Dialect::Postgres)[1], Step::Sync(_)));
    assert_eq!(migration.steps(Phase::Migrate, Dialect::Sqlite).len(), 2, "sqlite has its own steps");
    assert!(set.digest().as_str().starts_with("sha256:") && set.old_reads_migrated());
}

#[test]
fn expand_only_adds() {
    for fine in [
        "CREATE TABLE fresh (id text PRIMARY KEY)",
        "ALTER TABLE images ADD COLUMN a text",
        "ALTER TABLE images ADD a int NOT NULL DEFAULT -1, ADD COLUMN IF NOT EXISTS b text DEFAULT 'x'::text",
        "ALTER TABLE images ADD CONSTRAINT c CHECK (size > 0) NOT VALID",
        "CREATE TABLE fresh (id int); CREATE INDEX f ON fresh (id); INSERT INTO fresh VALUES (1)",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ UPDATE images SET size = 1 RETURNING 1; $$",
    ] {
        assert_eq!(broken("expand", fine), [], "{fine}");
    }
    for bad in [
        "DROP TABLE images",
        "ALTER TABLE images DROP COLUMN name",
        "ALTER TABLE images RENAME name TO title",
        "ALTER TABLE images ALTER COLUMN name TYPE int",
        "ALTER TABLE images ADD COLUMN a text NOT NULL",
        "ALTER TABLE images ADD COLUMN a timestamp DEFAULT clock_timestamp()",
        "ALTER TABLE images ADD COLUMN a bigserial",
        "ALTER TABLE images ADD COLUMN a text UNIQUE",
        "ALTER TABLE images ADD COLUMN a text, DROP COLUMN name",
        "ALTER TABLE images ADD CONSTRAINT c CHECK (size > 0)",
        "ALTER TABLE images ADD UNIQUE (name)",
        "INSERT INTO images VALUES ('x')",
        "COMMIT",
        "SET lock_timeout = 0",
        "LOCK TABLE images",
        "VACUUM FULL images",
        "DO $$ BEGIN UPDATE images SET size = 1; END $$",
        "SELECT pg_terminate_backend(1)",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "gibberish",
    ] {
        assert_eq!(broken("expand", bad), [Rule::ExpandAdds], "{bad}");
    }
    assert_eq!(broken("expand", "CREATE INDEX i ON images (name)"), [Rule::SafeForm]);
    assert_eq!(broken("expand", "CREATE UNIQUE INDEX i ON images (name)"), [Rule::SafeForm]);
}

#[tokio::test]
async fn default_with_more_after_its_cast_is_not_begun() {
    let text = format!(
        "{HEAD}[expand]\nsteps = [{{ add_column = {{ table = 'images', column = 'a', type = 'int', \
         default = '0::int + random()' }} }}]\n\
         [undo]\nsteps = [{{ drop_column = {{ table = 'images', column = 'a' }} }}]\n"
    );
    assert_eq!(of(&text), [], "a file that ran can be read");
    let database = Database::sqlite().await.seeded(1).await;
    let set = set_in(written(&[("0001_it.toml", &text)]).path());
    let found = database.engine().await.obstacles(&set).await.unwrap();
    assert!(found.len() == 1 && found[0].contains("0::int + random()"), "{found:?}");
}

#[test]
fn whole_tables_are_never_changed_by_hand() {
    for phase in ["expand", "contract", "undo"] {
        for sql in [
            "UPDATE images SET size = 1",
            "UPDATE images SET size = 1 WHERE id = '1'",
            "delete from images",
            "TRUNCATE images",
            "WITH x AS (DELETE FROM images RETURNING *) SELECT * FROM x",
        ] {
            assert_eq!(broken(phase, sql), [Rule::WholeTable], "{phase}: {sql}");
        }
    }
    assert_eq!(broken("expand", "CREATE TABLE copy AS SELECT * FROM images"), [Rule::WholeTable]);
}

#[test]
fn contract_only_removes_or_tightens_and_undo_can_be_repeated() {
    for fine in ["DROP TABLE images", "ALTER TABLE images DROP COLUMN a, DROP CONSTRAINT b", "DROP INDEX i"] {
        assert_eq!(broken("contract", fine), [], "{fine}");
    }
    for bad in [
        "CREATE TABLE fresh (id int)",
        "ALTER TABLE images ADD COLUMN a text",
        "ALTER TABLE images RENAME TO old_images",
        "ALTER TABLE images ALTER COLUMN name DROP NOT NULL",
        "DROP TABLE images CASCADE",
    ] {
        assert_eq!(broken("contract", bad).first(), Some(&Rule::ContractRemoves), "{bad}");
    }
    assert_eq!(broken("undo", "DROP INDEX fresh"), [Rule::UndoRemoves], "it must be repeatable");
    assert_eq!(broken("undo", "DROP TABLE IF EXISTS images"), [Rule::UndoRemoves], "expand did not add it");
    assert_eq!(broken("migrate", "CREATE TABLE fresh (id int)"), [Rule::MigrateFills]);
}

#[test]
fn what_belongs_together_stands_together() {
    let sync = "{ sync = { table = 't', old = 'a', new = 'b', up = 'a', down = 'b' } }";
    let column = "{ add_column = { table = 't', column = 'b', type = 'text' } }";
    let ends = "{ drop_sync = { table = 't', new = 'b' } }";
    let text = |expand: &str, contract: &str, undo: &str| {
        format!(
            "{HEAD}[expand]\nsteps = [{expand}]\n[contract]\nsteps = [{contract}]\n[undo]\nsteps = [{undo}]\n"
        )
    };
    let whole = text(&format!("{column}, {sync}"), ends, ends);
    assert_eq!(of(&whole), []);
    let open = of(&text(&format!("{column}, {sync}"), "", ends));
    assert!(open.len() == 1 && open[0].to_string().contains("contract does not end"), "{open:?}");
    let apart = of(&text(&format!("{column}, {{ sql = 'CREATE TABLE u (id int)' }}, {sync}"), ends, ends));
    assert!(apart.len() == 1 && apart[0].to_string().contains("apart from its new column"), "{apart:?}");
    let fill = "{ backfill = { table = 't', key = 'id', set = { b = 'a' }, where = 'b IS NULL' } }";
    let unproven = of(&format!("{HEAD}[migrate]\nrequires = {{ floor = 2 }}\nsteps = [{fill}]\n"));
    assert!(unproven.len() == 1 && unproven[0].to_string().contains("without verify"), "{unproven:?}");
    let final_ = of(&format!("{HEAD}[expand]\nsteps = [{column}]\n"));
    assert!(final_.len() == 1 && final_[0].to_string().contains("an expand without undo"), "{final_:?}");
}

#[test]
fn the_form_is_refused_with_its_line() {
    let cases = [
        (format!("{HEAD}colour = 'red'\n"), 4, "colour"),
        (HEAD.replace("version = 2", "version = 'two'"), 2, "string"),
        (HEAD.replace("version = 2", "version = -1"), 2, "-1"),
        (HEAD.replace("version = 2", "version = 2.0"), 2, "2.0"),
        (format!("{HEAD}[expand]\nsteps = [{{ sq = 'x' }}]\n"), 5, "sq"),
        (format!("{HEAD}[expand]\nsteps = [{{ sql = 7 }}]\n"), 5, "7"),
        (format!("{HEAD}[migrate]\nrequires = 'whenever'\nsteps = []\n"), 5, "whenever"),
        (
            format!(
                "{HEAD}[expand]\nsteps = [{{ add_column = {{ table = 'T; DROP', column = 'b', type = 'text' }} }}]\n"
            ),
            5,
            "T; DROP",
        ),
        (format!("{HEAD}["), 4, ""),
    ];
    for (text, line, word) in cases {
        let found = of(&text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        let said = found[0].to_string();
        assert!(said.contains("0001_it.toml") && said.contains(word) && said.contains("allowed:"), "{said}");
        assert_eq!(found[0].at.map(|(line, _)| line), Some(line), "{said}");
    }
    let zero = of(&HEAD.replace("version = 2", "version = 0"));
    assert!(zero[0].to_string().contains("1 to 2147483647"), "{zero:?}");
    let name = of(&HEAD.replace("'0001_it'", "'0001_other'"));
    assert!(name[0].to_string().contains("0001_it"), "{name:?}");
}

#[test]
fn files_stay_in_their_directory() {
    let text = |file: &str| format!("{HEAD}[contract]\nsteps = [{{ file = '{file}' }}]\n");
    let directory =
        written(&[("0001_it.toml", &text("drop.sql")), ("drop.sql", "DROP TABLE a;\n-- and\nDROP TABLE b;")]);
    let set = set_in(directory.path());
    let Step::Sql(statements) = &set.iter().next().unwrap().steps(Phase::Contract, Dialect::Sqlite)[0] else {
        panic!("a file is sql")
    };
    assert_eq!(statements.len(), 2);
    for path in ["../drop.sql", "/etc/passwd", "a/../../b.sql", "", "absent.sql"] {
        let found = of(&text(path));
        assert!(found.len() == 1 && found[0].rule == Rule::Path, "{path}: {found:?}");
    }
    let outside = written(&[("drop.sql", "DROP TABLE a")]);
    let linked = written(&[("0001_it.toml", &text("link.sql"))]);
    std::os::unix::fs::symlink(outside.path().join("drop.sql"), linked.path().join("link.sql")).unwrap();
    let found = findings(linked.path());
    assert!(found.len() == 1 && found[0].to_string().contains("through a link"), "{found:?}");
}

#[test]
fn names_of_files_and_their_numbers_are_seen() {
    let named = |id: &str| HEAD.replace("0001_it", id);
    let directory =
        written(&[("0001_it.toml", HEAD), ("0001_other.toml", &named("0001_other")), ("one.toml", HEAD)]);
    let found = findings(directory.path());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|f| f.to_string().contains("number 0001 again")), "{found:?}");
    assert!(found.iter().any(|f| f.to_string().contains("NNNN_name.toml")), "{found:?}");
    let missing = MigrationSet::load(Path::new("/no/such/directory")).unwrap_err();
    assert!(
        matches!(&missing, LoadError::Unreadable { .. }) && missing.to_string().contains("/no/such"),
        "{missing}"
    );
    let huge = written(&[("0001_it.toml", &"#".repeat(1 << 21))]);
    assert!(matches!(MigrationSet::load(huge.path()), Err(LoadError::Unreadable { .. })));
    let broken = written(&[]);
    std::fs::write(broken.path().join("0001_it.toml"), b"\xff\xfe").unwrap();
    assert!(matches!(MigrationSet::load(broken.path()), Err(LoadError::Unreadable { .. })));
}

#[test]
fn migrate_requires_expand_a_floor_or_floors_by_name() {
    let text = |requires: &str| format!("{HEAD}[migrate]\nrequires = {requires}\nsteps = []\n");
    for requires in ["'expanded'", "{ floor = 2 }", "{ conductor = 2, scheduler = 3 }"] {
        assert_eq!(of(&text(requires)), [], "{requires}");
    }
    for (requires, named) in [
        ("{}", "requires = {}"),
        ("{ floor = 2, scheduler = 2 }", "`floor` beside the names of services"),
        ("{ scheduler = 0 }", "scheduler = 0"),
        ("{ floor = 0 }", "floor 0"),
    ] {
        let found = of(&text(requires));
        assert!(found.len() == 1 && found[0].to_string().contains(named), "{requires}: {found:?}");
    }
}
