//! What an instance reports of the document that is being exposed to it.

use super::{Asked, find};
use crate::ask::{Asker, Refusal};
use crate::fleet::{Fleet, Stored};
use crate::metadata;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::signal::Signal;
use tidegate_proto::{FailureName, GroupName, Key, MetadataGeneration, NodeId};

/// What an instance reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataSignal {
    /// The document that it is about; none = the one that is being exposed.
    pub generation: Option<MetadataGeneration>,
    /// Whether it went well.
    pub success: bool,
    /// What kind of failure it was.
    pub failure: Option<FailureName>,
}

/// Success or failure of an instance with the document that is being exposed. Its last signal counts.
pub fn signal(
    fleet: &Fleet,
    moment: &Moment,
    name: &GroupName,
    node: &NodeId,
    signal: &MetadataSignal,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let group = find(fleet, name)?;
    if !metadata::is_member(fleet, name, group, node) {
        return Err(Refusal::not_found(format!("{name} has no instance {node}")));
    }
    if signal.success && signal.failure.is_some() {
        return Err(Refusal::invalid("a success has no kind of failure; nothing was changed"));
    }
    let Some(update) = &group.update else {
        return Err(Refusal::state(format!("no update of {name} runs: nothing is counted")));
    };
    let generation = update.to.generation;
    if let Some(reported) = signal.generation.filter(|reported| *reported != generation) {
        return Err(Refusal::state(format!(
            "generation {reported} of {name} is not what is being exposed, which is {generation}: nothing is counted"
        )));
    }
    let page = fleet.exposed_page_of(name, node, update.pages);
    match page.and_then(|page| page.members.get(node)) {
        Some(batch) if *batch <= update.batch => {}
        found => {
            let when = match found {
                Some(batch) => {
                    format!("it is in batch {}, and {} is the last that is", batch + 1, update.batch + 1)
                }
                None => "it came after the instances were drawn".to_owned(),
            };
            return Err(Refusal::state(format!(
                "{node} is not exposed to generation {generation} of {name} ({when}): nothing is counted"
            )));
        }
    }
    let stands = fleet.last_group_word(name, node);
    let body = Signal {
        generation: Some(generation),
        success: signal.success,
        failure: signal.failure.clone(),
        why: asker.why.clone(),
        who: asker.who.clone(),
        at: moment.wall,
    };
    let same = |stored: &&Stored<Signal>| {
        let content =
            |signal: &Signal| (signal.generation, signal.success, signal.failure.clone(), signal.why.clone());
        content(stored) == content(&body)
    };
    if stands.is_some_and(|stored| same(&stored)) {
        return Ok(Asked::already(Some(generation)));
    }
    let key = Key::GroupSignal(name.clone(), node.clone());
    // One that cannot be read is replaced: the last signal counts.
    let at = fleet.replaced_at(&key, stands.map(|stored| stored.at));
    // One word a key, so that instances do not wait for each other; the group itself is not compared.
    let commit = Commit::new().when(Precondition::At(key.clone(), at)).put(key, body);
    Ok(Asked { generation: Some(generation), commit: Some(commit) })
}
