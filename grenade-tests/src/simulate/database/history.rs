//! Who wrote the migration engine's history: no deposed leader.

use std::collections::BTreeMap;

/// The engine's history, as far as it shows its writers.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The number of the term that is obeyed.
    term: i64,
    /// Term and state of each row.
    rows: BTreeMap<String, String>,
}

impl History {
    /// Reads the rows of now; returns a row that a lower term wrote than was obeyed at the last look.
    pub(super) fn follow(&mut self, term: i64, rows: Vec<(String, Option<String>)>) -> Option<String> {
        let before = std::mem::take(self);
        self.term = term;
        let mut wrong = None;
        for (seq, row) in rows.into_iter().filter_map(|(seq, row)| Some((seq, row?))) {
            let (of, state) = row.split_once(' ').unwrap_or_default();
            // What is opened again, or laid aside, has the term that wrote it before.
            let is_laid_aside = state.starts_with("undone");
            let is_written =
                !before.rows.contains_key(&seq) || state.starts_with("done") || state.ends_with('}');
            if before.rows.get(&seq) != Some(&row)
                && is_written
                && !is_laid_aside
                && of.parse().is_ok_and(|of: i64| of < before.term)
            {
                wrong.get_or_insert_with(|| {
                    format!("row {seq} of the history is {row:?}, and term {} was obeyed before", before.term)
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
