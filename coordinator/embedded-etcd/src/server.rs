//! The doors: etcd's gRPC services over one open store. Each method reads its request, asks the store, answers.

mod absent;
mod cluster;
mod kv;
mod lease;
mod maintenance;
mod watch;

use std::sync::Arc;

use etcd_client::proto::{
    PbClusterServer, PbKvServer, PbLeaseServer, PbMaintenanceServer, PbResponseHeader, PbWatchServer,
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use self::absent::{Absent, Auth, Election, Lock};
use crate::engine::Engine;

/// Largest request that changes keys, in bytes, where no other limit is given: etcd's default, 1.5 MiB.
pub(crate) const MAX_REQUEST: usize = 3 << 19;

/// How much larger than the largest request a message may be that is read at all, in bytes: etcd's own, so that a request
/// somewhat too large is refused with its words. A message is read whole before anything is checked, and an operation of
/// two bytes takes some hundred in memory.
const MORE_IN_A_MESSAGE: usize = 512 << 10;

/// One store behind one set of services.
#[derive(Clone)]
pub(crate) struct Api {
    engine: Arc<Engine>,
    /// Largest request that changes keys, in bytes.
    max_request: usize,
    /// Ends the streams of this set of services.
    stop: CancellationToken,
}

/// All services over a store, which take requests of at most `max_request` bytes; `stop` ends their streams.
pub(crate) fn routes(engine: Arc<Engine>, max_request: usize, stop: CancellationToken) -> Routes {
    let api = Api { engine, max_request, stop };
    let max_message = max_request.saturating_add(MORE_IN_A_MESSAGE);
    Routes::new(PbKvServer::new(api.clone()).max_decoding_message_size(max_message))
        .add_service(PbWatchServer::new(api.clone()).max_decoding_message_size(max_message))
        .add_service(PbLeaseServer::new(api.clone()))
        .add_service(PbClusterServer::new(api.clone()))
        .add_service(PbMaintenanceServer::new(api))
        .add_service(Absent::<Auth>::default())
        .add_service(Absent::<Lock>::default())
        .add_service(Absent::<Election>::default())
        .prepare()
}

impl Api {
    /// Gives an inner header, which knows only its revision, this store's identity.
    fn sign(&self, header: &mut Option<PbResponseHeader>) {
        let revision = header.as_ref().map_or(0, |header| header.revision);
        *header = Some(self.engine.header(revision));
    }
}
