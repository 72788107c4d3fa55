//! Which terms wrote the migration engine's history: none that is lower than the one that the database obeyed, and none of a
//! store that does not know that one.

use std::collections::BTreeMap;

/// The id of the term under which a person claims a database that no leader has claimed.
const BY_HAND: &str = "by-hand";

/// Where a store has a term from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::simulate) enum TermOrigin {
    /// It does not know the term.
    Unknown,
    /// It was reconciled with the term.
    Reconciled,
    /// It has given the term to a leader.
    Given,
}

/// The engine's history, as far as it shows its writers.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The number of the term that is obeyed.
    term: i64,
    /// The id of the term that was obeyed at the last look.
    obeyed: Option<String>,
    /// Term and state of each row.
    rows: BTreeMap<String, String>,
}

impl History {
    /// Takes in the id of the term that is obeyed now; says so where a leader of the store has claimed the database, and the
    /// store does not know the term that was obeyed at the last look. A leader of a former store may have claimed it as the
    /// store was replaced.
    pub(super) fn claimed(&mut self, id: &str, origin: impl Fn(&str) -> TermOrigin) -> Option<String> {
        let former = self.obeyed.replace(id.to_owned())?;
        let is_overwritten = former != id
            && former != BY_HAND
            && origin(id) == TermOrigin::Given
            && origin(&former) == TermOrigin::Unknown;
        is_overwritten.then(|| {
            format!("term {id} claimed a database that obeyed term {former}, which the store does not know")
        })
    }

    /// Reads the rows of now; returns a row that a lower term wrote than was obeyed at the last look.
    pub(super) fn follow(&mut self, term: i64, rows: Vec<(String, Option<String>)>) -> Option<String> {
        let (obeyed, before) = (std::mem::replace(&mut self.term, term), std::mem::take(&mut self.rows));
        let mut wrong = None;
        for (seq, row) in rows.into_iter().filter_map(|(seq, row)| Some((seq, row?))) {
            let (of, state) = row.split_once(' ').unwrap_or_default();
            // What is opened again, or laid aside, has the term that wrote it before.
            let is_laid_aside = state.starts_with("undone");
            let is_written = !before.contains_key(&seq) || state.starts_with("done") || state.ends_with('}');
            if before.get(&seq) != Some(&row)
                && is_written
                && !is_laid_aside
                && of.parse().is_ok_and(|of: i64| of < obeyed)
            {
                wrong.get_or_insert_with(|| {
                    format!("row {seq} of the history is {row:?}, and term {obeyed} was obeyed before")
                });
            }
            self.rows.insert(seq, row);
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        of.iter().map(|(seq, row)| ((*seq).to_owned(), Some((*row).to_owned()))).collect()
    }

    #[test]
    fn unknown_term_is_overwritten_only_after_reconciliation() {
        let mut history = History::default();
        let of = |given: &'static [&'static str]| {
            move |term: &str| match term {
                "reconciled" => TermOrigin::Reconciled,
                term if given.contains(&term) => TermOrigin::Given,
                _ => TermOrigin::Unknown,
            }
        };
        assert_eq!(history.claimed("by-hand", of(&[])), None);
        assert_eq!(history.claimed("a", of(&["a"])), None, "a person's claim is no leader's");
        assert_eq!(history.claimed("b", of(&["a", "b"])), None, "the store knows both");
        assert_eq!(history.claimed("b", of(&["c"])), None, "nothing was claimed");
        assert_eq!(history.claimed("d", of(&["c"])), None, "a leader of the former store did");
        let overwritten = history.claimed("c", of(&["c"]));
        assert!(overwritten.is_some_and(|text| text.contains("obeyed term d")));
        assert_eq!(history.follow(7, rows(&[])), None);
        assert!(history.claimed("e", of(&["e"])).is_some(), "a look at the rows forgets nothing");
        assert_eq!(history.claimed("f", of(&["e", "f"])), None, "the store gave both");
        assert_eq!(history.claimed("reconciled", of(&[])), None, "a leader of the former store did");
        assert_eq!(history.claimed("g", of(&["g"])), None, "the store was reconciled with it");
    }

    #[test]
    fn row_written_under_a_lower_term_is_found() {
        let mut history = History::default();
        assert_eq!(history.follow(7, rows(&[("1", "7 running")])), None);
        assert_eq!(history.follow(9, rows(&[("1", "7 done")])), None, "term 9 may have come after it");
        assert_eq!(history.follow(9, rows(&[("1", "7 running"), ("2", "9 running")])), None, "opened again");
        assert_eq!(history.follow(9, rows(&[("1", "7 undone{}"), ("2", "9 running")])), None, "laid aside");
        let written = history.follow(9, rows(&[("1", "7 done"), ("2", "9 done")]));
        assert!(written.is_some_and(|text| text.contains("row 1")), "term 7 wrote after term 9");
        assert!(history.follow(9, rows(&[("3", "7 running")])).is_some(), "and began another row");
    }
}
