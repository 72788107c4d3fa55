//! What was done how often: two histories that did the same have the same tally.

use std::collections::BTreeMap;

use tidegate_proto::key::Subject;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Rotation;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, NodeId, Value};

use super::Trace;

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Each phase that an upgrade was in, and each wave of its roll, in order.
    pub phases: Vec<String>,
    /// The upgrades' events, in order, without those of operators.
    pub moves: Vec<String>,
    /// Each window that there was, in order.
    pub windows: Vec<String>,
    /// For each instance.
    pub instances: BTreeMap<NodeId, Deeds>,
}

/// What was done with one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deeds {
    /// The orders that it was given, in order: one that only names other releases to be present is no new one.
    pub orders: Vec<String>,
    /// The versions that it was admitted at, in order; the same version again is no new one, nor is the one that ran when
    /// it was seen first.
    pub admitted: Vec<u32>,
    /// How often its reports show that it left rotation.
    pub out: usize,
}

impl Trace {
    /// Counts, from a revision on.
    pub fn tally_from(&self, begin: i64) -> Tally {
        let mut tally = Tally::default();
        let mut rotations: BTreeMap<NodeId, Rotation> = BTreeMap::new();
        let mut admitted: BTreeMap<NodeId, u32> = BTreeMap::new();
        let writes = self.revisions.iter().flat_map(|r| r.writes.iter().map(move |w| (r.number, w)));
        for (at, written) in writes {
            let Some(value) = written.put.as_ref().map(|put| &put.value) else { continue };
            let counts = at >= begin;
            match (&written.key, value) {
                (Key::Report(_, node), Value::Report(report)) => {
                    let now = report.body.rotation;
                    let before = rotations.insert(node.clone(), now);
                    let leaves = before == Some(Rotation::In) && now != Rotation::In;
                    tally.of(node).out += usize::from(leaves && counts);
                }
                (Key::Inventory(_, node), Value::Inventory(inventory)) => {
                    let now = inventory.body.version.get();
                    let before = admitted.insert(node.clone(), now);
                    let is_new = before.is_some_and(|before| before != now);
                    tally.of(node).admitted.extend((is_new && counts).then_some(now));
                }
                _ if !counts => {}
                (Key::Event(Subject::Upgrade(_), _), Value::Event(event)) => {
                    let is_word = event.body.to.ends_with("approved");
                    tally.moves.extend((!is_word).then(|| event.body.to.clone()));
                }
                (Key::Upgrade(_), Value::Upgrade(upgrade)) => {
                    append(&mut tally.phases, in_words(&upgrade.body.phase));
                }
                (Key::Window(_), Value::Window(window)) => tally.windows.push(window.body.to_string()),
                (Key::Directive(_, node), Value::Directive(directive)) => {
                    let order = order(&directive.body.disposition);
                    append(&mut tally.of(node).orders, order);
                }
                _ => {}
            }
        }
        tally
    }
}

impl Tally {
    fn of(&mut self, node: &NodeId) -> &mut Deeds {
        self.instances.entry(node.clone()).or_default()
    }
}

fn append<T: PartialEq>(list: &mut Vec<T>, next: T) {
    if list.last() != Some(&next) {
        list.push(next);
    }
}

fn in_words(phase: &Phase) -> String {
    match phase {
        Phase::Roll { wave } => format!("roll wave {}", wave + 1),
        Phase::RollingBack { step, .. } => format!("rolling back: {step:?}"),
        other => other.name().word().to_owned(),
    }
}

fn order(disposition: &Disposition) -> String {
    match disposition {
        Disposition::Replace { release } => format!("replace with {}", release.tag),
        other => other.word().to_owned(),
    }
}
