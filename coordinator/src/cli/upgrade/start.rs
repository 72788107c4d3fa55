//! `tidegate upgrade start`.

use super::watch;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::reach::Reach;
use crate::cli::show;
use crate::operation::spec;
use std::io::Read;
use std::path::Path;
use tidegate_proto::wire::v1::{StartUpgradeReply, StartUpgradeRequest};

/// Starts, or shows what starting would do.
pub async fn start(
    reach: &Reach,
    path: &Path,
    id: String,
    dry_run: bool,
    wait: bool,
) -> Result<Outcome, Failure> {
    let text = read(path)?;
    // Read here too: what is wrong is said with the file's name and before anybody is asked.
    spec::parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let request = StartUpgradeRequest { spec: text, id, who: reach.who(), dry_run };
    let reply = reach.client().await?.start_upgrade(request).await?.into_inner();
    if reach.json && !wait {
        show::json(&reply)?;
    } else if dry_run {
        show::text(&foreseen(&reply))?;
    } else if !wait {
        show::text(&reply.id)?;
    }
    if dry_run {
        let blocked = reply.findings.iter().any(|finding| finding.blocking);
        return Ok(if blocked { Outcome::Refused } else { Outcome::Good });
    }
    for finding in &reply.findings {
        eprintln!("tidegate: warning: {}", finding.what);
    }
    if wait {
        eprintln!("tidegate: upgrade {} is started", reply.id);
        return watch::watch(reach, reply.id).await;
    }
    Ok(Outcome::Good)
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    read.map_err(|error| Failure::usage(format!("could not read the spec {}: {error}", path.display())))?;
    Ok(text)
}

fn foreseen(reply: &StartUpgradeReply) -> String {
    let mut text = String::new();
    for finding in &reply.findings {
        let word = if finding.blocking { "blocks " } else { "warning" };
        text.push_str(&format!("{word}  {}\n", finding.what));
    }
    if reply.findings.is_empty() {
        text.push_str("preflight finds nothing in the way\n");
    }
    for wave in &reply.waves {
        let more = if wave.more_nodes > 0 { format!(" and {} more", wave.more_nodes) } else { String::new() };
        text.push_str(&format!("wave {:>3}  {:>6}  {}{more}\n", wave.wave, wave.size, wave.nodes.join(" ")));
    }
    text
}
