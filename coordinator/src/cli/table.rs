//! Tables without rules, as in `kubectl get`.

use super::paint::{Line, Tone};
use tidegate_proto::printable::one_line;
use unicode_width::UnicodeWidthStr;

/// Spaces between two columns.
const GAP: usize = 2;

/// The lines of a table: one for its header, one for each row.
pub fn lines(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Vec<Line> {
    let escaped = |cells: Vec<String>| cells.iter().map(|cell| one_line(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.into_iter().map(escaped).collect();
    let widths = widths(header, &rows);
    let titles: Vec<String> = header.iter().map(|title| (*title).to_owned()).collect();
    let mut lines = vec![line(&titles, &widths, |_| Tone::Plain)];
    lines.extend(rows.iter().map(|row| line(row, &widths, |column| tone(header[column], &row[column]))));
    lines
}

fn widths(header: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |column: usize| rows.iter().map(move |row| row[column].width()).max().unwrap_or(0);
    header.iter().enumerate().map(|(column, title)| title.width().max(widest(column))).collect()
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
        "STANDS" if word == "paused" => Tone::Warn,
        "STANDS" => Tone::of_phase(word),
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(colour: bool) -> String {
        let row = |cells: [&str; 4]| cells.map(ToOwned::to_owned).to_vec();
        let rows =
            [row(["api/n1", "in", "serving", "1"]), row(["api/node-2", "out", "failed: no library", ""])];
        let lines = lines(&["INSTANCE", "ROTATION", "STEP", "WAVE"], rows);
        lines.iter().map(|line| line.text(usize::MAX, colour) + "\n").collect::<String>().replace('\x1b', "^")
    }

    #[test]
    fn table_has_one_line_for_each_row() {
        let expected = "\
INSTANCE    ROTATION  STEP                WAVE
api/n1      in        serving             1
api/node-2  out       failed: no library
";
        assert_eq!(shown(false), expected);
    }

    #[test]
    fn words_are_coloured_by_what_they_mean() {
        let expected = "\
INSTANCE    ROTATION  STEP                WAVE
api/n1      ^[32min^[0m        serving             1
api/node-2  ^[33mout^[0m       ^[31mfailed: no library^[0m
";
        assert_eq!(shown(true), expected);
        assert_eq!(tone("STANDS", "paused in roll 2/4"), Tone::Warn);
        assert_eq!(tone("NAME", "failed"), Tone::Plain);
    }
}
