//! The form that each version gives the database, and the migration that leads to it.

use super::super::scenario::{Change, SchemaPlan};

fn renames(plan: &SchemaPlan, version: u32) -> impl Iterator<Item = usize> {
    let known = usize::try_from(version.saturating_sub(1)).unwrap_or(usize::MAX);
    let of = plan.generations.iter().take(known).enumerate();
    of.filter(|(_, g)| g.change == Change::Rename).map(|(n, _)| n + 2)
}

pub(super) fn added(plan: &SchemaPlan, version: u32) -> Vec<usize> {
    let known = usize::try_from(version.saturating_sub(1)).unwrap_or(usize::MAX);
    let of = plan.generations.iter().take(known).enumerate();
    of.filter(|(_, g)| g.change == Change::Add).map(|(n, _)| n + 2).collect()
}

/// The column in which a version finds the value.
pub(super) fn column(plan: &SchemaPlan, version: u32) -> String {
    format!("a{}", renames(plan, version).last().unwrap_or(1))
}

/// The value as a version writes and reads it.
pub(super) fn form(plan: &SchemaPlan, version: u32, value: &str) -> String {
    format!("{value}{}", "+".repeat(renames(plan, version).count()))
}

/// The migration of a generation; `shares` are the services that share the schema.
pub(super) fn migration(plan: &SchemaPlan, n: usize, shares: &[&str]) -> String {
    let (generation, version) = (&plan.generations[n], n + 2);
    let from = u32::try_from(n + 1).unwrap_or(1);
    let requires = match generation.after_roll {
        true => format!("{{ floor = {version} }}"),
        false if generation.others_first && !shares.is_empty() => {
            let each: Vec<String> = shares.iter().map(|name| format!("{name} = {version}")).collect();
            format!("{{ {} }}", each.join(", "))
        }
        false => "\"expanded\"".to_owned(),
    };
    let head = format!(
        "id = \"{version:04}_change\"\nversion = {version}\nold_reads_migrated = {}\n",
        generation.old_reads
    );
    let (old, new) = (column(plan, from), format!("a{version}"));
    // What is irreversible stays after a rollback: there is nothing to undo.
    let undo =
        format!("[undo]\nsteps = [{{ drop_column = {{ table = \"items\", column = \"b{version}\" }} }}]\n");
    let (stays, undo) =
        if generation.irreversible { (", irreversible = true", String::new()) } else { ("", undo) };
    head + &match generation.change {
        Change::Rename => format!(
            "[expand]\nsteps = [\n  {{ add_column = {{ table = \"items\", column = \"{new}\", type = \"text\" }} }},\n  \
             {{ sync = {{ table = \"items\", old = \"{old}\", new = \"{new}\", up = \"{old} || '+'\", \
             down = \"substr({new}, 1, length({new}) - 1)\" }} }},\n]\n[migrate]\nrequires = {requires}\nsteps = [\n  \
             {{ backfill = {{ table = \"items\", key = \"id\", where = \"{new} IS NULL\", batch_ms = 5, set = {{ {new} = \
             \"{old} || '+'\" }} }} }},\n]\nverify = \"SELECT count(*) FROM items WHERE {new} IS NULL\"\n[contract]\n\
             steps = [\n  {{ drop_sync = {{ table = \"items\", new = \"{new}\" }} }},\n  {{ drop_column = {{ table = \
             \"items\", column = \"{old}\" }} }},\n]\n[undo]\nsteps = [\n  {{ drop_sync = {{ table = \"items\", new = \
             \"{new}\" }} }},\n  {{ drop_column = {{ table = \"items\", column = \"{new}\" }} }},\n]\n"
        ),
        Change::Add => format!(
            "[expand]\nsteps = [{{ add_column = {{ table = \"items\", column = \"b{version}\", type = \"text\" }}{stays} }}]\n\
             [migrate]\nrequires = {requires}\nsteps = [{{ backfill = {{ table = \"items\", key = \"id\", where = \
             \"b{version} IS NULL\", batch_ms = 5, set = {{ b{version} = \"'b'\" }} }} }}]\nverify = \"SELECT count(*) FROM \
             items WHERE b{version} IS NULL\"\n{undo}"
        ),
    }
}
