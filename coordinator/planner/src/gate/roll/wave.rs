//! Whether the exposed waves have passed: every instance of them was seen serving the target, or is skipped, and at
//! least one of each wave was verified.

use super::{RollGate, failed_or_skipped, none_unstaged, unfit};
use crate::fleet::{Causes, Instance, Sample, ServiceFleet, Standing};
use crate::gate::person::rollback::begins;
use crate::gate::{Answer, Reason, VersionGate};
use crate::upgrade::View;
use std::collections::BTreeSet;
use tidegate_proto::{NodeId, mutant};

/// Those of the exposed waves that were not seen serving the target and are not skipped.
pub(crate) struct Left<'a> {
    silent: Sample,
    in_maintenance: [Sample; 2],
    /// The first of the others.
    idle: Vec<&'a Instance>,
}

impl<'a> Left<'a> {
    /// In the waves up to `wave`; an instance without a wave is in the last one.
    pub(crate) fn of(view: &View<'_>, service: &'a ServiceFleet, wave: u32, last: u32) -> Self {
        let exempt: BTreeSet<&NodeId> = view.exceptions().exempt().collect();
        let left = |standing| {
            let among = |node: &&&NodeId| {
                service
                    .standing_of(node)
                    .is_some_and(|(stands, in_wave)| stands == standing && in_wave <= wave)
            };
            let among = exempt.iter().filter(among).count();
            service.standing(standing, wave).sample_but(|node| exempt.contains(node), among)
        };
        let idle = service
            .each_standing(Standing::Ready, wave)
            .chain(service.each_standing(Standing::Unhealthy, wave))
            .chain(service.each_standing(Standing::OutOfRotation, wave))
            .chain(service.ordered().each.filter(|i| i.wave.map_or(last, |drawn| drawn.min(last)) <= wave))
            .filter(|instance| !exempt.contains(&instance.node));
        Self {
            silent: left(Standing::Silent),
            in_maintenance: [left(Standing::Cordoned), left(Standing::DisabledByPerson)],
            idle: idle.take(Sample::NAMED + 1).collect(),
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        !(self.silent.is_empty() && self.in_maintenance.iter().all(Sample::is_empty) && self.idle.is_empty())
    }

    /// Why the waves have not passed, where no instance is under way.
    pub(crate) fn answer(self, view: &View<'_>, service: &ServiceFleet) -> Answer {
        let name = service.name().clone();
        let (unstaged, idle): (Vec<_>, Vec<_>) =
            self.idle.into_iter().partition(|instance| service.is_unstaged(&instance.node));
        let mut answer = Answer::closed();
        answer.and(none_unstaged(&view.spec().release.tag, unstaged.into_iter()));
        answer.and(Answer::of_any(self.silent, |nodes| VersionGate::Silent { service: name, nodes }));
        for nodes in self.in_maintenance {
            answer.and(Answer::of_any(nodes, |nodes| RollGate::Maintenance { nodes }));
        }
        answer.and(unfit(Causes::counted(idle.into_iter())));
        answer
    }
}

/// Whether any instance of a wave was verified at the new version: a wave in which all failed or were skipped shows nothing.
pub(crate) fn verified(view: &View<'_>, service: &ServiceFleet, wave: u32) -> Answer {
    let is_empty = service.in_wave(wave) > 0 && service.done_in(wave) == 0;
    if !is_empty || mutant::is("an-empty-wave-passes") {
        return Answer::open();
    }
    let rollback_path = begins(view, "").is_open;
    let mut answer = Answer::from(Reason::from(RollGate::EmptyWave { wave, rollback_path }));
    let is_left = |node: &NodeId| service.standing_of(node).is_some_and(|(_, in_wave)| in_wave <= wave);
    answer.reasons.extend(failed_or_skipped(view.exceptions(), is_left));
    answer
}
