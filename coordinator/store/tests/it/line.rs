//! A line in process between a client and its store, which can lead to another store from one call to the next.

use etcd_client::{Channel, Client};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::Prefix;
use tidegate_store::Store;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service};

/// Where the next stream of a watch is opened.
pub(crate) enum Opens {
    /// At a store that takes the place of the one before.
    Replaced(Embedded),
    /// At a member that lags; all other calls go on as before.
    Lagging(Embedded),
}

struct Stores {
    now: Embedded,
    opens: Option<Opens>,
    /// How many streams were opened.
    streams: usize,
}

/// A line in process.
#[derive(Clone)]
pub(crate) struct Line(Arc<Mutex<Stores>>);

impl Line {
    /// A line to a store, and a connection over it.
    pub(crate) async fn to(now: &Embedded) -> (Self, Store) {
        let line = Self(Arc::new(Mutex::new(Stores { now: now.clone(), opens: None, streams: 0 })));
        let channel = Channel::Custom(BoxCloneSyncService::new(line.clone()));
        let client = Client::from_channel(channel, None).await.unwrap();
        (line, Store::over(client, Prefix::default()))
    }

    pub(crate) fn leads_to(&self, now: Embedded, opens: Opens) {
        let mut stores = self.0.lock().unwrap();
        (stores.now, stores.opens) = (now, Some(opens));
    }

    /// Calls and new streams go to this store from now on; streams that are open go on where they are.
    pub(crate) fn goes_to(&self, now: &Embedded) {
        self.0.lock().unwrap().now = now.clone();
    }

    /// Waits until a stream was opened as it was set.
    pub(crate) async fn is_opened(&self) {
        self.until("a stream is opened", |stores| stores.opens.is_none()).await;
    }

    /// Waits until so many streams were opened.
    pub(crate) async fn has_opened(&self, streams: usize) {
        self.until("streams are opened", |stores| stores.streams >= streams).await;
    }

    async fn until(&self, what: &str, holds: impl Fn(&Stores) -> bool) {
        let looks = async {
            while !holds(&self.0.lock().unwrap()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(
            tokio::time::timeout(Duration::from_secs(30), looks).await.is_ok(),
            "not within 30 s: {what}"
        );
    }

    fn store_for(&self, path: &str) -> Embedded {
        let mut stores = self.0.lock().unwrap();
        if !path.ends_with("/Watch") {
            return stores.now.clone();
        }
        stores.streams += 1;
        let opens = stores.opens.take();
        match opens {
            None => {}
            Some(Opens::Lagging(member)) => return member,
            Some(Opens::Replaced(store)) => stores.now = store,
        }
        stores.now.clone()
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Channel::Custom(mut service) = self.store_for(request.uri().path()).channel() else {
            unreachable!("the embedded store is reached in process")
        };
        Box::pin(async move { service.call(request).await })
    }
}
