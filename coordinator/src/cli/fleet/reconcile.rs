//! `tidegate fleet reconcile`: the plan, as people read it.

use super::super::exit::{Failure, Outcome};
use super::super::options::GlobalOptions;
use super::super::show::{self, Page};
use tidegate_proto::wire::v1::{
    PlanReconciliationReply, PlanReconciliationRequest, RunningInstance, WindowChange, WitnessClaim,
};

/// What a plan cannot show.
const UNLISTED: &str = "An instance is listed where its agent has reported to this store, or the store has a \
                        record of it. Where one is missing, start its agent, and look at the plan again before \
                        you apply it: what that agent obeyed is not known.";

/// Shows the plan, and the command that applies it.
pub(super) async fn plan(
    options: &GlobalOptions,
    disregard: Vec<String>,
    include: Vec<String>,
) -> Result<Outcome, Failure> {
    let asked = PlanReconciliationRequest {
        disregard: disregard.clone(),
        include: include.clone(),
        who: options.who(),
    };
    let reply = options.client().await?.plan_reconciliation(asked).await?.into_inner();
    if options.json {
        show::json(&reply)?;
        return Ok(Outcome::Good);
    }
    let mut page = described(&reply);
    let named = |flag: &str, of: &[String]| of.iter().map(|id| format!(" --{flag} {id}")).collect::<String>();
    let command = format!(
        "tidegate fleet reconcile --apply {}{}{} --why …",
        reply.hash,
        named("disregard", &disregard),
        named("include", &include)
    );
    page.lines(["", &format!("plan {}", reply.hash)]);
    page.line(match reply.refused {
        0 => format!("to apply it: {command}"),
        refused => format!(
            "cannot be applied because of {refused} instances (REFUSED above): bring them back, start a version there that the new window admits, decommission them, or name each with --disregard"
        ),
    });
    page.print()?;
    Ok(Outcome::Good)
}

fn described(reply: &PlanReconciliationReply) -> Page {
    let mut page = Page::default();
    page.line(match (reply.nothing_acts, reply.witnesses.is_empty()) {
        (true, _) => "The store is contradicted, and nothing acts until a plan is applied.",
        (false, true) => "No agent contradicts the store. A plan corrects the number from which the terms for databases count on.",
        (false, false) => "One node alone contradicts the store: its instances count as silent and out, the floor, remove and contract of their services are closed, and everything else goes on.",
    });
    page.line("");
    if let (Some(seen), Some(found)) = (reply.seen, reply.found) {
        page.line(format!("a coordinator saw the store at revision {seen}, and found it at {found}"));
    }
    for database in &reply.databases {
        page.line(format!(
            "the database of upgrade {} obeyed term {} (number {}), and the store does not know that term, or gives no higher number",
            database.upgrade, database.term, database.number
        ));
    }
    let claims = ["WITNESS", "CLAIM", "TERM", "FLOOR", "REVISION", "SUPPORTED", "EFFECT"];
    page.table(&claims, reply.witnesses.iter().map(witness));
    more(&mut page, reply.more_witnesses);
    page.table(&["SERVICE", "WINDOW", "BECOMES"], reply.windows.iter().map(window));
    for change in reply.windows.iter().filter(|change| change.floor_by_database) {
        page.line(format!(
            "the floor of {} is raised to {} because of the database of a refused start: its history shows a contract, and no lower version can run on what that has left",
            change.service,
            show::or_dash(change.new_floor)
        ));
    }
    page.line("");
    page.table(&["INSTANCE", "RUNS", "REFUSED"], reply.instances.iter().map(instance));
    more(&mut page, reply.more_instances);
    if reply.nothing_acts {
        page.line(UNLISTED);
    }
    page
}

/// What a table leaves out, and an empty line below it.
fn more(page: &mut Page, more: u64) {
    if more > 0 {
        page.line(format!("and {more} more"));
    }
    page.line("");
}

fn witness(claim: &WitnessClaim) -> Vec<String> {
    vec![
        claim.instance.clone(),
        claim.says.clone(),
        show::or_dash(claim.term.as_ref()),
        show::or_dash(claim.floor),
        claim.revision.to_string(),
        claim.unsupported.as_ref().map_or_else(|| "yes".to_owned(), |lacks| format!("no: {lacks}")),
        claim.fate.clone(),
    ]
}

fn window(change: &WindowChange) -> Vec<String> {
    vec![
        change.service.clone(),
        show::window(change.floor, change.ceiling),
        show::window(change.new_floor, change.new_ceiling),
    ]
}

fn instance(runs: &RunningInstance) -> Vec<String> {
    vec![
        runs.instance.clone(),
        show::or_dash(runs.version),
        runs.refused.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
