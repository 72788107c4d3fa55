//! `tidegate fleet reconcile`: the plan, as people read it.

use super::super::exit::{Failure, Outcome};
use super::super::reach::Reach;
use super::super::show;
use tidegate_proto::wire::v1::{
    PlanReconciliationReply, PlanReconciliationRequest, RunningInstance, WindowChange, WitnessClaim,
};

/// Shows the plan, and the command that applies it.
pub async fn plan(reach: &Reach, disregard: Vec<String>, include: Vec<String>) -> Result<Outcome, Failure> {
    let asked = PlanReconciliationRequest {
        disregard: disregard.clone(),
        include: include.clone(),
        who: reach.who(),
    };
    let reply = reach.client().await?.plan_reconciliation(asked).await?.into_inner();
    if reach.json {
        show::json(&reply)?;
        return Ok(Outcome::Good);
    }
    show::text(&text(&reply))?;
    let named = |flag: &str, of: &[String]| of.iter().map(|id| format!(" --{flag} {id}")).collect::<String>();
    let command = format!(
        "tidegate fleet reconcile --apply {}{}{} --why …",
        reply.hash,
        named("disregard", &disregard),
        named("include", &include)
    );
    show::text(&match reply.refused {
        0 => format!("\nplan {}\nto apply it: {command}", reply.hash),
        refused => format!(
            "\nplan {}\ncannot be applied because of {refused} instances (REFUSED above): bring them back, decommission them, or name each with --disregard",
            reply.hash
        ),
    })?;
    Ok(Outcome::Good)
}

fn text(reply: &PlanReconciliationReply) -> String {
    let mut text = match reply.nothing_acts {
        true => "The store is contradicted, and nothing acts until a plan is applied.\n".to_owned(),
        false => "One node alone contradicts the store: its instances count as silent and out, the floor, remove and contract of their services are closed, and everything else goes on.\n".to_owned(),
    };
    if let (Some(seen), Some(found)) = (reply.seen, reply.found) {
        text.push_str(&format!("\na coordinator saw the store at revision {seen}, and found it at {found}"));
    }
    for database in &reply.databases {
        text.push_str(&format!(
            "\nthe database of upgrade {} obeyed term {} (number {}), which the store does not know",
            database.upgrade, database.term, database.number
        ));
    }
    let witnesses = show::table(
        &["WITNESS", "CLAIM", "TERM", "FLOOR", "REVISION", "SUPPORTED", "EFFECT"],
        reply.witnesses.iter().map(witness),
    );
    let windows = show::table(&["SERVICE", "WINDOW", "BECOMES"], reply.windows.iter().map(window));
    let instances = show::table(&["INSTANCE", "RUNS", "REFUSED"], reply.instances.iter().map(instance));
    for (table, more) in [(witnesses, reply.more_witnesses), (windows, 0), (instances, reply.more_instances)]
    {
        text.push_str(&format!("\n{table}\n"));
        if more > 0 {
            text.push_str(&format!("and {more} more\n"));
        }
    }
    text
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
    let shown = |floor: Option<u32>, ceiling: Option<u32>| match (floor, ceiling) {
        (Some(floor), Some(ceiling)) => format!("[{floor}, {ceiling}]"),
        _ => "any".to_owned(),
    };
    vec![
        change.service.clone(),
        shown(change.floor, change.ceiling),
        shown(change.new_floor, change.new_ceiling),
    ]
}

fn instance(runs: &RunningInstance) -> Vec<String> {
    vec![
        runs.instance.clone(),
        show::or_dash(runs.version),
        runs.refused.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
