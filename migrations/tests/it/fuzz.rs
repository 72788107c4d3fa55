//! Hostile migrations: a directory with one file is loaded, linted, and given a digest.

use std::path::PathBuf;
use tidegate_fuzz::{Border, Counting, Form, Limits, Shape};
use tidegate_migrations::{Dialect, MigrationSet, Phase};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A directory with one migration, whose text changes.
struct Directory {
    home: tempfile::TempDir,
    file: PathBuf,
}

impl Directory {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("0002_colour.toml");
        std::fs::write(home.path().join("beside.sql"), "CREATE TABLE t (a int);").unwrap();
        Self { home, file }
    }

    /// Loads it; what is taken can be walked, what is refused says so.
    fn load(&self, bytes: &[u8]) {
        std::fs::write(&self.file, bytes).unwrap();
        match MigrationSet::load(self.home.path()) {
            Ok(set) => {
                std::hint::black_box(set.digest());
                for (migration, dialect) in set.iter().flat_map(|m| Dialect::ALL.map(|d| (m, d))) {
                    Phase::ALL.iter().flat_map(|phase| migration.steps(*phase, dialect)).for_each(|step| {
                        std::hint::black_box(step.summary());
                    });
                }
            }
            Err(refused) => {
                std::hint::black_box(refused.to_string());
            }
        }
    }
}

fn border() -> Border {
    // Each finding names the file and what is allowed, in some 400 bytes, for a step of 20 bytes, on both engines.
    Border::new(env!("CARGO_MANIFEST_DIR"), "migration", Form::Toml).within(Limits {
        base: 256 * 1024,
        per_byte: 256,
        turnover: 12,
    })
}

#[test]
fn hostile_migration_is_read_or_refused() {
    let directory = Directory::new();
    border().holds(|bytes| directory.load(bytes));
}

#[test]
fn migration_is_read_in_linear_time() {
    let head = "id = \"0002_colour\"\nversion = 2\nold_reads_migrated = true\n";
    let phase = |phase: &str| format!("{head}[{phase}]\nsteps = [");
    let sql = |phase: &str| format!("{head}[{phase}]\nsteps = [{{ sql = \"\"\"\n");
    let shapes = [
        Shape::repeated(
            "statements of one step",
            &sql("expand"),
            "INSERT INTO t VALUES ({n});\n",
            "\"\"\" }]\n",
        ),
        Shape::repeated(
            "parts of a name",
            &(sql("expand") + "ALTER TABLE IF EXISTS app"),
            ".\"Things\"\"Things\"",
            " ADD COLUMN c int;\n\"\"\" }]\n",
        ),
        Shape::repeated("parts of a table's name", &(sql("expand") + "x ON a"), ".a", "\n\"\"\" }]\n"),
        Shape::repeated("tables", &sql("expand"), "CREATE TABLE t{n} (a int);\n", "\"\"\" }]\n"),
        Shape::repeated("indexes", &sql("expand"), "CREATE INDEX i ON t{n} (a);\n", "\"\"\" }]\n"),
        Shape::repeated("dropped tables", &sql("undo"), "DROP TABLE t{n};\n", "\"\"\" }]\n"),
        Shape::repeated("words of one statement", &sql("expand"), "a $ b. ", "\"\"\" }]\n"),
        Shape::repeated("dollars", &sql("expand"), "$", "\"\"\" }]\n"),
        Shape::repeated("open comments", &sql("expand"), "/*", "\"\"\" }]\n"),
        Shape::repeated("blocks", &sql("expand"), "CREATE BEGIN CASE END ", "\"\"\" }]\n"),
        Shape::repeated("commas", &sql("expand"), "ALTER TABLE t ADD a int, ADD b int,", "\"\"\" }]\n"),
        Shape::repeated("unknown steps", &phase("expand"), "{ x{n} = 1 },", "]\n"),
        Shape::repeated("steps", &phase("expand"), "{ sql = \"DROP x{n}\" },", "]\n"),
        Shape::repeated(
            "columns",
            &phase("expand"),
            "{ add_column = { table = \"t\", column = \"c{n}\", type = \"int\" } },",
            "]\n",
        ),
        Shape::repeated(
            "columns that were never added",
            &phase("undo"),
            "{ drop_column = { table = \"t\", column = \"c{n}\" } },",
            "]\n",
        ),
        Shape::repeated(
            "syncs",
            &phase("expand"),
            "{ sync = { table = \"t\", old = \"a\", new = \"c{n}\", up = \"a\", down = \"a\" } },",
            "]\n",
        ),
        Shape::repeated(
            "fills",
            &phase("migrate"),
            "{ backfill = { table = \"t\", key = \"k\", where = \"a\", set = { a = \"{n}\" } } },",
            "]\nrequires = \"expanded\"\n",
        ),
        Shape::repeated("floors", &format!("{head}[migrate]\nsteps = []\n"), "requires.s{n} = 0\n", ""),
        Shape::made("columns with syncs and their ends", move |bytes| {
            let n = bytes / 400;
            let each =
                |form: &str| -> String { (0..n).map(|n| form.replace("{n}", &n.to_string())).collect() };
            let add = each("{ add_column = { table = \"t\", column = \"c{n}\", type = \"int\" } },");
            let sync =
                each("{ sync = { table = \"t\", old = \"a\", new = \"c{n}\", up = \"a\", down = \"a\" } },");
            let end = each("{ drop_sync = { table = \"t\", new = \"c{n}\" } },");
            let gone = each("{ drop_column = { table = \"t\", column = \"c{n}\" } },");
            let none = each("{ not_null = { table = \"t\", column = \"c{n}\" } },");
            format!(
                "{head}[expand]\nsteps = [{add}{sync}]\n[migrate]\nrequires = \"expanded\"\nsteps = [{none}]\n\
                 [contract]\nsteps = [{end}]\n[undo]\nsteps = [{end}{gone}]\n"
            )
            .into_bytes()
        }),
    ];
    let directory = Directory::new();
    border().grows_linearly(4_000, &shapes, |bytes| directory.load(bytes));
}
