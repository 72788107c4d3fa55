//! Services that share a schema: the first of them upgrades it with its own upgrades, and the others follow, each once the
//! form that its next version needs is there.

use super::scenario::{Scenario, UpgradePlan};
use super::upgrade_id::{is_attempt, place_of};
use super::world::World;
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_proto::record::upgrade::PhaseName;

/// How often people try to start an upgrade.
const STARTS: u32 = 12;

/// The same of a service that another one waits for, every five seconds: until all that went wrong has ended, and then as
/// often as others.
const STARTS_OF_SHARING: u32 = 42;

/// What the people of a service that shares a schema do with its next upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// They start it.
    Now,
    /// They wait for the upgrade of the service whose upgrades change the schema.
    Later,
    /// That upgrade will not come.
    Never,
}

/// Why people of a service that shares a schema may follow an upgrade of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Its new version runs everywhere, and the store was lost with its record.
    Done,
    /// The migration of this attempt waits for their floor.
    By(String),
}

impl Wanted {
    /// Whether the form is there that the attempt made: its rollback takes it away, and the next one has to make
    /// it again.
    fn holds(&self, phases: &BTreeMap<String, (PhaseName, u64)>) -> bool {
        use PhaseName::{Failed, RolledBack, RollingBack};
        match self {
            Self::Done => true,
            Self::By(id) => {
                phases.get(id).is_none_or(|(phase, _)| !matches!(phase, RollingBack | RolledBack | Failed))
            }
        }
    }
}

impl Scenario {
    /// The service whose upgrades change a schema: the first that names it.
    pub fn owner(&self, schema: usize) -> Option<usize> {
        self.services.iter().position(|service| service.schema == Some(schema))
    }

    /// The schema that a service's own upgrades change.
    pub fn owned_schema(&self, service: usize) -> Option<usize> {
        self.services[service].schema.filter(|schema| self.owner(*schema) == Some(service))
    }

    /// The other services that share the schema that a service's own upgrades change.
    pub fn sharing(&self, service: usize) -> Vec<usize> {
        let Some(schema) = self.owned_schema(service) else { return Vec::new() };
        let shares = |other: &usize| *other != service && self.services[*other].schema == Some(schema);
        (0..self.services.len()).filter(shares).collect()
    }

    /// Whether a service shares a schema that the upgrades of another one change, which wait for it.
    pub fn is_waited_for(&self, service: usize) -> bool {
        self.services[service].schema.is_some() && self.owned_schema(service).is_none()
    }

    /// How often people of a service try to start an upgrade.
    pub(super) fn starts(&self, service: usize) -> u32 {
        if self.is_waited_for(service) { STARTS_OF_SHARING } else { STARTS }
    }
}

/// Whether an upgrade may be started, as far as the schema goes: at once where it changes the schema itself or has none.
/// The form that its new version needs must be there, and filled where that version reads no unfilled rows.
pub(super) fn turn(world: &World, plan: &UpgradePlan) -> Turn {
    let scenario = &world.scenario;
    let Some(schema) = scenario.services[plan.service].schema else { return Turn::Now };
    let Some(owner) = scenario.owner(schema).filter(|owner| *owner != plan.service) else { return Turn::Now };
    let is_it = |other: &UpgradePlan| other.service == owner && other.from == plan.from;
    let Some(place) = scenario.upgrades.iter().position(is_it) else { return Turn::Never };
    let begun = {
        let state = world.testbed.state();
        if world.wanted.get(&place).is_some_and(|wanted| wanted.holds(&state.facts.phases)) {
            return Turn::Now;
        }
        let phases = state.facts.phases.iter();
        let mut of_it = phases.filter(|(id, _)| is_attempt(id, place)).map(|(_, (phase, _))| *phase);
        of_it.any(|phase| has_form(phase, scenario.is_filled_after_roll(schema, plan.from)))
    };
    match begun {
        true => Turn::Now,
        false if world.given_up.contains(&owner) => Turn::Never,
        false => Turn::Later,
    }
}

/// Whether one of these services runs a version that uses the form of a schema which they share, or an order of its upgrade may
/// still start one: on a node that was away as it was given, or whose hook hangs.
pub(super) fn use_form(world: &World, services: &[usize], version: u32) -> bool {
    let runs = |service: &usize| world.testbed.highest(*service) >= version;
    services.iter().any(runs)
        || world.scenario.are_moved_to(services, version, &world.testbed.state().facts.phases)
}

fn has_form(phase: PhaseName, unfilled: bool) -> bool {
    match phase {
        PhaseName::Roll => true,
        // In Nova's order rows are filled after the roll.
        PhaseName::Migrate => unfilled,
        PhaseName::Remove | PhaseName::Contract | PhaseName::Completed => true,
        _ => false,
    }
}

impl Scenario {
    /// Whether an upgrade of one of these services to this version, or a later one, has given orders and is not over.
    fn are_moved_to(
        &self,
        services: &[usize],
        version: u32,
        phases: &BTreeMap<String, (PhaseName, u64)>,
    ) -> bool {
        let is_of_it = |plan: &UpgradePlan| services.contains(&plan.service) && plan.from + 1 >= version;
        phases.iter().any(|(id, (phase, _))| {
            let plan = place_of(id).and_then(|place| self.upgrades.get(place));
            matches!(phase, PhaseName::Roll | PhaseName::Remove | PhaseName::RollingBack)
                && plan.is_some_and(is_of_it)
        })
    }

    /// Whether the rows of the upgrade from this version are filled after its roll.
    pub(super) fn is_filled_after_roll(&self, schema: usize, from: u32) -> bool {
        let at = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
        self.schemas[schema].generations.get(at).is_some_and(|generation| generation.after_roll)
    }
}

/// A service that no node runs yet, and that has no upgrade: the one that `narrow_store` leaves is of another service.
const EMPTY: &str = "loft";

/// What the spec of an upgrade says of the services that share the schema: each must be at the same version before what
/// older ones need is dropped. One that no node runs yet will begin with the version of the first upgrade, or a later one.
pub(super) fn shared_with(scenario: &Scenario, plan: &UpgradePlan) -> serde_json::Value {
    let others = scenario.sharing(plan.service);
    let each = others.into_iter().map(|other| (scenario.services[other].name.clone(), json!(plan.from + 1)));
    let begins = json!(scenario.first_version(plan.service) + 1);
    let empty = empty(scenario, plan).map(|name| (name.to_owned(), begins));
    serde_json::Value::Object(each.chain(empty).collect())
}

/// The service that the spec of an upgrade names as empty.
pub(super) fn empty(scenario: &Scenario, plan: &UpgradePlan) -> Option<&'static str> {
    let schema = &scenario.schemas[scenario.owned_schema(plan.service)?];
    schema.empty_service.then_some(EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::draw;

    #[test]
    fn service_that_another_waits_for_is_started_for_longer() {
        let shares = |drawn: &Scenario| drawn.services.len() == 2 && drawn.sharing(0) == [1];
        let drawn = (1..2_000).map(draw::scenario).find(shares).unwrap();
        assert_eq!([0, 1].map(|service| drawn.starts(service)), [STARTS, STARTS_OF_SHARING]);
    }

    /// The owner's upgrade was rolled back on an older copy. The order to an instance of the other service was given before.
    #[test]
    fn version_that_a_roll_may_still_start_needs_its_form() {
        use PhaseName::{Completed, Failed, Preflight, Remove, RolledBack, RollingBack, Stage};
        let of_other = |drawn: &Scenario| drawn.upgrades.iter().position(|plan| plan.service == 1);
        let shares = |drawn: &Scenario| drawn.sharing(0) == [1] && of_other(drawn).is_some();
        let drawn = (1..2_000).map(draw::scenario).find(shares).unwrap();
        let place = of_other(&drawn).unwrap();
        let to = drawn.upgrades[place].from + 1;
        let may_start = |services: &[usize], version: u32, phase: PhaseName| {
            let phases = BTreeMap::from([(format!("u{place}-again"), (phase, 0))]);
            drawn.are_moved_to(services, version, &phases)
        };
        for phase in [PhaseName::Roll, Remove, RollingBack] {
            assert!(may_start(&[1], to, phase), "{phase:?}");
            assert!(!may_start(&[1], to + 1, phase), "{phase:?}: it goes to a former version");
            assert!(!may_start(&[0], to, phase), "{phase:?}: it is of another service");
        }
        for phase in [Preflight, Stage, Completed, RolledBack, Failed] {
            assert!(!may_start(&[1], to, phase), "{phase:?}: no order starts that version");
        }
    }

    #[test]
    fn service_without_a_node_begins_with_the_first_upgrade() {
        let has_two_hops = |drawn: &Scenario| {
            let first = drawn.schemas.first();
            drawn.services.len() == 1 && first.is_some_and(|of| of.generations.len() == of.contracted + 2)
        };
        let mut drawn = (1..2_000).map(draw::scenario).find(has_two_hops).unwrap();
        let named = |drawn: &Scenario, hop: usize| {
            let plan = &drawn.upgrades[hop];
            (empty(drawn, plan), shared_with(drawn, plan))
        };
        drawn.schemas[0].empty_service = false;
        assert_eq!(named(&drawn, 0), (None, json!({})));
        drawn.schemas[0].empty_service = true;
        let begins = drawn.upgrades[0].from + 1;
        for hop in [0, 1] {
            assert_eq!(named(&drawn, hop), (Some(EMPTY), json!({EMPTY: begins})), "upgrade {hop}");
        }
    }

    #[test]
    fn attempt_that_turned_back_is_not_followed() {
        let wanted = Wanted::By("u0".to_owned());
        let again = || ("u0-again".to_owned(), (PhaseName::Preflight, 0));
        let holds = |phase| wanted.holds(&BTreeMap::from([("u0".to_owned(), (phase, 0)), again()]));
        for phase in [PhaseName::Expand, PhaseName::Roll, PhaseName::Completed] {
            assert!(holds(phase), "{phase}");
        }
        for phase in [PhaseName::RollingBack, PhaseName::RolledBack, PhaseName::Failed] {
            assert!(!holds(phase), "{phase}: the next attempt has to make the form again");
        }
        assert!(wanted.holds(&BTreeMap::new()), "its store was lost");
        assert!(Wanted::Done.holds(&BTreeMap::from([again()])));
    }
}
