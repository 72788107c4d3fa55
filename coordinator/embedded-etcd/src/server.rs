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

/// Largest request that changes keys, in bytes: etcd's default, 1.5 MiB.
const MAX_REQUEST: usize = 3 << 19;

/// Largest message that is read at all, in bytes: etcd's own, so that a request somewhat too large is refused with its
/// words. A message is read whole before anything is checked, and an operation of two bytes takes some hundred in memory.
const MAX_MESSAGE: usize = MAX_REQUEST + (512 << 10);

/// One store behind one set of services.
#[derive(Clone)]
pub(crate) struct Api {
    engine: Arc<Engine>,
    /// Ends the streams of this set of services.
    stop: CancellationToken,
}

/// All services over a store; `stop` ends their streams.
pub(crate) fn routes(engine: Arc<Engine>, stop: CancellationToken) -> Routes {
    let api = Api { engine, stop };
    Routes::new(PbKvServer::new(api.clone()).max_decoding_message_size(MAX_MESSAGE))
        .add_service(PbWatchServer::new(api.clone()).max_decoding_message_size(MAX_MESSAGE))
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
