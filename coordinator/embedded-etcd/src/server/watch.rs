//! The watch stream: one task for each.

use etcd_client::proto::{PbWatchRequest, PbWatchResponse, PbWatchService};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::Api;
use crate::watch::stream;

/// Messages of one stream that may wait for their client; later events stay in the history until it reads.
const WAITING_MESSAGES: usize = 8;

#[async_trait]
impl PbWatchService for Api {
    type WatchStream = ReceiverStream<Result<PbWatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<PbWatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (outbox, messages) = mpsc::channel(WAITING_MESSAGES);
        tokio::spawn(stream::run(self.engine.clone(), request.into_inner(), outbox, self.stop.clone()));
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
