//! `tidegate upgrade start`.

use super::watch;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::reach::Reach;
use crate::cli::show;
use crate::operation::spec;
use std::io::Read;
use std::path::Path;
use tidegate_proto::wire::v1::{ForeseeUpgradeReply, ForeseeUpgradeRequest, StartUpgradeRequest};

/// Starts.
pub async fn start(reach: &Reach, path: &Path, id: String, wait: bool) -> Result<Outcome, Failure> {
    let request = StartUpgradeRequest { spec: read(path)?, id, who: reach.who(), dry_run: false };
    let reply = reach.client().await?.start_upgrade(request).await?.into_inner();
    if reach.json && !wait {
        show::json(&reply)?;
    } else if !wait {
        show::text(&reply.id)?;
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

/// Shows what starting would do.
pub async fn foresee(reach: &Reach, path: &Path, id: String) -> Result<Outcome, Failure> {
    let request = ForeseeUpgradeRequest { spec: read(path)?, id };
    let reply = reach.client().await?.foresee_upgrade(request).await?.into_inner();
    if reach.json {
        show::json(&reply)?
    } else {
        show::text(&foreseen(&reply))?
    }
    let blocked = reply.findings.iter().any(|finding| finding.blocking);
    Ok(if blocked { Outcome::Refused } else { Outcome::Good })
}

/// The spec, read here too: what is wrong is said with the file's name and before anybody is asked.
fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    let shown = path.display();
    read.map_err(|error| Failure::usage(format!("could not read the spec {shown}: {error}")))?;
    spec::parse(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    Ok(text)
}

fn foreseen(reply: &ForeseeUpgradeReply) -> String {
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
