//! The file of a metadata group on a simulated node, and the hook that its agent runs after a change.

use super::Node;
use super::done::done;
use crate::simulate::document::{Fall, METADATA_FILE, number};
use crate::simulate::slot::Slot;
use crate::simulate::testbed::Testbed;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::io;
use std::path::Path;
use std::time::Duration;
use tidegate_agent::host::{Done, HookState, Hooks, NotRun};

/// Agents keep what they know of metadata groups in a directory of this name.
const HOME: &str = ".metadata";

/// How long the hook takes at most, in milliseconds.
const SLOWEST_MS: u64 = 3_000;

/// Notes where a node shows an earlier document than before.
pub(super) fn notice(testbed: &Testbed, node: usize, path: &Path, former: Option<&[u8]>, now: &[u8]) {
    if path != Path::new(METADATA_FILE) {
        return;
    }
    let (name, at) = (testbed.names().nodes[node].clone(), testbed.now());
    let (from, to) = (former.and_then(number), number(now));
    testbed.log(format!("{name} shows document {to:?}"));
    if let (Some(from), Some(to)) = (from, to)
        && to < from
    {
        testbed.state().facts.falls.push(Fall { at, node: name, from, to });
    }
}

/// Puts the document before the first one into the file of a node, where there is one: a falsification.
pub(in crate::simulate) fn show_former_document(testbed: &Testbed, node: usize) -> Option<()> {
    let path = Path::new(METADATA_FILE);
    let shown = testbed.state().disks[node].files.get(path).cloned()?;
    let former = br#"{"n": 0}"#;
    testbed.write(node, path, former.to_vec()).ok()?;
    notice(testbed, node, path, Some(&shown), former);
    Some(())
}

/// The hook. It works like those of the services of its node: where they fail or hang, it does.
#[derive(Debug)]
pub(super) struct DocumentHook {
    node: Node,
}

impl DocumentHook {
    /// Whether `home` is that of a metadata group.
    pub(super) fn is_at(home: &Path) -> bool {
        home.parent().and_then(Path::file_name).is_some_and(|name| name == HOME)
    }

    /// The hook of a node.
    pub(super) fn of(node: &Node) -> Self {
        Self { node: node.clone() }
    }

    async fn run_alone(&self, argv: &[String], limit: Duration) -> Result<Done, NotRun> {
        self.node.gate.passes().await;
        let takes = Duration::from_millis(self.node.throw(|dice| dice.within(20, SLOWEST_MS)));
        let now = self.node.testbed.now();
        let (hangs, fails) = {
            let state = self.node.testbed.state();
            let until = |of: fn(&Slot) -> u64| {
                state.slots.iter().any(|((_, node), slot)| *node == self.node.node && now < of(slot))
            };
            (until(|slot| slot.hangs_until), until(|slot| slot.fails_until))
        };
        tokio::time::sleep(if hangs { limit } else { takes.min(limit) }).await;
        self.node.gate.passes().await;
        if hangs {
            return Err(NotRun::Late { program: argv.first().cloned().unwrap_or_default(), limit });
        }
        Ok(done(!fails, "", if fails { "the hook failed" } else { "" }))
    }
}

impl Hooks for DocumentHook {
    fn look(&self, _hook: &str) -> HookState {
        HookState::NotBegun
    }

    fn run<'a>(
        &'a self,
        _hook: &'a str,
        argv: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Done, NotRun>> {
        self.run_alone(argv, limit).boxed()
    }

    fn end(&self) -> BoxFuture<'_, io::Result<()>> {
        std::future::ready(Ok(())).boxed()
    }
}
