//! What servers and operations need: the store, the view of it, the leadership, the metrics. Made once by the daemon.

use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::report::Mirror;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_planner::Reason;
use tidegate_store::Reader;
use tokio::sync::watch;

/// What doors and operations need.
#[derive(Clone)]
pub struct Context {
    /// The one connection to the store. It writes nothing: what the leader writes, its leadership does.
    pub store: Reader,
    /// What the store shows.
    pub mirror: Arc<Mirror>,
    /// The leadership, while this coordinator leads.
    pub leadership: watch::Receiver<Option<Arc<Leadership>>>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Directory below which migrations lie.
    pub migrations: Option<PathBuf>,
    /// Why this coordinator does not campaign, where it does not.
    pub hindrance: watch::Sender<Option<String>>,
    /// URL under which this coordinator is reached by the others.
    pub address: Arc<str>,
    /// Settings of every compute, below all others: from this coordinator's configuration.
    pub static_settings: Arc<BTreeMap<String, String>>,
    /// Held over each command that concerns a release stream.
    pub releases: Arc<tokio::sync::Mutex<()>>,
}

impl Context {
    /// The leadership, if this coordinator leads now.
    pub fn led_here(&self) -> Option<Arc<Leadership>> {
        self.leadership.borrow().clone().filter(|leadership| leadership.is_held())
    }

    /// The contradiction of the store, where there is one.
    fn unreconciled(&self) -> Option<Reason> {
        let databases =
            self.led_here().map(|leadership| leadership.schemas().borrow().clone()).unwrap_or_default();
        tidegate_planner::gate::unreconciled(&self.mirror.view().fleet, &databases)
    }

    /// Why nothing acts, where nothing does.
    pub fn trouble(&self) -> Option<String> {
        if let Some(trouble) = self.mirror.trouble() {
            return Some(trouble.to_string());
        }
        let leader = self.mirror.view().leader.as_ref().map(|leader| leader.address.clone());
        let hindrance = self.hindrance.borrow().clone();
        // Only a leader reconciles a store, so what keeps this coordinator from leading comes first.
        if let (None, Some(why)) = (&leader, hindrance) {
            return Some(format!(
                "no coordinator leads, and this one does not campaign for leadership: {why}"
            ));
        }
        if let Some(reason) = self.unreconciled() {
            return Some(format!("{reason} (`tidegate fleet reconcile`)"));
        }
        let Some(leader) = leader else {
            return Some(
                "no coordinator leads at the moment; one of them takes over within the leader's TTL"
                    .to_owned(),
            );
        };
        let lapsed = *leader == *self.address && self.led_here().is_none();
        lapsed.then(|| {
            "the store names this coordinator as the leader, and its lease was not confirmed in time: it does not act. \
             Once the store answers, it campaigns again"
                .to_owned()
        })
    }
}
