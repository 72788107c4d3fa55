//! What is observed of metadata groups: their records, the batch of each instance, and the instances' signals.
//! Documents are not here: no turn reads their content.

use super::{Fleet, Stored};
use std::collections::BTreeMap;
use tidegate_proto::record::group::{ExposedPage, Group, NamedMembers, page_of};
use tidegate_proto::record::signal::Signal;
use tidegate_proto::{GroupName, Key, MetadataGeneration, NodeId, Revision, Value};

/// The records.
#[derive(Debug, Clone, Default)]
pub(super) struct MetadataRecords {
    groups: BTreeMap<GroupName, Stored<Group>>,
    members: BTreeMap<GroupName, Stored<NamedMembers>>,
    pages: BTreeMap<GroupName, BTreeMap<u32, Stored<ExposedPage>>>,
    words: BTreeMap<GroupName, BTreeMap<NodeId, Stored<Signal>>>,
}

impl MetadataRecords {
    pub(super) fn put(&mut self, key: Key, value: Value, at: Revision) {
        match (key, value) {
            (Key::Group(name), Value::Group(record)) => {
                self.groups.insert(name, Stored { record, at });
            }
            (Key::Members(name), Value::Members(record)) => {
                self.members.insert(name, Stored { record, at });
            }
            (Key::Exposed(name, page), Value::Exposed(record)) => {
                self.pages.entry(name).or_default().insert(page, Stored { record, at });
            }
            (Key::GroupSignal(name, node), Value::Signal(record)) => {
                self.words.entry(name).or_default().insert(node, Stored { record, at });
            }
            _ => {}
        }
    }

    pub(super) fn delete(&mut self, key: &Key) {
        match key {
            Key::Group(name) => drop(self.groups.remove(name)),
            Key::Members(name) => drop(self.members.remove(name)),
            Key::Exposed(name, page) => {
                if let Some(pages) = self.pages.get_mut(name) {
                    pages.remove(page);
                }
            }
            Key::GroupSignal(name, node) => {
                if let Some(words) = self.words.get_mut(name) {
                    words.remove(node);
                }
            }
            _ => {}
        }
    }
}

impl Fleet {
    /// A metadata group.
    pub fn group(&self, name: &GroupName) -> Option<&Stored<Group>> {
        self.metadata.groups.get(name)
    }

    /// Every metadata group, by name.
    pub fn groups(&self) -> impl Iterator<Item = (&GroupName, &Stored<Group>)> {
        self.metadata.groups.iter()
    }

    /// Who belongs to a metadata group, where they are named one by one.
    pub fn named_members(&self, name: &GroupName) -> Option<&Stored<NamedMembers>> {
        self.metadata.members.get(name)
    }

    /// The stored pages of who is in which batch.
    pub fn exposed_pages(&self, name: &GroupName) -> impl Iterator<Item = (u32, &Stored<ExposedPage>)> {
        self.metadata.pages.get(name).into_iter().flatten().map(|(page, stored)| (*page, stored))
    }

    /// The page of an instance, of so many.
    pub fn exposed_page_of(
        &self,
        name: &GroupName,
        node: &NodeId,
        pages: u32,
    ) -> Option<&Stored<ExposedPage>> {
        self.metadata.pages.get(name)?.get(&page_of(node, pages))
    }

    /// One instance's signal for a document.
    pub fn group_word(
        &self,
        name: &GroupName,
        generation: MetadataGeneration,
        node: &NodeId,
    ) -> Option<&Stored<Signal>> {
        self.last_group_word(name, node).filter(|word| word.generation == Some(generation))
    }

    /// One instance's last signal, for any document.
    pub fn last_group_word(&self, name: &GroupName, node: &NodeId) -> Option<&Stored<Signal>> {
        self.metadata.words.get(name)?.get(node)
    }

    /// The last signal of every instance of a group, for any document.
    pub fn group_words(&self, name: &GroupName) -> impl Iterator<Item = (&NodeId, &Stored<Signal>)> {
        self.metadata.words.get(name).into_iter().flatten()
    }
}
