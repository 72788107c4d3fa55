//! What is wrong with a configuration although each of its fields is well formed.

use tidegate_proto::form::Flaw;

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

#[derive(Debug)]
struct Finding {
    flaw: Flaw,
    /// How many names of its path lead to the part that it is about: the field alone, or the table whose fields do not go
    /// together.
    about: usize,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds what is wrong with a field by itself.
    pub(super) fn field(&mut self, path: &[&str], what: impl Into<String>) {
        self.add(path, path.len(), what.into());
    }

    /// Adds what is wrong with a field beside others of this table.
    pub(super) fn beside(&mut self, table: &[&str], field: &[&str], what: impl Into<String>) {
        self.add(&[table, field].concat(), table.len(), what.into());
    }

    fn add(&mut self, path: &[&str], about: usize, what: String) {
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        self.0.push(Finding { flaw: Flaw { path, what, named: None }, about });
    }

    /// Those about parts as they are written. `put_right`: what was not well formed, and is not what was written any more.
    pub(super) fn about_written(self, put_right: &[Flaw]) -> Vec<Flaw> {
        let is_written = |finding: &Finding| {
            let part = &finding.flaw.path[..finding.about];
            !put_right.iter().any(|flaw| !flaw.is_unknown() && flaw.path.starts_with(part))
        };
        self.0.into_iter().filter(is_written).map(|finding| finding.flaw).collect()
    }
}

/// A table such as `service.pantry-api`, in which findings are made.
pub(super) struct Table<'a> {
    findings: &'a mut Findings,
    path: [&'a str; 2],
}

impl<'a> Table<'a> {
    pub(super) fn of(findings: &'a mut Findings, kind: &'a str, name: &'a str) -> Self {
        Self { findings, path: [kind, name] }
    }

    /// What is wrong with a field by itself.
    pub(super) fn field(&mut self, field: &[&str], what: impl std::fmt::Display) {
        let what = self.said(what);
        self.findings.field(&[&self.path[..], field].concat(), what);
    }

    /// What is wrong with a field beside others of `part`, which is empty for the whole table.
    pub(super) fn beside(&mut self, part: &[&str], field: &[&str], what: impl std::fmt::Display) {
        let what = self.said(what);
        self.findings.beside(&[&self.path[..], part].concat(), field, what);
    }

    fn said(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.path.join("."))
    }
}
