//! Put a node in maintenance, and take it out again: upgrades do not move its instances meanwhile.

use super::{Asker, Refusal, demand_readable, demand_why, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::maintenance::Maintenance;
use tidegate_proto::{Key, NodeId, Revision};

/// Keeps a node out.
pub fn cordon(fleet: &Fleet, moment: &Moment, node: &NodeId, asker: &Asker) -> Result<Commit, Refusal> {
    demand_why(asker, "cordoning a node")?;
    let key = Key::Maintenance(node.clone());
    demand_readable(fleet, &key, &format!("cordon {node}"))?;
    if let Some(held) = fleet.maintenance(node) {
        return Err(Refusal::state(format!("{node} is cordoned already, by {}: {}", held.who, held.why)));
    }
    if !fleet.services().any(|service| service.get(node).is_some()) {
        return Err(Refusal::not_found(format!("no instance was ever seen on {node}")));
    }
    let body = Maintenance { who: asker.who.clone(), why: asker.why.clone(), at: moment.wall };
    Ok(with_event(moment, Subject::Fleet, asker, &format!("{node}"), &format!("{node} cordoned"))
        .when(Precondition::At(key.clone(), Revision::ABSENT))
        .put(key, body))
}

/// Gives a node back.
pub fn uncordon(fleet: &Fleet, moment: &Moment, node: &NodeId, asker: &Asker) -> Result<Commit, Refusal> {
    let key = Key::Maintenance(node.clone());
    demand_readable(fleet, &key, &format!("uncordon {node}"))?;
    let Some(held) = fleet.maintenance(node) else {
        return Err(Refusal::state(format!("{node} is not cordoned")));
    };
    Ok(with_event(moment, Subject::Fleet, asker, &format!("{node} cordoned"), &format!("{node}"))
        .when(Precondition::At(key.clone(), held.at))
        .delete(key))
}
