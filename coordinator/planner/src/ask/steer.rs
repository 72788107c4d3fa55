//! Steer an upgrade that runs: approve, pause, resume, roll back, skip or retry an instance.

use super::{Asker, Refusal, RollbackBar, demand_readable, demand_why, find_active, rewritten};
use crate::action::Action;
use crate::certificate::{SESSIONS, accepted};
use crate::fleet::{Contradiction, Fleet, Instance, ServiceFleet, Stored, releases, turned_to};
use crate::gate::budget::capacity;
use crate::gate::{Reason, ReleaseGate};
use crate::moment::Moment;
use crate::plan::{Draft, begin_rollback, plan};
use crate::upgrade::phase::{Refused, gives_no_directives};
use crate::upgrade::{View, rollback_path};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::budget::Budget;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::report::{Health, Report};
use tidegate_proto::record::upgrade::{Decision, Pause, Phase, Upgrade};
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Key, NodeId, Revision, ServiceName, UpgradeId};

fn decision(moment: &Moment, asker: &Asker) -> Decision {
    Decision {
        who: asker.who.clone(),
        why: asker.why.clone(),
        accepts: asker.accepts.clone(),
        at: moment.wall,
    }
}

/// Whether a person accepts sessions by name where contract, which needs no other approval now, is held by them.
fn accepts_sessions(upgrade: &Upgrade, asker: &Asker) -> bool {
    let is_approved = !upgrade.spec.approvals.contains(&ApprovalPoint::Contract)
        || upgrade.approvals.contains_key(&ApprovalPoint::Contract);
    let is_near = matches!(upgrade.phase, Phase::Remove | Phase::Contract { .. });
    is_approved && is_near && upgrade.schema.is_some() && !accepted(&asker.accepts).is_empty()
}

/// Approves a phase; refused where nothing waits for that. Sessions may be accepted also later, by name.
pub fn approve(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    point: ApprovalPoint,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    let stored = find_active(fleet, id, "approve")?;
    let waiting = plan(fleet, moment).waiting.remove(id).unwrap_or_default();
    let acceptance = waiting.iter().find(|reason| reason.is_acceptance());
    if let Some(why) = acceptance.filter(|_| point == ApprovalPoint::Contract)
        && !asker.accepts.contains(SESSIONS)
    {
        return Err(Refusal::invalid(format!("{why}: approve with --accept {SESSIONS}")));
    }
    let contract_waits =
        point == ApprovalPoint::Contract && (acceptance.is_some() || accepts_sessions(stored, asker));
    let approvals: Vec<ApprovalPoint> = waiting.iter().filter_map(Reason::approval).collect();
    if !approvals.contains(&point) && !contract_waits {
        let open: Vec<String> = approvals.iter().map(ToString::to_string).collect();
        let what = if open.is_empty() {
            // A new leader does not know how far a phase is before it has looked.
            let first = waiting.first().map(|reason| format!(", but for: {reason}")).unwrap_or_default();
            format!("it waits for no approval now{first}")
        } else {
            format!("it waits for approval of {}", open.join(", "))
        };
        return Err(Refusal::state(format!(
            "cannot approve {point} of upgrade {id}: {what} (it is in {})",
            stored.phase
        )));
    }
    let mut decision = decision(moment, asker);
    // What was accepted before stays so.
    decision
        .accepts
        .extend(stored.approvals.get(&point).iter().flat_map(|former| former.accepts.iter().cloned()));
    Ok(rewritten(moment, id, stored, asker, &format!("{point} approved"), |body| {
        drop(body.approvals.insert(point, decision))
    }))
}

/// Pauses an upgrade in its phase. Instances that are under way finish what cannot be undone.
pub fn pause(fleet: &Fleet, moment: &Moment, id: &UpgradeId, asker: &Asker) -> Result<Commit, Refusal> {
    let stored = find_active(fleet, id, "pause")?;
    demand_why(asker, "pausing")?;
    if let Some(pause) = &stored.paused {
        return Err(Refusal::state(format!(
            "upgrade {id} is paused already, by {}: {}",
            pause.who, pause.why
        )));
    }
    let pause = Pause { who: asker.who.clone(), why: asker.why.clone(), at: moment.wall };
    Ok(rewritten(moment, id, stored, asker, "paused", |body| body.paused = Some(pause)))
}

/// Resumes a paused upgrade. Failures so far no longer count against its budget, and its waits restart.
pub fn resume(fleet: &Fleet, moment: &Moment, id: &UpgradeId, asker: &Asker) -> Result<Commit, Refusal> {
    let stored = find_active(fleet, id, "resume")?;
    if stored.paused.is_none() {
        return Err(Refusal::state(format!("upgrade {id} is not paused (it is in {})", stored.phase)));
    }
    Ok(rewritten(moment, id, stored, asker, "resumed", |body| {
        body.paused = None;
        body.stalled_ms = 0;
        // Those that an earlier version wrote; the others are of an earlier count.
        body.failed.values_mut().for_each(|failure| failure.accepted = true);
        body.resumed = body.resumed.saturating_add(1);
    }))
}

/// Rolls back an upgrade, where a rollback path exists.
pub fn roll_back(fleet: &Fleet, moment: &Moment, id: &UpgradeId, asker: &Asker) -> Result<Commit, Refusal> {
    let stored = find_active(fleet, id, "roll back")?;
    demand_why(asker, "rolling back")?;
    let because = format!("{} asked: {}", asker.who, asker.why);
    let view = View { fleet, moment, id, upgrade: stored };
    if let Err(refused) = rollback_path(&view, &because) {
        return Err(no_path(id, &refused));
    }
    beyond_former(fleet, moment, id, stored)?;
    let mut draft = Draft::new(fleet, moment, id, stored, moment.next_event);
    draft.on_behalf_of(&asker.who);
    begin_rollback(&mut draft, because);
    let (actions, reasons) = draft.finish();
    match actions.into_iter().next() {
        Some(Action::Commit(planned)) => Ok(planned.commit),
        _ => {
            let why = reasons.iter().map(|reason| format!(": {reason}")).collect::<String>();
            let message = format!("cannot roll back upgrade {id} as things stand{why}");
            let is_needed = |reason: &Reason| matches!(reason, Reason::Release(ReleaseGate::Needed { .. }));
            Err(match reasons.iter().any(is_needed) {
                true => Refusal::rollback(RollbackBar::Computes, message),
                false => Refusal::state(message),
            })
        }
    }
}

fn no_path(id: &UpgradeId, refused: &Refused) -> Refusal {
    let message = format!("cannot roll back upgrade {id}: {refused}");
    match refused {
        Refused::NoWayBack(_) | Refused::ContractBegun(..) | Refused::LaterContract { .. } => {
            Refusal::rollback(RollbackBar::Contract, message)
        }
        Refused::RowsMigrated(_) => Refusal::rollback(RollbackBar::Rows, message),
        _ => Refusal::state(message),
    }
}

/// On a store that is contradicted, the record of the upgrade may be older than what was done: it is not rolled back
/// below what an instance obeyed, or what its database has contracted.
pub(super) fn beyond_former(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    upgrade: &Upgrade,
) -> Result<(), Refusal> {
    if fleet.contradiction(&moment.schemas) != Contradiction::Supported {
        return Ok(());
    }
    let (service, from) = (&upgrade.spec.service, upgrade.spec.from);
    let floor = |report: &Report| report.witness.floor.filter(|floor| *floor > from);
    let obeyed = fleet
        .contradicted_by()
        .filter(|(of, ..)| *of == service)
        .find_map(|(_, instance, _)| Some((&instance.node, floor(instance.report.as_ref()?)?)));
    let contracted = moment.schemas.get(id).is_some_and(|facts| facts.contracted);
    let why = match obeyed {
        Some((node, floor)) => format!("{service}/{node} obeyed a floor of {floor}"),
        None if contracted => "its database is contracted".to_owned(),
        None => return Ok(()),
    };
    Err(Refusal::state(format!(
        "cannot roll back upgrade {id}: the store is contradicted, and {why}, so version {from} may not be able to run. Reconcile the store first: `tidegate fleet reconcile`"
    )))
}

/// Skips an instance of its wave; never of remove or contract.
pub fn skip(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    node: &NodeId,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    let stored = find_active(fleet, id, "skip an instance of")?;
    demand_why(asker, "skipping an instance")?;
    let known = fleet.service(&stored.spec.service).and_then(|s| s.get(node)).is_some_and(|i| i.counts());
    if !known {
        return Err(Refusal::not_found(format!("{} has no instance on {node}", stored.spec.service)));
    }
    let exceptions = fleet.exceptions(id, stored);
    if exceptions.is_skipped(node) {
        return Err(Refusal::state(format!("{node} is skipped in upgrade {id} already")));
    }
    let decision = decision(moment, asker);
    let commit = rewritten(moment, id, stored, asker, &format!("{node} skipped"), |_| ());
    Ok(exceptions.rewrite(commit, id, node, |exception| exception.skipped = Some(decision)))
}

/// Takes an instance up again that failed, that failed to stage or remove a release, or that was skipped. Where it still
/// shows a failure, it gets the same directive under a new generation.
pub fn retry(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    node: &NodeId,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    let stored = find_active(fleet, id, "retry an instance of")?;
    let service = &stored.spec.service;
    let key = Key::Directive(service.clone(), node.clone());
    demand_readable(fleet, &key, &format!("retry {service}/{node}"))?;
    let instance = fleet.service(service).and_then(|s| s.get(node));
    let failed = instance.filter(|i| i.failure().is_some() || i.has_stage_failures() || i.fault().is_some());
    let directive = failed.and_then(|i| i.directive.as_ref());
    let is_exempt = fleet.exceptions(id, stored).is_exempt(node);
    if directive.is_none() && !is_exempt {
        return Err(Refusal::state(format!(
            "{service}/{node} has not failed under its directive, and is not skipped: there is nothing to retry"
        )));
    }
    demand_orders(id, stored)?;
    let commit = taken_up((fleet, moment), id, stored, asker, node, &format!("{node} retried"));
    let Some((instance, directive)) = failed.zip(directive) else { return Ok(commit) };
    let mut body = ordered_again(moment, stored, instance, directive);
    let commit = match body.disposition.takes_out() {
        true => taken_out_again((fleet, moment), stored, instance, &mut body, commit)?,
        false => commit,
    };
    Ok(commit.when(Precondition::At(key.clone(), directive.at)).put(key, directive.record.with(body)))
}

/// The same for an instance whose service has stopped, as a person declares: its agent then waits for no count of requests
/// in flight. The stop itself is confirmed as ever.
pub fn retry_stopped(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    node: &NodeId,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    let stored = find_active(fleet, id, "declare an instance stopped for")?;
    demand_why(asker, "declaring an instance stopped")?;
    let service = &stored.spec.service;
    let key = Key::Directive(service.clone(), node.clone());
    demand_readable(fleet, &key, &format!("declare {service}/{node} stopped"))?;
    let instance = fleet.service(service).and_then(|s| s.get(node)).filter(|i| i.counts());
    let Some(instance) = instance else {
        return Err(Refusal::not_found(format!("{service} has no instance on {node}")));
    };
    demand_orders(id, stored)?;
    if instance.report.as_ref().is_some_and(|report| report.health == Health::Healthy) {
        return Err(Refusal::state(format!(
            "cannot declare {service}/{node} stopped: its agent reports that it answers as healthy"
        )));
    }
    let directive = instance.directive.as_ref().filter(|d| d.upgrade == *id);
    let failed = fleet.exceptions(id, stored).has_failed(node);
    let Some(directive) = directive.filter(|d| d.disposition.takes_out() || failed) else {
        return Err(Refusal::state(format!(
            "cannot declare {service}/{node} stopped: no directive of upgrade {id} takes it out of rotation and none has failed, so no drain \
                 waits for requests in flight; retry it without --declare-stopped"
        )));
    };
    let commit =
        taken_up((fleet, moment), id, stored, asker, node, &format!("{node} retried, declared stopped"));
    let mut body = ordered_again(moment, stored, instance, directive);
    body.declared_stopped = true;
    if !body.disposition.takes_out() {
        // Its drain has failed, and it was enabled since: an instance that does not answer is drained again.
        body.disposition = Disposition::Drain;
    }
    let commit = taken_out_again((fleet, moment), stored, instance, &mut body, commit)?;
    Ok(commit.when(Precondition::At(key.clone(), directive.at)).put(key, directive.record.with(body)))
}

/// Adds to the commit of an order that takes an instance out once more what it asks of the budget, and to the order whether it
/// presumes that the instance is out.
fn taken_out_again(
    (fleet, moment): (&Fleet, &Moment),
    stored: &Stored<Upgrade>,
    instance: &Instance,
    body: &mut Directive,
    commit: Commit,
) -> Result<Commit, Refusal> {
    // Where it is hidden or has ended, its agent declines the order once the instance is in rotation again.
    let presumes_out = capacity::is_hidden(instance) || instance.runs_nothing();
    if is_counted_out(instance) {
        // It leaves the budget as it is. It may be in rotation again at any moment, also where its report cannot be compared.
        let is_unreadable = instance.unreadable.contains_key(&Kind::Report);
        body.presumes_out |= presumes_out || is_unreadable || must_presume_out(fleet, stored, instance);
        let service = &stored.spec.service;
        let at = fleet.service(service).map_or(Revision::ABSENT, ServiceFleet::budget_at);
        let commit = commit.when(Precondition::At(Key::Budget(service.clone()), at));
        return Ok(if body.presumes_out { commit } else { commit.when(instance.same_report(service)) });
    }
    body.presumes_out = presumes_out;
    match presumes_out {
        true => Ok(commit),
        false => taken_out(fleet, moment, stored, instance, commit),
    }
}

/// Whether an order, a cordon or its silence counts it as out, whether or not requests reach it.
fn is_counted_out(instance: &Instance) -> bool {
    instance.cordoned || instance.is_still_out_by_order() || instance.is_unheard()
}

/// Whether the order for one that counts as out already must presume that it is.
fn must_presume_out(fleet: &Fleet, stored: &Stored<Upgrade>, instance: &Instance) -> bool {
    let service = fleet.service(&stored.spec.service);
    service.is_some_and(|service| capacity::must_presume_out(service, &stored.spec, instance))
}

/// One that requests may reach is taken out once more only where the budget has room for it. One that is not in service is
/// judged as the roll judges it: as if every unhealthy instance in rotation became healthy at once.
fn taken_out(
    fleet: &Fleet,
    moment: &Moment,
    stored: &Stored<Upgrade>,
    instance: &Instance,
    commit: Commit,
) -> Result<Commit, Refusal> {
    let (spec, node) = (&stored.spec, &instance.node);
    let Some(service) = fleet.service(&spec.service) else { return Ok(commit) };
    let mut room = capacity::Budget::of(service, spec);
    let (serves, label) = (instance.is_in_service(), spec.failure_domain.as_deref());
    let (has_room, state) = match serves {
        true => (room.take(instance, label), "it serves"),
        false => (room.take_unhealthy(instance, label), "requests may reach it"),
    };
    if !has_room {
        let (service, why) = (&spec.service, room.reason());
        return Err(Refusal::state(format!(
            "cannot retry {service}/{node}: {state}, and to take it out now leaves too few: {why}"
        )));
    }
    let commit = under_budget(fleet, moment, (&spec.service, node), commit);
    Ok(if serves { commit } else { commit.when(instance.same_report(&spec.service)) })
}

/// Counts one more instance as out, if the budget's key is unchanged and the instance is not in maintenance.
fn under_budget(
    fleet: &Fleet,
    moment: &Moment,
    (service, node): (&ServiceName, &NodeId),
    commit: Commit,
) -> Commit {
    let budget = Budget { term: moment.leader.term.clone(), taken: 1 };
    let at = fleet.service(service).map_or(Revision::ABSENT, ServiceFleet::budget_at);
    commit
        .when(Precondition::At(Key::Maintenance(node.clone()), Revision::ABSENT))
        .when(Precondition::At(Key::Budget(service.clone()), at))
        .put(Key::Budget(service.clone()), budget)
}

/// The same directive, of the leader who writes it: one of a former term that is newer than the next term's first word
/// would contradict this store. In a rollback, one that has failed or is out under an order of the roll gets the former release.
fn ordered_again(moment: &Moment, upgrade: &Upgrade, of: &Instance, last: &Directive) -> Directive {
    let (term, after_decline) = (moment.leader.term.clone(), of.says_declined());
    let mut again = Directive { term, declared_stopped: false, after_decline, ..last.clone() };
    let is_turned = of.failure().is_some() || of.is_still_out_by_order();
    if let Some(release) = turned_to(upgrade, of).filter(|_| is_turned) {
        again.disposition = Disposition::Replace { release: release.clone() };
        again.releases = releases(upgrade);
    }
    again
}

/// The instance is neither failed nor skipped any more.
fn taken_up(
    (fleet, moment): (&Fleet, &Moment),
    id: &UpgradeId,
    stored: &Stored<Upgrade>,
    asker: &Asker,
    node: &NodeId,
    to: &str,
) -> Commit {
    let commit = rewritten(moment, id, stored, asker, to, |body| {
        body.failed.remove(node);
        body.skipped.remove(node);
    });
    fleet.exceptions(id, stored).forget(commit, id, node)
}

/// Refused in a phase in which instances get no directives.
fn demand_orders(id: &UpgradeId, stored: &Stored<Upgrade>) -> Result<(), Refusal> {
    if gives_no_directives(stored) {
        return Err(Refusal::state(format!(
            "upgrade {id} is in {}: retry is not possible in this phase, in which instances get no directives",
            stored.phase
        )));
    }
    Ok(())
}
