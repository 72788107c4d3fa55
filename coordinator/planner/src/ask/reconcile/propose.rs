//! How a plan to reconcile is computed: which claims count, which record follows from them, and which windows.

use super::Refusal;
use super::ceiling::{kept, make_room};
use super::disregarded::{carried_over, demand_room};
use super::listed::listed;
use super::proposal::{Choices, Fate, Proposal, Runs, WindowChange, Witness};
use super::refused::{MOST_WINDOWS, for_the_next_plan, lost_rollback, outside};
use crate::contracted;
use crate::fleet::{Against, Contradiction, Fleet, Instance};
use crate::gate::store::awaited;
use crate::gate::store::running::{Running, is_kept_out, is_never_admitted, is_out, unknown};
use crate::moment::Moment;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::reconciliation::{AcceptedState, Claim, Reconciliation};
use tidegate_proto::record::report::{Report, Rotation};
use tidegate_proto::{InstanceId, Key, NodeId, Revision, ServiceName, ServiceVersion, TermId, mutant};

/// A plan, with the record that it would write, without who applies it and why.
pub(super) struct Planned {
    pub(super) proposal: Proposal,
    pub(super) body: Reconciliation,
}

impl Planned {
    pub(super) fn of(fleet: &Fleet, moment: &Moment, choices: &Choices) -> Result<Self, Refusal> {
        if let Some(reason) = awaited(moment) {
            return Err(Refusal::state(format!("cannot plan a reconciliation yet: {reason}")));
        }
        let contradiction = fleet.contradiction(&moment.schemas);
        let mut disregarded = fleet.disregarded();
        let taken_up =
            disregarded.any(|(service, instance, _)| names(&choices.include, service, &instance.node));
        let databases = fleet.unknown_to_store(&moment.schemas).next().is_some();
        if contradiction == Contradiction::None && !taken_up && !databases && fleet.counts_on() {
            return Err(Refusal::state("nothing contradicts the store: there is nothing to reconcile"));
        }
        check(fleet, choices)?;
        let claims = Claims::of(fleet, moment, choices);
        let mut body = claims.record();
        demand_room(fleet, &body)?;
        let witnesses = claims.witnesses(&body);
        let mut services: BTreeSet<&ServiceName> = witnesses.iter().map(|w| &w.instance.service).collect();
        services.extend(claims.contracted.keys().copied());
        demand_readable(fleet, &services)?;
        let mut windows: Vec<WindowChange> =
            services.iter().map(|service| claims.window(service, &witnesses)).collect();
        // Those that a database raises come first: a window beyond the limit is left to the next plan, which needs a claim.
        windows.sort_by_key(|change| !claims.contracted.contains_key(&change.service));
        if contradiction == Contradiction::Supported {
            make_room(fleet, choices, &mut windows);
        }
        let instances = claims.instances(contradiction, &services, &windows, &witnesses);
        body.listed = listed(fleet, &instances)?;
        let proposal = Proposal {
            choices: choices.clone(),
            nothing_acts: contradiction == Contradiction::Supported,
            fall: fleet.fall(),
            databases: fleet
                .unknown_to_store(&moment.schemas)
                .map(|(upgrade, term, number)| (upgrade.clone(), term.clone(), number))
                .collect(),
            witnesses,
            windows,
            instances,
        };
        Ok(Self { proposal, body })
    }
}

/// What a plan may write has to be known before: nothing is written over a record that cannot be read.
fn demand_readable(fleet: &Fleet, services: &BTreeSet<&ServiceName>) -> Result<(), Refusal> {
    let written = |key: &Key| match key {
        Key::Window(service) => services.contains(service),
        key => *key == Key::Reconciliation,
    };
    match fleet.unreadable().find(|(key, ..)| written(key)) {
        None => Ok(()),
        Some((key, why, at)) => Err(Refusal::state(format!(
            "cannot reconcile the store: the record {key} {why} (revision {at}). Restore its previous value first, and reconcile the store then"
        ))),
    }
}

fn names(instances: &BTreeSet<InstanceId>, service: &ServiceName, node: &NodeId) -> bool {
    instances.contains(&InstanceId::new(service.clone(), node.clone()))
}

fn check(fleet: &Fleet, choices: &Choices) -> Result<(), Refusal> {
    if let Some(both) = choices.disregard.intersection(&choices.include).next() {
        return Err(Refusal::invalid(format!("{both} cannot be both included and disregarded")));
    }
    for id in choices.disregard.iter().chain(&choices.include) {
        if fleet.service(&id.service).and_then(|service| service.get(&id.node)).is_none() {
            return Err(Refusal::not_found(format!(
                "there is no instance {id}: `tidegate fleet list` shows those there are"
            )));
        }
    }
    for id in &choices.include {
        if fleet.contradiction_of(id).is_none()
            && !fleet.disregarded().any(|(s, i, _)| *s == id.service && i.node == id.node)
        {
            return Err(Refusal::state(format!(
                "{id} claims nothing against the store: there is nothing to include"
            )));
        }
        let report = fleet.service(&id.service).and_then(|s| s.get(&id.node)?.report.as_ref());
        let Some(report) = report else {
            return Err(Refusal::state(format!("{id} does not report, so it claims nothing to include")));
        };
        let revision = report.obeyed().revision;
        if !fleet.revision().may_follow(revision) {
            return Err(Refusal::state(format!(
                "{id} claims revision {revision}, which no store before this one (at {}) can have given: its claim cannot be included, only disregarded, or the instance decommissioned",
                fleet.revision()
            )));
        }
    }
    Ok(())
}

/// What was said, by whom.
struct Claims<'a> {
    fleet: &'a Fleet,
    moment: &'a Moment,
    choices: &'a Choices,
    databases: Vec<(TermId, Revision)>,
    contracted: BTreeMap<&'a ServiceName, ServiceVersion>,
    against: Vec<(InstanceId, &'a Instance, &'a Report, &'a Against)>,
    /// The nodes that say to have obeyed a term.
    terms: BTreeMap<&'a TermId, BTreeSet<&'a NodeId>>,
    /// By service: the floors that its instances say to have obeyed, with the node.
    floors: BTreeMap<&'a ServiceName, Vec<(ServiceVersion, &'a NodeId)>>,
}

impl<'a> Claims<'a> {
    fn of(fleet: &'a Fleet, moment: &'a Moment, choices: &'a Choices) -> Self {
        let databases =
            fleet.unknown_to_store(&moment.schemas).map(|(_, term, number)| (term.clone(), number)).collect();
        // A claim that was disregarded is taken up again where it is included now.
        let taken_up = fleet
            .disregarded()
            .filter(|(service, instance, _)| names(&choices.include, service, &instance.node));
        let mut against: Vec<_> = fleet
            .contradicted_by()
            .chain(taken_up)
            .filter_map(|(service, instance, says)| {
                let id = InstanceId::new(service.clone(), instance.node.clone());
                Some((id, instance, &instance.report.as_ref()?.record.body, says))
            })
            .collect();
        against.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut terms, mut floors) = (BTreeMap::<_, BTreeSet<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        for service in fleet.services() {
            for instance in service.instances().filter(|instance| instance.unreadable.is_empty()) {
                let Some(report) = &instance.report else { continue };
                let witness = &report.record.body.witness;
                if let Some(term) = &witness.term {
                    terms.entry(term).or_default().insert(&instance.node);
                }
                if let Some(floor) = witness.floor {
                    floors.entry(service.name()).or_default().push((floor, &instance.node));
                }
            }
        }
        let contracted = contracted::by_refused_starts(&moment.schemas);
        Self { fleet, moment, choices, databases, contracted, against, terms, floors }
    }

    /// The part of a claim that no database and no other node makes, or that an earlier plan disregarded the instance; none =
    /// the claim is supported.
    fn lacks(&self, id: &InstanceId, report: &Report, says: &Against) -> Option<String> {
        let obeyed = report.obeyed();
        if !self.fleet.revision().may_follow(obeyed.revision) {
            return Some(format!("no store before this one can have given revision {}", obeyed.revision));
        }
        if mutant::is("claim-of-one-node-is-applied") {
            return None;
        }
        if let Some(term) = obeyed.term
            && !self.fleet.acknowledges_term(term)
            && !self.databases.iter().any(|(known, _)| known == term)
            && !self.terms.get(term).is_some_and(|nodes| nodes.iter().any(|node| **node != id.node))
        {
            return Some(format!("no database and no other node obeyed term {term}"));
        }
        if let Some(floor) = obeyed.floor {
            let now = self.fleet.service(&id.service).and_then(|service| service.window());
            let stands = now.is_some_and(|window| window.floor >= floor)
                || contracted::lowest_floor(self.fleet, &id.service) >= floor
                || floor == ServiceVersion::ABSENT;
            let others = self.floors.get(&id.service).into_iter().flatten();
            if !stands && !others.into_iter().any(|(claimed, node)| **node != id.node && *claimed >= floor) {
                return Some(format!("no other node obeyed a floor of {floor} or above"));
            }
        }
        let by_revision = !matches!(says, Against::UnknownTerm(_));
        let seen = self.fleet.fall().is_some() || !self.databases.is_empty();
        let others = self.against.iter().any(|(other, ..)| other.node != id.node);
        if by_revision && !seen && !others {
            return Some("no database, no coordinator and no other node was ahead of the store".to_owned());
        }
        // No agent takes in a record that disregards its instance, whatever it claims by now.
        let chosen = self.choices.include.contains(id) || self.choices.disregard.contains(id);
        let known = self.fleet.reconciliation().filter(|_| !chosen);
        known.and_then(|by| by.disregarded_claim(&id.service, &id.node)).map(|_| {
            "an earlier plan disregarded the instance, so only --include applies its claim".to_owned()
        })
    }

    /// Whether a claim goes into the record.
    fn applies(&self, id: &InstanceId, report: &Report, says: &Against) -> bool {
        !self.choices.disregard.contains(id)
            && (self.choices.include.contains(id) || self.lacks(id, report, says).is_none())
    }

    /// Whether the store is behind what an instance obeyed.
    fn is_ahead(&self, id: &InstanceId, obeyed: AcceptedState<'_>) -> bool {
        obeyed.revision > self.fleet.revision()
            || matches!(self.fleet.contradiction_of(id), Some(Against::Ahead { .. }))
    }

    /// The record, without who and why.
    fn record(&self) -> Reconciliation {
        let known = self.fleet.reconciliation();
        let mut body = Reconciliation {
            who: String::new(),
            why: String::new(),
            at: Timestamp(0),
            terms: known.map(|known| known.terms.clone()).unwrap_or_default(),
            revision: known
                .map(|known| known.revision)
                .filter(|revision| self.fleet.revision().may_follow(*revision))
                .unwrap_or(Revision::ABSENT),
            floors: known.map(|known| known.floors.clone()).unwrap_or_default(),
            disregarded: carried_over(self.fleet),
            listed: BTreeMap::new(),
        };
        for (id, _, report, says) in &self.against {
            if !self.applies(id, report, says) {
                continue;
            }
            let obeyed = report.obeyed();
            body.terms.extend(obeyed.term.cloned());
            body.revision = body.revision.max(obeyed.revision);
            if let Some(floor) = obeyed.floor {
                let known = body.floors.entry(id.service.clone()).or_insert(floor);
                *known = (*known).max(floor);
            }
        }
        body.revision = self.fleet.fall().map_or(body.revision, |(seen, _)| body.revision.max(seen));
        for (term, number) in &self.databases {
            // A known term is a witness by its number alone.
            body.terms.extend(Some(term).filter(|term| !self.fleet.acknowledges_term(term)).cloned());
            body.revision = body.revision.max(*number);
        }
        for id in &self.choices.disregard {
            let of_service = body.disregarded.entry(id.service.clone()).or_default();
            let claim = of_service.entry(id.node.clone()).or_default();
            let report = self.fleet.service(&id.service).and_then(|s| s.get(&id.node)?.report.as_ref());
            // A silent one claims what it claimed before when it is back.
            if let Some(report) = report {
                let obeyed = report.obeyed();
                let ahead = claim.ahead && claim.is_made_by(obeyed) || self.is_ahead(id, obeyed);
                *claim = Claim { ahead, ..Claim::from(obeyed) };
            }
        }
        for id in &self.choices.include {
            if let Some(of) = body.disregarded.get_mut(&id.service) {
                of.remove(&id.node);
            }
        }
        body.disregarded.retain(|_, nodes| !nodes.is_empty());
        body
    }

    fn witnesses(&self, body: &Reconciliation) -> Vec<Witness> {
        let witness = |(id, _, report, says): &(InstanceId, &Instance, &Report, &Against)| {
            let obeyed = report.obeyed();
            let fate = match () {
                () if self.choices.disregard.contains(id) => Fate::Disregarded,
                () if body.covers(&id.service, &id.node, obeyed) && self.applies(id, report, says) => {
                    Fate::Applied
                }
                () => Fate::Quarantined,
            };
            Witness {
                instance: id.clone(),
                says: says.to_string(),
                term: obeyed.term.cloned(),
                floor: obeyed.floor,
                revision: obeyed.revision,
                lacks: self.lacks(id, report, says),
                fate,
            }
        };
        self.against.iter().map(witness).collect()
    }

    /// A window is raised to what this plan applies and a database requires, and leaves room for what runs; its ceiling falls
    /// only to that. An earlier plan raised it to what it applied, and a rollback may have lowered it since. An instance that is
    /// out of rotation, or refused and hidden by its agent, gets room only where its claim is applied: the former store admitted
    /// what it runs. One without a claim may have joined this store without a window. What no store has admitted, as where
    /// the version URL lies, gets none.
    fn window(&self, service: &ServiceName, witnesses: &[Witness]) -> WindowChange {
        let of = self.fleet.service(service);
        let stored = of.and_then(|of| of.window());
        let now = stored.map(|window| (window.floor, window.ceiling));
        let at = of.map_or(Revision::ABSENT, |of| of.window_at());
        let claims = witnesses.iter().filter(|w| w.instance.service == *service && w.fate == Fate::Applied);
        let claims: BTreeMap<&NodeId, &Witness> = claims.map(|w| (&w.instance.node, w)).collect();
        let applied = |id: &NodeId| claims.contains_key(id);
        let claimed = claims.values().filter_map(|w| w.floor).max();
        let contracted = self.contracted.get(service).copied();
        let by_database = contracted > claimed.max(now.map(|(floor, _)| floor));
        let Some(floor) = claimed.max(contracted).filter(|_| !mutant::is("reconciled-below-a-witness"))
        else {
            return WindowChange { service: service.clone(), at, now, then: now, by_database: false };
        };
        let floor = now.map_or(floor, |(now, _)| now.max(floor));
        let counted = of.into_iter().flat_map(|of| of.instances());
        let counted: Vec<&Instance> = counted
            .filter(|i| {
                !names(&self.choices.disregard, service, &i.node)
                    && (!i.contradicts && !is_kept_out(i) || applied(&i.node))
            })
            .collect();
        let admitted = counted.iter().filter(|i| !is_never_admitted(i));
        let highest = admitted.filter_map(|i| Running::of(i).known()).max();
        let mut ceiling = highest.map_or(floor, |highest| highest.max(floor));
        // It obeys the window where the store is not behind its claim, and may run whatever the store's window admits.
        let hidden = |i: &Instance| {
            let in_rotation = i.report.as_ref().is_some_and(|report| report.rotation == Rotation::In);
            names(&self.choices.disregard, service, &i.node)
                && in_rotation
                && Running::of(i) == Running::Unknown
        };
        if of.into_iter().flat_map(|of| of.instances()).any(hidden) {
            ceiling = now.map_or(ceiling, |(_, known)| known.max(ceiling));
        }
        if mutant::is("reconcile-narrows-the-window") {
            ceiling = floor;
        }
        let kept = of.and_then(|of| kept(self.fleet, of, applied));
        let ceiling = kept.map_or(ceiling, |kept| kept.max(ceiling));
        WindowChange { service: service.clone(), at, now, then: Some((floor, ceiling)), by_database }
    }

    /// What runs where: of every service where nothing acts, else of those whose instances contradict the store.
    fn instances(
        &self,
        contradiction: Contradiction,
        services: &BTreeSet<&ServiceName>,
        windows: &[WindowChange],
        witnesses: &[Witness],
    ) -> Vec<Runs> {
        let concerned = |service: &ServiceName| {
            contradiction == Contradiction::Supported
                || windows.iter().any(|w| w.service == *service && w.changes())
                || witnesses.iter().any(|w| w.instance.service == *service && w.fate == Fate::Applied)
        };
        let listed = |service: &&crate::fleet::ServiceFleet| {
            concerned(service.name()) || services.contains(service.name())
        };
        let changed = windows.iter().filter(|w| w.changes());
        let left_out: BTreeSet<&ServiceName> = changed.skip(MOST_WINDOWS).map(|w| &w.service).collect();
        let applied = witnesses.iter().filter(|w| w.fate == Fate::Applied);
        let applied: BTreeSet<&InstanceId> = applied.map(|w| &w.instance).collect();
        let mut all = Vec::new();
        for service in self.fleet.services().filter(listed) {
            let name = service.name();
            let then = windows.iter().find(|w| w.service == *name).map_or_else(
                || service.window().map(|window| (window.floor, window.ceiling)),
                |window| window.then,
            );
            let lost = lost_rollback(self.fleet, self.moment, name, witnesses);
            for instance in service.instances() {
                let id = InstanceId::new(name.clone(), instance.node.clone());
                let running = Running::of(instance);
                let refused = match (running, then) {
                    _ if !concerned(name) || self.choices.disregard.contains(&id) => None,
                    _ if left_out.contains(name) && applied.contains(&id) => Some(for_the_next_plan()),
                    (Running::Unknown, _) if self.choices.include.contains(&id) && is_out(instance) => None,
                    (Running::Unknown, _) => Some(unknown(self.fleet, &id, instance)),
                    (Running::At(version), Some((floor, ceiling)))
                        if version < floor || version > ceiling =>
                    {
                        Some(outside(version, (floor, ceiling), lost))
                    }
                    _ => None,
                };
                all.push(Runs { instance: id, version: running.known(), refused });
            }
        }
        all
    }
}
