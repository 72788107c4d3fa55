//! A service of a simulated node that its agent runs as a process of its own.

use super::Node;
use crate::simulate::slot::{At, Running};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::path::Path;
use std::time::Duration;
use tidegate_agent::host::{Alive, ProcessError, ServiceProcess, Started, Target};
use tidegate_proto::ReleaseTag;

/// A process that the agent runs itself.
#[derive(Debug)]
pub(super) struct OwnProcess {
    pub node: Node,
    pub at: At,
}

impl OwnProcess {
    fn running(&self) -> Option<Running> {
        let now = self.node.testbed.now();
        self.node.testbed.state().slots.get(&self.at).and_then(|slot| slot.alive(now).cloned())
    }
}

impl ServiceProcess for OwnProcess {
    fn alive(&self) -> Alive {
        if self.running().is_some() { Alive::Yes } else { Alive::No }
    }

    fn tag(&self) -> Option<ReleaseTag> {
        self.running()?.tag.parse().ok()
    }

    fn start(
        &self,
        target: &Target,
        _directory: &Path,
        _fill: &dyn Fn(&str) -> String,
    ) -> Result<Started, ProcessError> {
        if let Some(running) = self.running() {
            return Err(ProcessError::Running { pids: vec![running.pid] });
        }
        let pid = self.node.testbed.start_by_agent(self.at, target.tag.as_str());
        Ok(Started { pid, ticks: 1 })
    }

    fn stop<'a>(&'a self, _started: Option<&'a Started>) -> BoxFuture<'a, Result<(), ProcessError>> {
        async {
            self.node.gate.passes().await;
            let takes = self.node.throw(|dice| dice.within(5, 300));
            let (testbed, at) = (self.node.testbed.clone(), self.at);
            let pid = testbed.pid(at);
            testbed.begin_stop(at);
            // The signal was sent: it ends, whether its agent lives or not.
            let ending = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(takes)).await;
                // A node that lost its power meanwhile may run another process already.
                if testbed.pid(at) == pid {
                    testbed.stop(at);
                }
            });
            let _ = ending.await;
            self.node.gate.passes().await;
            Ok(())
        }
        .boxed()
    }
}
