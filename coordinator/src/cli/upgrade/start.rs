//! `tidegate upgrade start`.

use super::watch;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show::{self, Page};
use crate::operation::spec;
use std::io::Read;
use std::path::Path;
use tidegate_proto::wire::v1::{PreviewUpgradeReply, PreviewUpgradeRequest, StartUpgradeRequest};

pub(super) async fn start(
    options: &GlobalOptions,
    path: &Path,
    id: String,
    wait: bool,
) -> Result<Outcome, Failure> {
    let request = StartUpgradeRequest { spec: read(path)?, id, who: options.who(), dry_run: false };
    let reply = options.client().await?.start_upgrade(request).await?.into_inner();
    if options.json && !wait {
        show::json(&reply)?;
    } else if !wait {
        show::line(&reply.id)?;
    }
    for finding in &reply.findings {
        show::note(format!("tidegate: warning: {}", finding.what));
    }
    if wait {
        show::note(format!("tidegate: upgrade {} is started", reply.id));
        return watch::watch(options, reply.id).await;
    }
    Ok(Outcome::Good)
}

/// Shows what starting would do.
pub(super) async fn preview(options: &GlobalOptions, path: &Path, id: String) -> Result<Outcome, Failure> {
    let request = PreviewUpgradeRequest { spec: read(path)?, id };
    let reply = options.client().await?.preview_upgrade(request).await?.into_inner();
    if options.json {
        show::json(&reply)?
    } else {
        previewed(&reply).print()?
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
    let shown = &path.display();
    read.map_err(|error| Failure::usage(format!("could not read the spec {shown}: {error}")))?;
    if text.len() > spec::MOST_BYTES {
        spec::parse(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    }
    spec::check(&text).map_err(|findings| {
        let findings: Vec<String> = findings.iter().map(|found| found.in_file(shown)).collect();
        Failure::usage(findings.join("\n"))
    })?;
    Ok(text)
}

fn previewed(reply: &PreviewUpgradeReply) -> Page {
    let mut page = Page::default();
    for finding in &reply.findings {
        let word = if finding.blocking { "blocks " } else { "warning" };
        page.line(format!("{word}  {}", finding.what));
    }
    if reply.findings.is_empty() {
        page.line("preflight has no findings");
    }
    for wave in &reply.waves {
        let more = if wave.more_nodes > 0 { format!(" and {} more", wave.more_nodes) } else { String::new() };
        page.line(format!("wave {:>3}  {:>6}  {}{more}", wave.wave, wave.size, wave.nodes.join(" ")));
    }
    page
}
