//! What clients of the services do, and what they see.

use super::Run;
use crate::simulate::slot::{At, Running, Slot};
use crate::simulate::{deposed, form_look};
use std::collections::BTreeMap;

impl Run {
    /// What clients do: programs of the versions that are in rotation read and write.
    pub(super) async fn clients(&mut self) {
        deposed::look(&mut self.world).await;
        for service in 0..self.world.scenario.services.len() {
            let Some(schema) = self.world.scenario.services[service].schema else { continue };
            if self.world.databases[schema].is_away() {
                continue;
            }
            let now = self.world.testbed.now();
            self.look_at_form(service).await;
            // Each version that is in rotation, and whether only instances run it that came after a rollback, or unknown, or
            // that are taken for the former version.
            let mut versions: BTreeMap<u32, bool> = BTreeMap::new();
            let is_undone = {
                let state = self.world.testbed.state();
                let facts = &state.facts;
                let is_judged =
                    |at: &At, slot: &Slot| !facts.is_unknown(*at, slot) && !facts.unbound.contains(at);
                let slots = state.slots.iter();
                let of = slots.filter(|&(at, slot)| at.0 == service && slot.serves && is_judged(at, slot));
                let running = of.filter_map(|(at, slot)| Some((at, slot, slot.alive(now)?)));
                let meets_clients = |at: At, slot: &Slot, run: &Running| {
                    facts.has_clients(service, run)
                        && !facts.is_shown_outside(at, slot, now)
                        && !facts.is_newcomer_of_copy(at, run.is.version, now)
                        && !facts.is_out_of_reach_above(at, run, now)
                };
                for (at, slot, run) in running.filter(|(at, slot, run)| meets_clients(**at, slot, run)) {
                    let is_late = facts.is_late(*at, run.is.version, now)
                        || facts.is_returning(*at, run, now)
                        || facts.is_taken_for_former(*at, slot);
                    *versions.entry(run.is.version).or_insert(true) &= is_late;
                }
                facts.services[service].undoing.is_some()
            };
            for (version, is_late) in versions {
                let after_roll = self.world.scenario.schemas[schema].meets_unfilled(version);
                let database = &mut self.world.databases[schema];
                // The rollback undid what they use, and no order could move them before it.
                if is_late && database.has_form(version).await == Ok(false) {
                    continue;
                }
                // Another attempt has made the form again, and may not have filled it yet.
                let unfilled = after_roll || is_late && is_undone || database.lacks_fill(version).await;
                let mut done = database.write(version).await;
                if done.is_ok() {
                    done = database.read_all(version, unfilled).await;
                }
                match done {
                    Err(wrong) if !wrong.is_busy() && !database.older => {
                        let name = &self.world.scenario.services[service].name;
                        let text = format!("{name} at version {version}: {}", wrong.0);
                        self.world.testbed.state().facts.breach(now, 1, text);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Whether the database has the form that the upgrade under way gave it, and the rows that it filled before the roll.
    async fn look_at_form(&mut self, service: usize) {
        let Some(plan) = self.sequences[service].current.as_ref().map(|current| current.plan) else { return };
        let to = self.world.scenario.upgrades[plan].from + 1;
        form_look::look(&mut self.world, service, to).await;
    }
}
