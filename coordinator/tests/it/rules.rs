//! `tools/rules` and the page of the rules name the same guards, tests and seeded bugs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// The lines of a table of `tools/rules`, each by its columns.
fn table<'a>(script: &'a str, name: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = script.split_once(&format!("\n{name}='\n")).unwrap();
    let (lines, _) = rest.split_once("\n'\n").unwrap();
    lines.lines().map(|line| line.split('|').collect()).collect()
}

/// What the page marks with ◆: the guard where it is named, and the test.
type Mark<'a> = (Option<&'a str>, &'a str);

fn marks(page: &str) -> Vec<Mark<'_>> {
    let mut found = Vec::new();
    for after in page.split("◆ `").skip(1) {
        let words: Vec<&str> = after.splitn(4, '`').collect();
        match words[..] {
            [guard, ": ", test, ..] => found.push((Some(guard), test)),
            [test, ..] => found.push((None, test)),
            [] => {}
        }
    }
    found
}

/// Whether a line of the first table is what is marked. The page leaves out the modules that its list names.
fn is_marked_by(row: &[&str], mark: &Mark<'_>) -> bool {
    let (guard, test) = *mark;
    let is_test = row[3] == test || row[3].ends_with(&format!("::{test}"));
    is_test && guard.is_none_or(|guard| guard == row[1])
}

#[test]
fn page_of_the_rules_marks_the_guards_of_make_rules() {
    let (script, page) = (read("tools/rules"), read("docs/rules.md"));
    let (table, marks) = (table(&script, "table"), marks(&page));
    assert!(table.len() > 90, "{} guards", table.len());
    let unmarked: Vec<_> =
        table.iter().filter(|row| !marks.iter().any(|mark| is_marked_by(row, mark))).collect();
    assert!(unmarked.is_empty(), "docs/rules.md has no ◆ for these of tools/rules: {unmarked:?}");
    let unknown: Vec<_> =
        marks.iter().filter(|mark| !table.iter().any(|row| is_marked_by(row, mark))).collect();
    assert!(unknown.is_empty(), "tools/rules has no line for these with a ◆ in docs/rules.md: {unknown:?}");
}

#[test]
fn page_of_the_rules_lists_the_seeded_bugs() {
    let (script, page) = (read("tools/rules"), read("docs/rules.md"));
    let (_, section) = page.split_once("\n## Seeded bugs\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let in_page = |line: &str| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let bug = columns.get(2)?.strip_prefix('`')?.strip_suffix('`')?;
        Some(format!("{} {bug}", columns[1]))
    };
    let listed: BTreeSet<String> = section.lines().filter_map(in_page).collect();
    let searched: BTreeSet<String> =
        table(&script, "seeded").iter().map(|row| format!("{} {}", row[0], row[1])).collect();
    assert!(listed.len() > 50, "{} seeded bugs", listed.len());
    assert_eq!(listed, searched, "docs/rules.md (left) and tools/rules (right)");
}

#[test]
fn seeded_bug_that_is_in_no_table_is_refused() {
    let done = Command::new(root().join("tools/rules")).args(["--simulate", "no-such-bug"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("no seeded bug 'no-such-bug'"), "{said}");
}
