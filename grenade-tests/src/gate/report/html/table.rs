//! A table with many columns.

use std::fmt::Write;

/// Begins it, with the names of its columns; the first column names the row, the others have figures.
pub(super) fn begin(page: &mut String, columns: &[&str]) {
    page.push_str("<table class=\"wide\"><thead><tr>");
    for (n, column) in columns.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(page, "<th{}>{column}</th>", if n == 0 { "" } else { " class=\"n\"" });
    }
    page.push_str("</tr></thead>");
}

/// The cells of a row, escaped, each with the name of its column, for screens on which columns have no room.
pub(super) fn cells(page: &mut String, columns: &[&str], cells: &[String]) {
    for (n, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let class = if n == 0 { "name" } else { "n" };
        // Writing to a string cannot fail.
        let _ = write!(page, "<td class=\"{class}\" data-label=\"{column}\">{cell}</td>");
    }
}
