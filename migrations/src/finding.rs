//! A finding: where, which rule, what was found, what is allowed.

use crate::database::Dialect;
use crate::unit::Phase;
use std::fmt;
use std::hash::Hash;
use std::path::{Path, PathBuf};

/// The rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The file does not have the form of a migration.
    Form,
    /// A path leads out of the migration's directory, or its file cannot be read.
    Path,
    /// Expand only adds.
    ExpandAdds,
    /// Migrate only fills, indexes and forbids nulls.
    MigrateFills,
    /// Contract only removes or tightens.
    ContractRemoves,
    /// Undo only removes what expand added, and can be repeated.
    UndoRemoves,
    /// Rows are changed only in batches, by a backfill.
    WholeTable,
    /// A safe form exists and was not used.
    SafeForm,
    /// What belongs together is not together.
    Shape,
    /// A step says `IF EXISTS` or `IF NOT EXISTS`.
    IfExists,
    /// A step of expand has neither an undo nor `irreversible = true`.
    Undoable,
}

/// A step of a phase, counted from 0 inside, from 1 in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The phase.
    pub phase: Phase,
    /// Which of its steps, from 0.
    pub step: usize,
    /// For which engine.
    pub dialect: Dialect,
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// Line and column, where the form itself is wrong.
    pub at: Option<(usize, usize)>,
    /// The step, where a step is wrong.
    pub place: Option<Place>,
    /// Which rule.
    pub rule: Rule,
    /// What was found.
    pub found: String,
    /// What is allowed instead.
    pub allowed: String,
}

impl Finding {
    pub(crate) fn of_file(
        file: &Path,
        at: Option<(usize, usize)>,
        rule: Rule,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Finding { file: file.to_owned(), at, place: None, rule, found: found.into(), allowed: allowed.into() }
    }

    pub(crate) fn of_step(
        file: &Path,
        place: Place,
        rule: Rule,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        let (file, place) = (file.to_owned(), Some(place));
        Finding { file, at: None, place, rule, found: found.into(), allowed: allowed.into() }
    }

    /// Everything but the engine: equal for findings that are one.
    pub(crate) fn but_engine(&self) -> impl Eq + Hash + '_ {
        let spot = self.place.map(|place| (place.phase, place.step));
        (spot, &self.file, self.at, self.rule, &self.found, &self.allowed)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        if let Some(Place { phase, step, dialect }) = self.place {
            write!(f, ", {phase} step {} ({dialect})", step + 1)?;
        }
        write!(f, ": found {}; allowed: {}", self.found, self.allowed)
    }
}

/// Findings as a text for people, one a line.
pub(crate) fn listing(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n")
}
