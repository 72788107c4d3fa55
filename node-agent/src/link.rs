//! The agent's connection to the store: one watch and one lease for all of its services. While it is lost, the last
//! known state is kept. Only this module, `admit`, `report`, `metadata` and `task` use the store; `staging` takes
//! `process::spawn` from its crate.

pub mod inputs;
pub mod lease;

use crate::config::Node;
use inputs::Inputs;
use lease::HangingProbes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::Chain;
use tidegate_proto::ServiceName;
use tidegate_store::process::spawn;
use tidegate_store::{Lease, LeaseState, Store, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A lease, and which one it is: counted from 1 by this process.
#[derive(Clone)]
pub struct Leased {
    pub epoch: u64,
    pub lease: Arc<Lease>,
}

/// The connection as the services of the node see it. Cheap to clone.
#[derive(Clone)]
pub struct Link {
    store: watch::Receiver<Option<Store>>,
    lease: watch::Receiver<Option<Leased>>,
    inputs: BTreeMap<ServiceName, watch::Receiver<Inputs>>,
    hanging: Arc<HangingProbes>,
}

impl Link {
    /// Connects in the background, until `cancel`.
    pub fn open(node: &Node, cancel: &CancellationToken) -> Self {
        Self::begin(node, cancel, None)
    }

    /// The same over a store that is at hand.
    pub fn over(store: Store, node: &Node, cancel: &CancellationToken) -> Self {
        Self::begin(node, cancel, Some(store))
    }

    fn begin(node: &Node, cancel: &CancellationToken, at_hand: Option<Store>) -> Self {
        let (store_out, store) = watch::channel(None);
        let (lease_out, lease) = watch::channel(None);
        let hanging = Arc::new(HangingProbes::default());
        let mut inputs = BTreeMap::new();
        let mut outputs = BTreeMap::new();
        for name in node.services.keys() {
            let (out, input) = watch::channel(Inputs::default());
            inputs.insert(name.clone(), input);
            outputs.insert(name.clone(), out);
        }
        let (ttl, name, cancel, probes) =
            (node.lease_ttl, node.name.clone(), cancel.clone(), hanging.clone());
        let (endpoints, prefix) = (node.store.clone(), node.prefix.clone());
        spawn(async move {
            let found = match at_hand {
                Some(store) => Some(store),
                None => connect(&endpoints, &prefix, &outputs, &cancel).await,
            };
            let Some(store) = found else { return };
            tracing::info!(endpoints = store.endpoints(), "connected to the store");
            let _ = store_out.send(Some(store.clone()));
            tokio::join!(
                inputs::follow(&store, &name, &outputs, &cancel),
                lease::keep(&store, ttl, &probes, &lease_out, &cancel),
            );
        });
        Self { store, lease, inputs, hanging }
    }

    /// The store, once it was reached.
    pub fn store(&self) -> Option<Store> {
        self.store.borrow().clone()
    }

    /// The store, as soon as it is reached; none = cancelled before.
    pub async fn connected(&self, cancel: &CancellationToken) -> Option<Store> {
        let mut store = self.store.clone();
        tokio::select! {
            () = cancel.cancelled() => None,
            found = store.wait_for(Option::is_some) => found.ok().and_then(|store| store.clone()),
        }
    }

    /// The lease, once it was granted.
    pub fn lease(&self) -> Option<Leased> {
        self.lease.borrow().clone()
    }

    /// Whether the lease may have ended, by the clock: an agent that was stopped for longer than its TTL learns it here first.
    pub fn is_lease_overdue(&self) -> bool {
        self.lease().is_none_or(|leased| leased.lease.state() != LeaseState::Held)
    }

    /// What the store wants of a service, and what it has of it.
    pub fn inputs(&self, service: &ServiceName) -> Option<watch::Receiver<Inputs>> {
        self.inputs.get(service).cloned()
    }

    /// A receiver of every new lease.
    pub fn leases(&self) -> watch::Receiver<Option<Leased>> {
        self.lease.clone()
    }

    /// Notes whether the probe of a service hangs: while one does, no keep-alive is sent.
    pub fn hangs(&self, service: &ServiceName, hangs: bool) {
        self.hanging.note(service, hangs, self.lease.borrow().as_ref());
    }
}

async fn connect(
    endpoints: &tidegate_store::Endpoints,
    prefix: &tidegate_proto::Prefix,
    outputs: &BTreeMap<ServiceName, watch::Sender<Inputs>>,
    cancel: &CancellationToken,
) -> Option<Store> {
    let mut logged = None;
    loop {
        let attempt = tokio::select! {
            () = cancel.cancelled() => return None,
            attempt = Store::connect(endpoints, prefix.clone()) => attempt,
        };
        match attempt {
            Ok(store) => return Some(store),
            Err(error) => {
                inputs::set_away(outputs, true);
                log_once(&mut logged, &error);
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return None,
            () = tokio::time::sleep(RETRY_AFTER) => {}
        }
    }
}

/// Logs why the store is away, once for as long as the reason stays the same.
fn log_once(logged: &mut Option<String>, error: &StoreError) {
    let text = format!("{:#}", Chain(error));
    if logged.as_ref() != Some(&text) {
        tracing::warn!(error = %text, "the store is away; services go on as they are");
        *logged = Some(text);
    }
}
