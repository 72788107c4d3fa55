//! The releases of the sample service and what each changes of the schema. Release 2 is the migration of the sample
//! itself; each later one adds a column, fills it, and drops the one of its predecessor when it is contracted. Later
//! programs are version 2 under another name, which need neither column.

use anyhow::Context;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::migrations::DIRECTORY;
use crate::fixture::node::{PROGRAM, SERVICE};
use crate::world::{World, program};

/// The last release.
pub(super) const LAST: u32 = 60;

/// The tag of a release.
pub(super) fn tag(version: u32) -> String {
    format!("pantry-{version}.0.0")
}

/// Where agents fetch a release's program.
fn artifact(world: &World, version: u32) -> PathBuf {
    world.path("artifacts").join(tag(version)).join(PROGRAM)
}

/// Puts the programs where agents fetch them, without what only a debugger needs; answers the sha256 of all but the
/// first, and the size of one in bytes.
///
/// # Errors
/// When a program is not built or cannot be copied.
pub(super) fn publish(world: &World) -> anyhow::Result<(String, u64)> {
    for version in 1..=LAST {
        let to = artifact(world, version);
        std::fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
        if version > 2 {
            std::fs::hard_link(artifact(world, 2), &to).context("could not link an artifact")?;
            continue;
        }
        let built = program::own(&format!("pantry-v{version}"))?;
        let stripped = Command::new(program::outside("strip")?).arg("-o").args([&to, &built]).status();
        if !stripped.is_ok_and(|status| status.success()) {
            std::fs::copy(&built, &to).context("could not copy a program")?;
        }
    }
    let new = std::fs::read(artifact(world, 2)).context("could not read a program")?;
    let size = u64::try_from(new.len())?;
    Ok((hex::encode(Sha256::digest(new)), size))
}

/// What an agent's configuration says of the releases after the second.
pub(super) fn later_artifacts(world: &World) -> String {
    let one = |version: u32| {
        let source = artifact(world, version).display().to_string();
        format!("[service.{SERVICE}.artifact.{:?}]\nsource = {source:?}\nversion = {version}\n", tag(version))
    };
    (3..=LAST).map(one).collect()
}

/// Writes the migration of a version where coordinators look for it. That of version 2 is there.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_migration(migrations: &Path, version: u32) -> anyhow::Result<()> {
    if version <= 2 {
        return Ok(());
    }
    // The first of these leaves nothing behind that the next one drops.
    let former = version - 1;
    let contract =
        if former == 2 { String::new() } else { format!("[contract]\nsteps = [{}]\n", drops(former, "")) };
    let undo = drops(version, "IF EXISTS ");
    let text = format!(
        r#"id = "{version:04}_note"
version = {version}
old_reads_migrated = true
[expand]
steps = [
  {{ add_column = {{ table = "images", column = "note_{version}", type = "text" }} }},
  {{ sql = "CREATE FUNCTION note_{version}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note_{version} := 'noted'; RETURN NEW; END $$" }},
  {{ sql = "CREATE TRIGGER note_{version} BEFORE INSERT ON images FOR EACH ROW EXECUTE FUNCTION note_{version}()" }},
]
[migrate]
requires = "expanded"
steps = [{{ backfill = {{ table = "images", key = "id", where = "note_{version} IS NULL", batch_ms = 40, set = {{ note_{version} = "'noted'" }} }} }}]
verify = "SELECT count(*) FROM images WHERE note_{version} IS NULL"
{contract}[undo]
steps = [{undo}]
"#
    );
    let path = migrations.join(DIRECTORY).join(format!("{version:04}_note.toml"));
    std::fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))
}

/// The steps that drop what a version added. An undo may come before all of it is there: `if_exists`.
fn drops(version: u32, if_exists: &str) -> String {
    format!(
        r#"
  {{ sql = "DROP TRIGGER {if_exists}note_{version} ON images" }},
  {{ sql = "DROP FUNCTION {if_exists}note_{version}()" }},
  {{ drop_column = {{ table = "images", column = "note_{version}" }} }},
"#
    )
}
