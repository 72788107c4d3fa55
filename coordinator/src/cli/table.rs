//! Tables without rules, as in `kubectl get`.

use crate::terminal::paint::{Line, Tone, wrap};
use tidegate_proto::printable::one_line;
use unicode_width::UnicodeWidthStr;

/// Spaces between two columns.
const GAP: usize = 2;

/// Spaces before what does not fit into a row.
const INDENT: usize = 4;

/// A cell that is wider than this loses its reason (what follows `: `) where the table is too wide.
const WIDE: usize = 24;

struct Row {
    cells: Vec<String>,
    reasons: Vec<String>,
    columns: Vec<String>,
}

/// The lines of a table. With a `width`, no line is wider: reasons go below their row, then the last columns do.
pub(super) fn lines(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    width: Option<usize>,
) -> Vec<Line> {
    let escaped = |cells: Vec<String>| cells.iter().map(|cell| one_line(cell).into_owned()).collect();
    let row = |cells| Row { cells: escaped(cells), reasons: Vec::new(), columns: Vec::new() };
    let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
    let mut columns = header.len();
    if let Some(width) = width {
        if total(&widths(header, &rows, columns)) > width {
            rows.iter_mut().for_each(Row::reasons_below);
        }
        while columns > 1 && total(&widths(header, &rows, columns)) > width {
            columns -= 1;
            rows.iter_mut().for_each(|row| row.column_below(columns, header[columns]));
        }
    }
    let widths = widths(header, &rows, columns);
    let titles: Vec<String> = header.iter().map(|title| (*title).to_owned()).collect();
    let mut lines = vec![line(&titles[..columns], &widths, |_| Tone::Plain)];
    for row in &rows {
        lines.push(line(&row.cells[..columns], &widths, |column| tone(header[column], &row.cells[column])));
        let below = std::iter::once(row.columns.join(", ")).chain(row.reasons.iter().cloned());
        let wrapped = below.flat_map(|text| wrap(&text, width.unwrap_or(usize::MAX).saturating_sub(INDENT)));
        lines.extend(wrapped.map(|text| Line::new().with(Tone::Plain, format!("{:INDENT$}{text}", ""))));
    }
    lines
}

impl Row {
    fn reasons_below(&mut self) {
        for cell in self.cells.iter_mut().skip(1).filter(|cell| cell.width() > WIDE) {
            if let Some((word, reason)) = cell.split_once(": ") {
                self.reasons.push(reason.to_owned());
                *cell = word.to_owned();
            }
        }
    }

    fn column_below(&mut self, column: usize, title: &str) {
        let cell = &self.cells[column];
        if !cell.is_empty() && cell != "-" {
            self.columns.insert(0, format!("{}: {cell}", title.to_lowercase()));
        }
    }
}

fn widths(header: &[&str], rows: &[Row], columns: usize) -> Vec<usize> {
    let widest = |column: usize| rows.iter().map(move |row| row.cells[column].width()).max().unwrap_or(0);
    (0..columns).map(|column| header[column].width().max(widest(column))).collect()
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// A row; nothing follows its last cell that holds anything.
fn line(cells: &[String], widths: &[usize], tone: impl Fn(usize) -> Tone) -> Line {
    let used = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
    let mut line = Line::new();
    for (column, cell) in cells[..used].iter().enumerate() {
        line = line.with(tone(column), cell);
        if column + 1 < used {
            line = line.with(Tone::Plain, " ".repeat(widths[column] - cell.width() + GAP));
        }
    }
    line
}

/// The tone of a cell, by the title of its column.
fn tone(title: &str, cell: &str) -> Tone {
    let word = cell.split([' ', ':']).next().unwrap_or_default();
    match title {
        "ROTATION" | "HEALTH" | "STEP" => Tone::of_instance(word),
        "PHASE" if word == "paused" => Tone::Warn,
        "PHASE" => Tone::of_phase(word),
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [&str; 4] = ["INSTANCE", "ROTATION", "STEP", "WAVE"];

    fn shown(width: Option<usize>, colour: bool) -> String {
        let row = |cells: [&str; 4]| cells.map(ToOwned::to_owned).to_vec();
        let reason = "failed: replacing: the program ended with status 1";
        let rows = [row(["api/n1", "in", "serving", "1"]), row(["api/node-2", "out", reason, "-"])];
        let lines = lines(&HEADER, rows, width);
        lines.iter().map(|line| line.text(usize::MAX, colour) + "\n").collect::<String>().replace('\x1b', "^")
    }

    #[test]
    fn table_in_a_pipe_has_one_line_for_each_row() {
        let expected = "\
INSTANCE    ROTATION  STEP                                                WAVE
api/n1      in        serving                                             1
api/node-2  out       failed: replacing: the program ended with status 1  -
";
        assert_eq!(shown(None, false), expected);
        assert_eq!(shown(Some(80), false), expected);
    }

    #[test]
    fn reason_goes_below_its_row_where_the_table_is_too_wide() {
        let expected = "\
INSTANCE    ROTATION  STEP     WAVE
api/n1      in        serving  1
api/node-2  out       failed   -
    replacing: the program ended with
    status 1
";
        assert_eq!(shown(Some(40), false), expected);
    }

    #[test]
    fn last_columns_go_below_their_row_where_that_is_not_enough() {
        let expected = "\
INSTANCE    ROTATION
api/n1      in
    step: serving, wave:
    1
api/node-2  out
    step: failed
    replacing: the
    program ended with
    status 1
";
        assert_eq!(shown(Some(24), false), expected);
    }

    #[test]
    fn words_are_coloured_by_what_they_mean() {
        let expected = "\
INSTANCE    ROTATION  STEP     WAVE
api/n1      ^[32min^[0m        serving  1
api/node-2  ^[33mout^[0m       ^[31mfailed^[0m   -
    replacing: the program ended with
    status 1
";
        assert_eq!(shown(Some(40), true), expected);
        assert_eq!(tone("PHASE", "paused in roll 2/4"), Tone::Warn);
        assert_eq!(tone("NAME", "failed"), Tone::Plain);
    }
}
