//! `tidegate upgrade gates`: what gate jobs have found.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show;
use tidegate_proto::wire::counted;
use tidegate_proto::wire::v1::{GateVerdict, ListGatesRequest};

const HEADER: [&str; 10] =
    ["SERVICE", "TAG", "FROM", "TO", "VERDICT", "EARLIER", "BY", "RECORDED", "FROM SHA256", "TO SHA256"];

/// How many digits of a digest a table shows; JSON has all.
const SHOWN: usize = 12;

pub(super) async fn list(options: &GlobalOptions, service: String) -> Result<Outcome, Failure> {
    let mut verdicts = options.client().await?.list_gates(ListGatesRequest { service }).await?.into_inner();
    let mut rows = Vec::new();
    while let Some(verdict) = verdicts.message().await? {
        match options.json {
            true => show::json(&verdict)?,
            false => rows.push(row(verdict)),
        }
    }
    if !options.json && rows.is_empty() {
        show::line("no verdict of a gate job is recorded")?;
    } else if !options.json {
        show::table(&HEADER, rows)?;
    }
    Ok(Outcome::Good)
}

fn row(gate: GateVerdict) -> Vec<String> {
    let verdict = match (gate.verdict, gate.unreadable) {
        (Some(verdict), _) => verdict,
        (None, why) => format!("unreadable: {}", why.unwrap_or_default()),
    };
    vec![
        gate.service,
        gate.tag,
        gate.from.to_string(),
        gate.to.to_string(),
        verdict,
        show::or_dash(Some(counted(&gate.earlier)).filter(|earlier| !earlier.is_empty())),
        show::or_dash(Some(gate.who).filter(|who| !who.is_empty())),
        show::or_dash(gate.at.map(show::time)),
        format!("{:.SHOWN$}", gate.from_sha256),
        format!("{:.SHOWN$}", gate.to_sha256),
    ]
}
