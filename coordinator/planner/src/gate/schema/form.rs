//! The form of a shared schema that the new version of a service uses. The upgrade of another service makes it; its
//! database may be replaced by one that lacks it, and a rollback of that upgrade may take it away.

use super::later::awaits_look_of;
use super::migrate_floors::required;
use super::{SchemaGate, builds_on, lost_baseline, lost_job};
use crate::fleet::{Fleet, Sample, ServiceFleet, Stored};
use crate::gate::person::rollback::begins;
use crate::gate::store::{unreadable, unseen_and_disregarded};
use crate::gate::version::VersionGate;
use crate::gate::{Answer, Reason};
use crate::moment::SchemaFacts;
use crate::upgrade::View;
use serde::{Deserialize, Serialize};
use tidegate_proto::record::Malformed;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName, RollbackStep, SchemaBinding, Upgrade};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Key, NodeId, Revision, SchemaName, ServiceName, ServiceVersion, UpgradeId, mutant};

/// Why the form is missing, or may be missing soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingForm {
    /// The database of the upgrade that made it does not show it any more.
    Lost,
    /// That upgrade is being rolled back.
    RollingBack,
    /// That upgrade was rolled back, and its database did not have the form at the end.
    RolledBack,
}

impl MissingForm {
    pub(super) fn sentence(self, upgrade: &UpgradeId, version: ServiceVersion) -> String {
        match self {
            Self::Lost => format!(
                "the database of upgrade {upgrade} no longer shows the form that version {version} uses; no instance is drained until the database shows it again"
            ),
            Self::RollingBack => format!(
                "upgrade {upgrade} rolls back the shared schema whose new form version {version} uses; no instance is drained until that rollback is over"
            ),
            Self::RolledBack => format!(
                "upgrade {upgrade} was rolled back, and the form that version {version} uses is gone; no instance is drained until another upgrade of that schema has made the form again"
            ),
        }
    }

    pub(super) fn owner(self) -> &'static str {
        match self {
            Self::Lost => "what that upgrade is blocked on",
            Self::RollingBack => "the rollback of that upgrade",
            Self::RolledBack => "a person, who upgrades the schema again, or rolls this upgrade back",
        }
    }
}

/// Why no instance is moved to the new version: the form that it uses is missing, or is being taken away; or that is not
/// known, because the record of an upgrade cannot be read.
pub(crate) fn missing(view: &View<'_>) -> Option<Reason> {
    if mutant::is("form-of-others-is-not-asked") {
        return None;
    }
    if let Some((key, why)) = unreadable_upgrade(view.fleet, &view.spec().service) {
        return Some(unreadable(key, why));
    }
    let (upgrade, missing) = first_missing(view)?;
    let (upgrade, version) = (upgrade.clone(), view.spec().to);
    let rollback_path = begins(view, "").is_open;
    Some(SchemaGate::SharedForm { upgrade, version, missing, rollback_path }.into())
}

fn first_missing<'a>(view: &View<'a>) -> Option<(&'a UpgradeId, MissingForm)> {
    let spec = view.spec();
    let (_, started) = view.fleet.lock(&spec.service)?;
    let mut others = view.fleet.upgrades().filter(|(_, other)| begins_to_use(spec, other));
    others.find_map(|(id, other)| Some((id, of_other(view, started, id, other)?)))
}

/// The record of an upgrade that cannot be read and may have taken away a form that the service shares, or may be about to,
/// with why: it holds the lock of such a schema, or was written since the active upgrade of the service was started.
pub(crate) fn unreadable_upgrade<'a>(
    fleet: &'a Fleet,
    service: &ServiceName,
) -> Option<(&'a Key, &'a Malformed)> {
    let active = fleet.lock(service);
    // While the active upgrade works on a schema itself, no other one does.
    let is_own = |schema: &Schema| active.is_some_and(|(id, _)| schema.upgrade == *id);
    let of_others = fleet.schemas().filter(|(_, schema)| !is_own(schema));
    let shared: Vec<&SchemaName> =
        of_others.filter(|(_, schema)| schema.services.contains_key(service)).map(|(id, _)| id).collect();
    let holds = |id: &UpgradeId| {
        let mut locks = shared.iter().filter_map(|schema| fleet.schema_lock(schema));
        locks.any(|(holder, _)| holder == id)
    };
    fleet.unreadable().find_map(|(key, why, at)| {
        let Key::Upgrade(id) = key else { return None };
        let is_later = active.is_some_and(|(_, started)| at > started);
        let may_matter = !shared.is_empty() && is_later || holds(id);
        may_matter.then_some((key, why))
    })
}

/// Whether an upgrade by this spec begins to use what the expand of another upgrade makes.
pub(crate) fn begins_to_use(spec: &Spec, other: &Upgrade) -> bool {
    let needs = other.spec.schema.as_ref().and_then(|asked| asked.shared_with.get(&spec.service));
    needs.is_some_and(|needs| spec.from < *needs && *needs <= spec.to)
}

/// Whether a rollback takes a service back from a version that uses what the expand of another upgrade makes: until its
/// ceiling is lowered and acknowledged, an instance may still start that version.
pub(crate) fn is_leaving(rolled_back: &Upgrade, other: &Upgrade) -> bool {
    let Phase::RollingBack { step, .. } = rolled_back.phase else { return false };
    step != RollbackStep::Undo && begins_to_use(&rolled_back.spec, other)
}

/// Whether no sharing service is being rolled back from a version that uses what expand made: that ends before the undo.
pub(crate) fn none_is_leaving(view: &View<'_>) -> Answer {
    let found = view.fleet.active_upgrades().find(|(_, other)| is_leaving(other, view.upgrade));
    let found = found.filter(|_| !mutant::is("sharing-rollback-is-not-waited-for"));
    found.map_or_else(Answer::open, |(id, other)| {
        let (service, version) = (other.spec.service.clone(), other.spec.to);
        Answer::from(Reason::from(SchemaGate::SharedRollback { upgrade: id.clone(), service, version }))
    })
}

/// Whether the window, the lock and the upgrade of each sharing service can be read, and what was last seen of each of its
/// instances: they may show that it uses what expand made, or will use it. An instance whose version was never seen, and that
/// requests may reach, may use it as well.
pub(crate) fn sharing_is_known(view: &View<'_>) -> Answer {
    let mut answer = sharing_is_readable(view);
    let asked = view.spec().schema.iter().flat_map(|asked| asked.shared_with.keys());
    for service in asked.filter_map(|name| view.fleet.service(name)) {
        let unseen = |is_silent: bool| {
            let each = service.instances().filter(|instance| instance.may_serve_unseen());
            let each = each.filter(|instance| instance.report.is_none() == is_silent);
            Sample::counted(each.map(|instance| &instance.node))
        };
        let name = || service.name().clone();
        answer.and(Answer::of_any(unseen(true), |nodes| VersionGate::Silent { service: name(), nodes }));
        answer.and(Answer::of_any(unseen(false), |nodes| VersionGate::VersionUnknown {
            service: name(),
            nodes,
        }));
        answer.reasons.extend(unseen_and_disregarded(view.fleet, service.name()));
    }
    answer
}

/// Whether it is said of each decommissioned instance how it was stopped, where a version was last admitted there that uses
/// what expand made: what contract asks of the former versions, mirrored. Nothing is asked where the database shows that there
/// is nothing to undo.
pub(crate) fn gone_are_stopped(view: &View<'_>) -> Answer {
    let is_clean = view.fresh_facts().is_some_and(|facts| facts.clean);
    if is_clean || view.facts().is_some_and(|facts| facts.unclaimed) {
        return Answer::open();
    }
    let spec = view.spec();
    let mut answer = none_unfenced(view.fleet, &spec.service, |last| last > spec.from);
    for (name, needs) in spec.schema.iter().flat_map(|asked| &asked.shared_with) {
        answer.and(none_unfenced(view.fleet, name, |last| last >= *needs));
    }
    answer
}

fn none_unfenced(fleet: &Fleet, name: &ServiceName, uses: impl Fn(ServiceVersion) -> bool) -> Answer {
    let all = fleet.service(name).into_iter().flat_map(ServiceFleet::every_instance);
    let unfenced = all.filter(|instance| {
        let last = instance.inventory.as_ref().map(|last| last.version);
        instance.is_gone_without_how() && last.is_some_and(&uses)
    });
    let nodes = Sample::counted(unfenced.map(|instance| &instance.node));
    Answer::of_any(nodes, |nodes| SchemaGate::Unfenced { service: name.clone(), nodes })
}

fn sharing_is_readable(view: &View<'_>) -> Answer {
    let Some(asked) = &view.spec().schema else { return Answer::open() };
    let shares = |name: &ServiceName| asked.shared_with.contains_key(name);
    let holds_lock = |id: &UpgradeId| {
        let mut locks = asked.shared_with.keys().filter_map(|name| view.fleet.lock(name));
        locks.any(|(holder, _)| holder == id)
    };
    let is_unseen = |name: &ServiceName, node: &NodeId| {
        let instance = view.fleet.service(name).and_then(|of| of.get(node));
        instance.is_some_and(|instance| instance.last_seen().is_none())
    };
    let mut answer = Answer::open();
    for (key, why, _) in view.fleet.unreadable() {
        let is_asked = match key {
            Key::Window(name) | Key::Active(name) => shares(name),
            Key::Upgrade(id) => holds_lock(id),
            Key::Report(name, node) | Key::Inventory(name, node) => shares(name) && is_unseen(name, node),
            _ => false,
        };
        if is_asked {
            answer.and(Answer::from(unreadable(key, why)));
        }
    }
    answer
}

/// Whether the form of another upgrade is missing for this one, which was started at this revision.
fn of_other(
    view: &View<'_>,
    started: Revision,
    id: &UpgradeId,
    other: &Stored<Upgrade>,
) -> Option<MissingForm> {
    let had_form = || has_made(other, &view.spec().service);
    match other.phase {
        Phase::RollingBack { .. } => had_form().then_some(MissingForm::RollingBack),
        Phase::RolledBack { .. } => {
            let is_gone = other.at > started && had_form() && !is_there_after(view.fleet, other);
            is_gone.then_some(MissingForm::RolledBack)
        }
        _ => {
            let facts = view.moment.schemas.get(id);
            facts.is_some_and(|facts| is_lost(other, facts)).then_some(MissingForm::Lost)
        }
    }
}

/// Whether an upgrade got so far that a service which shares its schema could use the new form: to a filled one, or to an
/// unfilled one where migrate requires the floor of that service.
fn has_made(upgrade: &Upgrade, service: &ServiceName) -> bool {
    let meets_unfilled =
        upgrade.schema.as_ref().is_some_and(|binding| meets_unfilled(upgrade, binding, service));
    upgrade.timetable.iter().any(|part| match part.phase {
        PhaseName::Migrate | PhaseName::Roll => true,
        PhaseName::Expand => meets_unfilled,
        _ => false,
    })
}

/// Whether the new version of a service that shares the schema meets rows which are not filled yet.
fn meets_unfilled(upgrade: &Upgrade, binding: &SchemaBinding, service: &ServiceName) -> bool {
    binding.order == MigrateOrder::AfterRoll || required(&upgrade.spec, binding).contains_key(service)
}

/// Whether a look at the database of an upgrade shows that the form is gone. Rows that are to be filled again in remove are
/// missing for others until then.
fn is_lost(upgrade: &Upgrade, facts: &SchemaFacts) -> bool {
    let phase = upgrade.phase.name();
    let fills_first = upgrade.schema.as_ref().is_some_and(|s| s.order == MigrateOrder::BeforeRoll);
    // A job has looked after the last look that is known, and begins only where the rest is there.
    let filled = facts.filled_before_job.unwrap_or(facts.filled);
    let lacks_fill = phase == PhaseName::Remove && fills_first && !filled;
    let is_there = match facts.looked_for {
        Some(_) => lost_baseline(upgrade, facts).is_none() && lost_job(upgrade, facts).is_none(),
        None => facts.filled_before_job.is_some(),
    };
    builds_on(phase) && facts.was_seen() && (lacks_fill || !is_there)
}

/// Whether the database of each active upgrade that has made the form which the new version uses was seen: until then it may
/// lack that form. Another leader has not looked yet.
pub(crate) fn makers_are_seen(view: &View<'_>, job: &str) -> Answer {
    let facts_of = |id: &UpgradeId| view.moment.schemas.get(id);
    let makers = view
        .fleet
        .active_upgrades()
        .filter(|(_, other)| builds_on(other.phase.name()) && begins_to_use(view.spec(), other));
    let mut unseen = makers.filter(|(id, _)| !facts_of(id).is_some_and(SchemaFacts::was_seen));
    match unseen.next() {
        Some((id, _)) if !mutant::is("form-of-others-is-not-asked") => {
            Answer::from(awaits_look_of(id, facts_of(id), job))
        }
        _ => Answer::open(),
    }
}

/// Whether an instance may be moved to the new version, as far as the form of another upgrade is concerned.
pub(crate) fn is_there(view: &View<'_>, job: &str) -> Answer {
    missing(view).map_or_else(|| makers_are_seen(view, job), Answer::from)
}

/// Whether another service goes by what the database of this upgrade shows: it is in its roll, or after that, where an instance
/// may come back and be moved.
pub(crate) fn is_gone_by(view: &View<'_>) -> bool {
    let moves = |other: &Upgrade| builds_on(other.phase.name()) && other.waves.is_some();
    let goes_by = |other: &Upgrade| moves(other) && begins_to_use(&other.spec, view.upgrade);
    builds_on(view.upgrade.phase.name()) && view.fleet.active_upgrades().any(|(_, other)| goes_by(other))
}

/// Whether the database has all that the new version of a sharing service uses, as the rollback of an upgrade sees it.
pub(crate) fn is_whole(upgrade: &Upgrade, service: &ServiceName, facts: &SchemaFacts) -> bool {
    let Some(binding) = &upgrade.schema else { return false };
    let is_filled = facts.filled || meets_unfilled(upgrade, binding, service);
    facts.unfinished.is_none() && facts.expanded && is_filled
}

/// Whether the form is there after the rollback of the upgrade that had made it: it was left in place, or the upgrade that
/// worked last on the schema has made it again.
pub(crate) fn is_there_after(fleet: &Fleet, rolled_back: &Upgrade) -> bool {
    let Some(binding) = &rolled_back.schema else { return false };
    let last = fleet.schema(&binding.id).and_then(|schema| fleet.upgrade(&schema.upgrade));
    binding.form_left || last.is_some_and(|last| has_it_again(last))
}

fn has_it_again(last: &Upgrade) -> bool {
    let is = |holds: fn(&SchemaBinding) -> bool| last.schema.as_ref().is_some_and(holds);
    match last.phase.name() {
        // Before the roll, its rows are being filled.
        PhaseName::Migrate => is(|binding| binding.order == MigrateOrder::AfterRoll),
        PhaseName::Roll | PhaseName::Remove | PhaseName::Contract | PhaseName::Completed => true,
        PhaseName::RolledBack => is(|binding| binding.form_left),
        _ => false,
    }
}
