//! The hooks of a simulated node.

use super::Node;
use super::done::done;
use crate::simulate::slot::{At, Slot};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::io;
use std::time::Duration;
use tidegate_agent::host::{Done, HookState, Hooks, NotRun};
use tokio::sync::oneshot;

/// The hooks of one set. A hook goes on when its agent is killed.
#[derive(Debug)]
pub(super) struct SetOfHooks {
    pub node: Node,
    pub at: At,
    pub set: &'static str,
}

impl SetOfHooks {
    fn runs(&self) -> bool {
        self.node.testbed.state().slots.get(&self.at).is_some_and(|slot| slot.hooks.contains_key(self.set))
    }

    fn kill(&self) {
        let (testbed, at) = (&self.node.testbed, self.at);
        let id = testbed.state().slots.get(&at).and_then(|slot| slot.hooks.get(self.set)).map(|run| run.id);
        if let Some(id) = id {
            testbed.log(format!("{}: a hook is killed", testbed.names().instance(at)));
            testbed.end_hook(at, self.set, id);
        }
    }

    async fn run_alone(&self, hook: &str, argv: &[String], limit: Duration) -> Result<Done, NotRun> {
        self.node.gate.passes().await;
        let end = tokio::time::Instant::now() + limit;
        while self.runs() {
            if tokio::time::Instant::now() >= end {
                self.kill();
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.node.gate.passes().await;
        }
        let (testbed, at, set) = (self.node.testbed.clone(), self.at, self.set);
        let tag = argv.get(1).cloned().unwrap_or_default();
        let now = testbed.now();
        let (hangs, fails, lies, failure_output) = {
            let state = testbed.state();
            let until = |of: fn(&Slot) -> u64| state.slots.get(&at).is_some_and(|slot| now < of(slot));
            let fails = until(|s| s.fails_until);
            let failure_output = if fails { state.failure_output.clone() } else { String::new() };
            (until(|s| s.hangs_until), fails, until(|s| s.lies_until), failure_output)
        };
        let id = testbed.begin_hook(at, set, hook);
        if hook == "stop" {
            testbed.begin_stop(at);
        }
        let takes = self.node.throw(|dice| dice.within(20, 1200));
        let (out, answer) = oneshot::channel();
        let hook = hook.to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            if hangs {
                std::future::pending::<()>().await;
            }
            if !testbed.end_hook(at, set, id) {
                return;
            }
            if !fails && !lies {
                match hook.as_str() {
                    "start" => drop(testbed.start_by_agent(at, &tag)),
                    "stop" => testbed.stop(at),
                    "stage" => drop(testbed.change(at, |slot, _| slot.staged.insert(tag.clone()))),
                    "remove" => drop(testbed.change(at, |slot, _| slot.staged.remove(&tag))),
                    _ => {}
                }
            }
            let _ = out.send(done(!fails, "", &failure_output));
        });
        let ended = tokio::time::timeout(limit, answer).await;
        self.node.gate.passes().await;
        match ended {
            Ok(Ok(done)) => Ok(done),
            _ => {
                self.kill();
                Err(NotRun::Late { program: argv.first().cloned().unwrap_or_default(), limit })
            }
        }
    }
}

impl Hooks for SetOfHooks {
    fn look(&self, hook: &str) -> HookState {
        let state = self.node.testbed.state();
        let Some(slot) = state.slots.get(&self.at) else { return HookState::NotBegun };
        match (slot.hooks.get(self.set), slot.ended.get(self.set)) {
            _ if slot.booted.contains(self.set) => HookState::EarlierBoot,
            (Some(run), _) if run.name == hook => HookState::Runs,
            (Some(_), _) => HookState::OtherRuns,
            (None, Some(name)) if name == hook => HookState::Ended,
            _ => HookState::NotBegun,
        }
    }

    fn run<'a>(
        &'a self,
        hook: &'a str,
        argv: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Done, NotRun>> {
        self.run_alone(hook, argv, limit).boxed()
    }

    fn end(&self) -> BoxFuture<'_, io::Result<()>> {
        async {
            self.node.gate.passes().await;
            self.kill();
            Ok(())
        }
        .boxed()
    }
}
