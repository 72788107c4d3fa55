//! Coordinators in process, over an embedded store in memory.

use crate::herd::{Herd, release};
use std::sync::Arc;
use std::time::Duration;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::leader_loop;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::metrics::Metrics;
use tidegate_coordinator::operation;
use tidegate_coordinator::report::Mirror;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::wire::v1::{
    StartUpgradeReply, StartUpgradeRequest, UpgradeStatusReply, UpgradeStatusRequest,
};
use tidegate_proto::{Prefix, UpgradeId};
use tidegate_store::{Reader, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take that is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// One coordinator.
pub(crate) struct Coordinator {
    pub context: Context,
    cancel: CancellationToken,
    leader_loop: JoinHandle<()>,
}

impl Coordinator {
    pub(crate) async fn start(embedded: &Embedded, name: &str) -> Self {
        Self::over(store(embedded).await, name)
    }

    /// Over a store that is reached in some other way.
    pub(crate) fn over(store: Store, name: &str) -> Self {
        Self::at(store, &format!("http://{name}.invalid:7400"))
    }

    /// That others reach at this URL.
    pub(crate) fn at(store: Store, address: &str) -> Self {
        let mirror = Mirror::new();
        let (leaderships, leadership) = watch::channel(None);
        let cancel = CancellationToken::new();
        tokio::spawn(Arc::clone(&mirror).follow(Reader::clone(&store), cancel.clone()));
        let context = context(Reader::clone(&store), mirror, leadership, address);
        let leader_loop = tokio::spawn(leader_loop::run(
            context.clone(),
            leaderships,
            Duration::from_secs(5),
            cancel.clone(),
        ));
        Self { context, cancel, leader_loop }
    }

    /// Waits until it leads.
    pub(crate) async fn leads(&self) {
        let mut leadership = self.context.leadership.clone();
        let led = tokio::time::timeout(LIMIT, leadership.wait_for(Option::is_some)).await;
        led.expect("it leads within the limit").unwrap();
    }

    /// Ends it as SIGTERM would: the action under way is finished, and it resigns.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.leader_loop.await.unwrap();
    }

    /// Ends it as a crash would: whatever it still has under way must find its store out of reach.
    pub(crate) fn kill(self) {
        self.leader_loop.abort();
        self.cancel.cancel();
    }

    pub(crate) async fn start_upgrade(
        &self,
        spec: &str,
        id: &str,
    ) -> Result<StartUpgradeReply, operation::OperationError> {
        let leadership = self.context.led_here().expect("it leads");
        let asked = StartUpgradeRequest {
            spec: spec.to_owned(),
            id: id.to_owned(),
            who: "op".to_owned(),
            dry_run: false,
        };
        operation::start_upgrade(&self.context, &leadership, asked).await
    }

    pub(crate) async fn status(&self, id: &str) -> UpgradeStatusReply {
        let asked = UpgradeStatusRequest { id: id.to_owned(), max_instances: 0 };
        operation::upgrade_status(&self.context, &asked).await.unwrap()
    }

    /// Waits until an upgrade is over, for a whole fleet's time; asks for nothing but its phase.
    pub(crate) async fn is_over_within(&self, id: &str, limit: Duration) -> String {
        let id: UpgradeId = id.parse().unwrap();
        let mut sync_status = self.context.mirror.sync_status();
        let phase = || {
            let view = self.context.mirror.view();
            view.fleet.upgrade(&id).map(|upgrade| (upgrade.phase.is_over(), format!("{:?}", upgrade.phase)))
        };
        let over = async {
            loop {
                if let Some((true, phase)) = phase() {
                    return phase;
                }
                sync_status.changed().await.unwrap();
            }
        };
        let Ok(phase) = tokio::time::timeout(limit, over).await else {
            panic!("upgrade {id} is not over in time; it is {:#?}", self.status(id.as_str()).await)
        };
        phase
    }

    /// Waits until an upgrade is in this phase.
    pub(crate) async fn reaches(&self, id: &str, phase: &str) -> UpgradeStatusReply {
        let mut sync_status = self.context.mirror.sync_status();
        let there = async {
            loop {
                let status = self.status(id).await;
                if status.upgrade.as_ref().unwrap().phase == phase {
                    return status;
                }
                sync_status.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(LIMIT, there).await {
            Ok(status) => status,
            Err(_) => {
                panic!("upgrade {id} did not reach {phase} in time; it is {:#?}", self.status(id).await)
            }
        }
    }
}

/// The context of a coordinator at this URL.
pub(crate) fn context(
    store: Reader,
    mirror: Arc<Mirror>,
    leadership: watch::Receiver<Option<Arc<Leadership>>>,
    address: &str,
) -> Context {
    Context {
        store,
        mirror,
        leadership,
        metrics: Arc::new(Metrics::new()),
        migrations: None,
        hindrance: watch::Sender::default(),
        address: address.into(),
        static_settings: Arc::default(),
        releases: Arc::default(),
    }
}

/// A connection to an embedded store.
pub(crate) async fn store(embedded: &Embedded) -> Store {
    Store::over(embedded.client().await.unwrap(), Prefix::default())
}

/// One coordinator that leads, and a herd at version 1.
pub(crate) async fn world(count: usize) -> (Embedded, Coordinator, Herd) {
    let embedded = Embedded::in_memory();
    let herd = Herd::at_version_1(store(&embedded).await, count).await;
    let coordinator = Coordinator::start(&embedded, "one").await;
    coordinator.leads().await;
    (embedded, coordinator, herd)
}

/// A spec from 1 to 2.
pub(crate) fn spec(more: &str) -> String {
    format!(
        "service: pantry-api\nfrom: 1\nto: 2\nrelease: {{tag: pantry-2.0.0, sha256: {}}}\n{more}\n",
        release(2).sha256
    )
}
