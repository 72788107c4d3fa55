//! `tidegate release matrix`: which tags were tested together.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show;
use tidegate_proto::wire::counted;
use tidegate_proto::wire::v1::{Evidence, ListEvidenceRequest};

const HEADER: [&str; 8] = ["COMPUTE", "STORAGE", "VERDICT", "EARLIER", "BY", "RECORDED", "WAITING", "NOTE"];

pub(super) async fn list(options: &GlobalOptions, compute_tag: String) -> Result<Outcome, Failure> {
    let message = ListEvidenceRequest { compute_tag, storage_tag: String::new() };
    let mut verdicts = options.releases().await?.list_evidence(message).await?.into_inner();
    let mut rows = Vec::new();
    while let Some(evidence) = verdicts.message().await? {
        match options.json {
            true => show::json(&evidence)?,
            false => rows.push(row(evidence)),
        }
    }
    if options.json {
        return Ok(Outcome::Good);
    }
    if rows.is_empty() {
        show::line("no evidence is recorded, and no release waits for any")?;
        return Ok(Outcome::Good);
    }
    show::table(&HEADER, rows)?;
    Ok(Outcome::Good)
}

fn row(evidence: Evidence) -> Vec<String> {
    let text = |text: String| show::or_dash(Some(text).filter(|text| !text.is_empty()));
    let waiting: Vec<String> =
        evidence.waiting.iter().map(|release| format!("{} {}", release.stream, release.revision)).collect();
    let verdict = match (evidence.verdict, evidence.unreadable) {
        (Some(verdict), _) => verdict,
        (None, Some(why)) => format!("unreadable: {why}"),
        (None, None) => "none".to_owned(),
    };
    vec![
        evidence.compute_tag,
        evidence.storage_tag,
        verdict,
        text(counted(&evidence.earlier)),
        text(evidence.who),
        show::or_dash(evidence.at.map(show::time)),
        text(waiting.join(", ")),
        text(evidence.note),
    ]
}
