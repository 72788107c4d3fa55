//! What failed: by kind, and the first requests of each load in full.

use std::fmt::Write;

use crate::gate::report::html::table;
use crate::gate::report::junit::escaped;
use crate::gate::report::{GateReport, Load};
use crate::load::entry::{Connection, Entry};

/// The columns of a request in full; times in seconds since the load's start.
const COLUMNS: [&str; 10] =
    ["step", "due s", "sent s", "first byte s", "end s", "status", "bytes", "connection", "node", "version"];

/// Both tables; nothing where no request failed.
pub(super) fn failures(page: &mut String, report: &GateReport) {
    let loads = report.loads();
    let failed: Vec<&(String, &Load)> = loads.iter().filter(|(_, load)| load.failed > 0).collect();
    if failed.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Failed requests by kind</h2><table><thead><tr><th>load</th><th class=\"n\">requests</th><th>kind</th></tr>\
         </thead>",
    );
    for (name, load) in &failed {
        for (kind, count) in load.by_kind() {
            let kind = escaped(&kind);
            // Writing to a string cannot fail.
            let _ = write!(page, "<tr><td>{name}</td><td class=\"n\">{count}</td><td>{kind}</td></tr>");
        }
    }
    page.push_str(
        "</table><h2>First failed requests</h2><p>Times are in seconds since the load's start.</p>",
    );
    for (name, load) in &failed {
        let (shown, all) = (load.first_failed.len(), load.failed);
        let _ = write!(page, "<h3>{name}: {shown} of {all}</h3>");
        table::begin(page, &COLUMNS);
        load.first_failed.iter().for_each(|entry| in_full(page, entry));
        page.push_str("</table>");
    }
}

/// A request: a row of figures, and one with what was wrong.
fn in_full(page: &mut String, entry: &Entry) {
    let seconds = |ms: f64| format!("{:.3}", ms / 1e3);
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let connection = match entry.connection {
        Connection::Fresh => "fresh",
        Connection::Kept => "kept",
    };
    let node = if entry.node.is_empty() { "unknown" } else { entry.node.as_str() };
    let version = entry.version.map_or("unknown".to_owned(), |version| version.to_string());
    let cells = [
        format!("{} {}", entry.kind, entry.seq),
        seconds(entry.scheduled_ms),
        seconds(entry.sent_ms),
        or_none(entry.first_ms.map(seconds)),
        seconds(entry.done_ms),
        or_none(entry.status.map(|status| status.to_string())),
        entry.bytes.to_string(),
        connection.to_owned(),
        node.to_owned(),
        version,
    ];
    let written = entry.written_by.map(|version| format!(" (written by version {version})"));
    page.push_str("<tbody><tr class=\"figures\">");
    table::cells(page, &COLUMNS, &cells.map(|cell| escaped(&cell)));
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "</tr><tr class=\"said\"><td colspan=\"{}\">{}{}</td></tr></tbody>",
        COLUMNS.len(),
        escaped(&entry.reason),
        written.unwrap_or_default()
    );
}
