//! One upgrade as a turn sees it: what its gates and its steps read.

use crate::fleet::{Exceptions, Fleet, ServiceFleet, Stored};
use crate::moment::{Elapsed, LookedFor, Moment, SchemaFacts};
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::spec::Spec;
use tidegate_proto::{UpgradeId, mutant};

/// An upgrade, in the fleet and at the moment of a turn.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) moment: &'a Moment,
    pub(crate) id: &'a UpgradeId,
    pub(crate) upgrade: &'a Stored<Upgrade>,
}

impl<'a> View<'a> {
    pub(crate) fn spec(&self) -> &'a Spec {
        &self.upgrade.record.body.spec
    }

    /// The service's instances. An active upgrade's service has left a trace, or preflight would have stopped it.
    pub(crate) fn service(&self) -> Option<&'a ServiceFleet> {
        self.fleet.service(&self.spec().service)
    }

    /// The instances that failed or were skipped.
    pub(crate) fn exceptions(&self) -> Exceptions<'a> {
        self.fleet.exceptions(self.id, self.upgrade)
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        let stored = Elapsed { stalled_ms: self.upgrade.stalled_ms, phase_ms: self.upgrade.phase_ms };
        self.moment.elapsed.get(self.id).copied().unwrap_or(stored)
    }

    pub(crate) fn facts(&self) -> Option<&'a SchemaFacts> {
        self.moment.schemas.get(self.id)
    }

    /// The same where it was seen for the decision before which the upgrade is now.
    pub(crate) fn fresh_facts(&self) -> Option<&'a SchemaFacts> {
        let is_fresh = |facts: &&SchemaFacts| {
            facts.looked_for == Some(LookedFor::of(self.upgrade)) || mutant::is("old-look-is-trusted")
        };
        self.facts().filter(is_fresh)
    }

    /// How old the last look at the database is, in milliseconds.
    pub(crate) fn look_age_ms(&self) -> u64 {
        self.facts().map_or(0, |facts| self.moment.leading_ms.saturating_sub(facts.looked_ms))
    }
}
