//! Applies a document: writes the file, then runs the hook.

use super::kept::Outcome;
use crate::config::settings::MetadataGroup;
use crate::host::{HookSet, Hooks, Host, NotRun, briefly};
use serde_json::Value as Json;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tidegate_proto::{Chain, MetadataGeneration, NodeId};

/// Kinds of failure in a signal.
const FILE: &str = "file";
const HOOK: &str = "hook";
const HOOK_TIMEOUT: &str = "hook-timeout";

#[derive(Debug)]
pub(super) struct Apply {
    node: NodeId,
    group: MetadataGroup,
    host: Arc<dyn Host>,
    hooks: Arc<dyn Hooks>,
}

/// The document as the file holds it: for people too.
pub(super) fn text(document: &Json) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(document).unwrap_or_default();
    text.push(b'\n');
    text
}

impl Apply {
    /// For this group of this node; `home` is where its lock lies.
    pub(super) fn new(host: &Arc<dyn Host>, node: &NodeId, group: &MetadataGroup, home: &Path) -> Self {
        let hooks = host.hooks(home, HookSet::Moving);
        Self { node: node.clone(), group: group.clone(), host: Arc::clone(host), hooks }
    }

    /// Writes the file and runs the hook. `begins` is remembered before.
    pub(super) async fn document(
        &self,
        generation: MetadataGeneration,
        document: &[u8],
        begins: impl FnOnce() -> io::Result<()>,
    ) -> Outcome {
        let written = briefly(|| begins().and_then(|()| self.host.replace(&self.group.file, document)));
        match written {
            Ok(()) => self.hook(&generation.to_string()).await,
            Err(error) => failed(FILE, format!("could not write {}: {error}", self.group.file.display())),
        }
    }

    /// Whether anything is at the place of the file. What cannot be read is there.
    pub(super) fn is_there(&self) -> bool {
        let found = briefly(|| self.host.read(&self.group.file, 0));
        !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// There is none any more: the file goes, and the hook is run with generation 0.
    pub(super) async fn nothing(&self) -> Outcome {
        match briefly(|| self.host.erase(&self.group.file)) {
            Ok(()) => self.hook("0").await,
            Err(error) => failed(FILE, format!("could not remove {}: {error}", self.group.file.display())),
        }
    }

    async fn hook(&self, generation: &str) -> Outcome {
        let Some(argv) = &self.group.hook else { return Outcome::Good };
        let argv: Vec<String> = argv.iter().map(|word| self.filled(word, generation)).collect();
        match self.hooks.run("metadata", &argv, self.group.timeout).await {
            Ok(done) if done.success => Outcome::Good,
            Ok(done) => failed(HOOK, done.words()),
            Err(error @ NotRun::Late { .. }) => failed(HOOK_TIMEOUT, Chain(&error).to_string()),
            Err(error) => failed(HOOK, Chain(&error).to_string()),
        }
    }

    fn filled(&self, word: &str, generation: &str) -> String {
        word.replace("{file}", &self.group.file.to_string_lossy())
            .replace("{group}", self.group.name.as_str())
            .replace("{generation}", generation)
            .replace("{node}", self.node.as_str())
    }
}

fn failed(kind: &str, why: String) -> Outcome {
    Outcome::Failed { kind: kind.to_owned(), why: why.chars().take(500).collect() }
}
