//! Instances that an order has taken out, and what each of them waits for.

use super::{RollGate, has_failed, unfit};
use crate::fleet::{Causes, Instance, Known, Sample, ServiceFleet};
use crate::gate::{Answer, BudgetGate, Reason, VersionGate};
use crate::upgrade::View;
use tidegate_proto::NodeId;

/// The instances that an order has taken out, by what they wait for.
#[derive(Default)]
pub(crate) struct TakenOut<'a> {
    pub(crate) draining: Vec<&'a NodeId>,
    pub(crate) replacing: Vec<&'a NodeId>,
    pub(crate) returning: Vec<&'a NodeId>,
    /// They report that they serve, and are not healthy in rotation; or they were drained before their wave, run a version
    /// that is admitted, and are not healthy.
    pub(crate) broken: Vec<&'a Instance>,
    /// Nothing that they report counts.
    pub(crate) silent: Vec<&'a NodeId>,
    /// A person keeps them out, or holds them where they are.
    pub(crate) in_maintenance: Vec<&'a NodeId>,
    /// Drained, and not to be stopped now.
    pub(crate) held: Vec<&'a Instance>,
    /// Drained before their wave, because their version was changed in rotation to one that is not admitted.
    pub(crate) outside: Vec<&'a Instance>,
    /// Those that failed under their directive, with why.
    pub(crate) failed: Vec<(&'a Instance, String)>,
}

impl TakenOut<'_> {
    pub(crate) fn any_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    pub(crate) fn any_reporting(&self) -> bool {
        !(self.draining.is_empty()
            && self.replacing.is_empty()
            && self.returning.is_empty()
            && self.held.is_empty()
            && self.outside.is_empty()
            && self.broken.is_empty())
    }

    /// Open where no instance is out.
    pub(crate) fn answer(&self, view: &View<'_>) -> Answer {
        let sample = |nodes: &[&NodeId]| Sample::of(nodes.iter().copied(), nodes.len());
        let (drain, healthy) = (view.spec().drain.deadline, view.spec().health.healthy_deadline);
        let name = || view.spec().service.clone();
        let replacing = |nodes| RollGate::Replacing { nodes, deadline: healthy };
        let service = view.service();
        let answering = service
            .into_iter()
            .flat_map(|service| self.replacing.iter().filter_map(|node| service.get(node)))
            .filter(|instance| instance.reports_answers());
        let held = Sample::counted(self.held.iter().map(|instance| &instance.node));
        // A record that cannot be read is named by itself.
        let is_silent = |node: &NodeId| {
            service.and_then(|service| service.get(node)).is_some_and(|i| i.known() == Known::Silent)
        };
        let silent = Sample::counted(self.silent.iter().copied().filter(|node| is_silent(node)));
        let mut answer = Answer::of_any(silent, |nodes| VersionGate::Silent { service: name(), nodes });
        answer.is_open &= self.silent.is_empty();
        answer.and(Answer::of_any(sample(&self.draining), |nodes| RollGate::Draining {
            nodes,
            deadline: drain,
        }));
        answer.and(Answer::of_any(sample(&self.replacing), replacing));
        answer.and(unfit(Causes::counted(answering)));
        answer.and(Answer::of_any(sample(&self.returning), |nodes| RollGate::Returning { nodes }));
        answer.and(unfit(Causes::counted(self.broken.iter().copied())));
        answer.and(Answer::of_any(held, |nodes| BudgetGate::Held { nodes }));
        if let Some(window) = service.and_then(ServiceFleet::window).filter(|_| !self.outside.is_empty()) {
            let (service, window) = (name(), window.record.body.to_string());
            let nodes = Causes::counted(self.outside.iter().copied());
            answer.and(Answer::from(Reason::from(BudgetGate::Outside { service, window, nodes })));
        }
        answer.and(Answer::of_any(sample(&self.in_maintenance), |nodes| RollGate::Maintenance { nodes }));
        let failed = self.failed.iter().take(Sample::NAMED);
        answer.reasons.extend(failed.map(|(instance, why)| has_failed(&instance.node, why)));
        answer
    }
}
