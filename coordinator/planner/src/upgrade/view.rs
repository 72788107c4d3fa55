//! One upgrade as a turn sees it: what its gates and its steps read.

use crate::fleet::{Exceptions, Fleet, ServiceFleet, Stored};
use crate::moment::{Elapsed, LookedFor, Moment, SchemaFacts};
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::spec::Spec;
use tidegate_proto::{UpgradeId, mutant};

/// How long a look at a database holds for what is taken out in one wave, in milliseconds: a wave, and the wait for its
/// instances, may last for hours.
const LOOK_HOLDS_MS: u64 = 60_000;

/// The same for the end of an upgrade: the look is repeated once nothing else is waited for, and its end plans the turn that
/// ends the upgrade.
const LAST_LOOK_HOLDS_MS: u64 = 1_000;

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

    /// The same where the look is not older than a look holds.
    pub(crate) fn recent_facts(&self) -> Option<&'a SchemaFacts> {
        self.facts_within(LOOK_HOLDS_MS)
    }

    /// The same where the look is recent enough to end the upgrade on it.
    pub(crate) fn last_facts(&self) -> Option<&'a SchemaFacts> {
        self.facts_within(LAST_LOOK_HOLDS_MS)
    }

    /// The same, or that within that time the database was found to hold nothing that Tidegate ever did: such a look is for
    /// no decision.
    pub(crate) fn last_seen(&self) -> Option<&'a SchemaFacts> {
        let is_unclaimed =
            |facts: &&SchemaFacts| facts.unclaimed && self.is_within(facts, LAST_LOOK_HOLDS_MS);
        self.last_facts().or_else(|| self.facts().filter(is_unclaimed))
    }

    fn facts_within(&self, holds_ms: u64) -> Option<&'a SchemaFacts> {
        self.fresh_facts().filter(|facts| self.is_within(facts, holds_ms))
    }

    fn is_within(&self, facts: &SchemaFacts, holds_ms: u64) -> bool {
        self.moment.leading_ms.saturating_sub(facts.looked_ms) < holds_ms || mutant::is("old-look-is-trusted")
    }
}
