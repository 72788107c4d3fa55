//! The files on the disks of nodes, disable-files among them.

use super::rotation::BY_AGENT;
use super::{State, Testbed};
use crate::simulate::slot::At;
use std::path::{Path, PathBuf};

/// Where the disable-file of a service lies on each node.
pub(in crate::simulate) fn disable_file(service: &str) -> PathBuf {
    Path::new("/run").join(format!("{service}.disable"))
}

impl Testbed {
    /// Writes a file of a node.
    pub(in crate::simulate) fn write(&self, node: usize, path: &Path, bytes: Vec<u8>) -> std::io::Result<()> {
        let mut state = self.state();
        let disk = &mut state.disks[node];
        if disk.full {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        disk.files.insert(path.to_owned(), bytes);
        drop(state);
        self.look_at_node(node);
        Ok(())
    }

    /// An agent removes a file: a disable-file that a person put is not its to touch.
    pub(in crate::simulate) fn removed_by_agent(&self, node: usize, path: &Path) {
        let now = self.now();
        let mut state = self.state();
        let mut services = self.names.services.iter().enumerate();
        let Some((of, service)) = services.find(|(_, service)| *path == disable_file(service)) else {
            return;
        };
        match state.disks[node].files.get(path).map(|file| file.starts_with(BY_AGENT)) {
            Some(true) => {
                let State { slots, facts, .. } = &mut *state;
                facts.shown_by_agent((of, node), slots.get(&(of, node)), now);
            }
            Some(false) => {
                let text = format!(
                    "the agent of {} removed a person's disable-file of {service}",
                    self.names.nodes[node]
                );
                state.facts.breach(now, 6, text);
            }
            None => {}
        }
    }

    /// Removes a file of a node.
    pub(in crate::simulate) fn remove(&self, node: usize, path: &Path) -> std::io::Result<()> {
        let gone = self.state().disks[node].files.remove(path);
        self.look_at_node(node);
        gone.map(drop).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// A person removes the disable-file of an instance, where its text is one that they mean: the instance is enabled
    /// without its agent.
    pub(in crate::simulate) fn removed_by_person(&self, at: At, means: impl FnOnce(&[u8]) -> bool) {
        let file = disable_file(&self.names.services[at.0]);
        let is_meant = self.state().disks[at.1].files.get(&file).map(Vec::as_slice).is_some_and(means);
        // Something else may have removed it before.
        if is_meant {
            let now = self.now();
            self.state().facts.person_removed_file(now, at);
            drop(self.remove(at.1, &file));
        }
    }

    fn look_at_node(&self, node: usize) {
        let now = self.now();
        let mut state = self.state();
        for service in 0..self.names.services.len() {
            if state.slots.contains_key(&(service, node)) {
                self.look_at(&mut state, (service, node), now);
            }
        }
    }
}
