//! Only a leader writes, under its own term, and nothing that must stay is removed (rules 0, 2 and 3).

use tidegate_proto::{Key, Value};

use super::Judge;
use crate::trace::revision::Written;

impl Judge<'_> {
    /// What coordinators write is written under a leadership, and names it.
    pub(super) fn only_a_leader_writes(&mut self) {
        let leader = self.before.leader.as_ref();
        for Written { key, put, .. } in &self.revision.writes {
            if matches!(
                key,
                Key::Report(..)
                    | Key::Inventory(..)
                    | Key::GroupSignal(..)
                    | Key::Leader
                    | Key::Term(_)
                    | Key::TaskResult(..)
            ) {
                continue;
            }
            self.holds(0, leader.is_some(), || format!("{key} was written while no coordinator led"));
            let Some(leader) = leader else { continue };
            match (key, put.as_ref().map(|put| &put.value)) {
                (Key::Directive(..), Some(Value::Directive(directive))) => {
                    let same = directive.body.term == leader.body.term;
                    self.holds(0, same, || format!("{key} bears the term of one who does not lead"));
                }
                (Key::Event(_, seq), _) => {
                    self.holds(0, seq.term == leader.revision, || format!("{key} is of another term"));
                }
                _ => {}
            }
        }
    }

    /// Events are appended, and what was admitted stays in the inventory.
    pub(super) fn nothing_is_forgotten(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            match (key, put) {
                (Key::Event(..) | Key::Term(_), Some(put)) => {
                    let fresh = put.created == self.revision.number;
                    self.holds(0, fresh, || format!("{key} was written again"));
                }
                (Key::Event(..), None) => self.holds(0, false, || format!("{key} was removed")),
                (Key::Inventory(..), None) => self.holds(3, false, || format!("{key} was removed")),
                (Key::Window(_), None) => self.holds(2, false, || format!("{key} was removed")),
                _ => {}
            }
        }
    }
}
