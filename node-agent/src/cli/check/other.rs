//! Finds another agent whose disable-file this configuration names: by a configuration beside this one or beside the
//! file, or by a state directory above the file.

use super::findings::parent;
use crate::config::Service;
use crate::config::settings::Node;
use crate::small;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tidegate_proto::{NodeId, ServiceName};

/// The largest configuration that is read, in bytes.
const LARGEST: usize = 1024 * 1024;

/// How many files of a directory are looked at.
const MOST: usize = 1000;

/// What another agent's configuration says of its files.
#[derive(Debug, Deserialize)]
struct Other {
    node: NodeId,
    #[serde(default)]
    service: BTreeMap<ServiceName, Files>,
}

#[derive(Debug, Deserialize)]
struct Files {
    disable_file: PathBuf,
}

/// Why the disable-file is another agent's; none where nothing shows that. `config`: the file that `node` was read from.
pub(super) fn whose(node: &Node, config: &Path, service: &Service) -> Option<String> {
    if let Some((by, other)) = configured(node, config, service) {
        return Some(format!("is that of node {other}, by {}", by.display()));
    }
    let state = state_of_another(node, service)?;
    Some(format!("is in {}, the state directory of another agent", state.display()))
}

fn configured(node: &Node, config: &Path, service: &Service) -> Option<(PathBuf, NodeId)> {
    let own = resolved(&service.disable_file);
    let near = [parent(config), parent(&service.disable_file)];
    let near: BTreeSet<PathBuf> =
        near.into_iter().filter_map(|directory| directory.canonicalize().ok()).collect();
    let entries = near.iter().filter_map(|directory| std::fs::read_dir(directory).ok());
    let files =
        entries.flat_map(|entries| entries.take(MOST).filter_map(Result::ok)).map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).find_map(|path| {
        let text = String::from_utf8(small::read(&path, LARGEST).ok()?).ok()?;
        // What is no agent's configuration says nothing.
        let other: Other = toml::from_str(&text).ok()?;
        let same = other.service.values().any(|files| resolved(&files.disable_file) == own);
        (same && other.node != node.name).then_some((path, other.node))
    })
}

/// A path with the links of its directory followed, where that is there.
fn resolved(file: &Path) -> PathBuf {
    match (parent(file).canonicalize(), file.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => file.to_owned(),
    }
}

fn state_of_another(node: &Node, service: &Service) -> Option<PathBuf> {
    let own = node.state_dir.canonicalize().ok();
    let directory = parent(&service.disable_file).canonicalize().ok()?;
    let is_state = |path: &&Path| path.join("agent.lock").exists() && path.join("nonce").exists();
    let found = directory.ancestors().find(is_state)?;
    (Some(found) != own.as_deref()).then(|| found.to_owned())
}
