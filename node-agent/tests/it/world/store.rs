//! A store over TCP, and what a coordinator would write into it.

use super::{World, wait_for};
use std::net::SocketAddr;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::record::directive::{Directive, Disposition, Drain, Evidence, HealthTimes, OnDeadline};
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::report::{Report, Step};
use tidegate_proto::record::window::{BY_RELEASES, Window};
use tidegate_proto::{
    Commit, Digest, Key, NodeId, Prefix, Release, Revision, ServiceName, ServiceVersion, Span, Value,
};
use tidegate_store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) struct TestStore {
    pub address: SocketAddr,
    pub embedded: Embedded,
    pub store: Store,
    serving: std::sync::Mutex<CancellationToken>,
}

pub(crate) fn service() -> ServiceName {
    "pantry".parse().unwrap()
}

pub(crate) fn node() -> NodeId {
    "n1".parse().unwrap()
}

pub(crate) fn version(number: i64) -> ServiceVersion {
    ServiceVersion::new(number).unwrap()
}

pub(crate) fn report_key() -> Key {
    Key::Report(service(), node())
}

impl TestStore {
    pub(crate) async fn start() -> Self {
        let embedded = Embedded::in_memory();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let store = Store::over(embedded.client().await.unwrap(), Prefix::default());
        let this =
            Self { address, embedded, store, serving: std::sync::Mutex::new(CancellationToken::new()) };
        this.serve(listener);
        this
    }

    fn serve(&self, listener: TcpListener) {
        let stop = CancellationToken::new();
        *self.serving.lock().unwrap() = stop.clone();
        let embedded = self.embedded.clone();
        tokio::spawn(async move { embedded.serve(listener, stop).await });
    }

    /// The store goes away from agents; what is in it stays.
    pub(crate) fn leave(&self) {
        self.serving.lock().unwrap().cancel();
    }

    /// It comes back at the same address.
    pub(crate) async fn come_back(&self) {
        for _ in 0..500 {
            match TcpListener::bind(self.address).await {
                Ok(listener) => return self.serve(listener),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
        panic!("the store's address did not become free");
    }

    pub(crate) async fn put(&self, key: Key, value: impl Into<Value>) -> Revision {
        self.store.commit(&Commit::new().put(key, value)).await.unwrap().revision
    }

    pub(crate) async fn delete(&self, key: Key) {
        self.store.commit(&Commit::new().delete(key)).await.unwrap();
    }

    pub(crate) async fn set_window(&self, floor: i64, ceiling: i64) -> Revision {
        let window = Window {
            floor: version(floor),
            ceiling: version(ceiling),
            set_by: "u1".parse().unwrap(),
            contracted: None,
        };
        self.put(Key::Window(service()), window).await
    }

    /// The same, after schemas were contracted that require `contracted`.
    pub(crate) async fn set_window_after_contract(&self, floor: i64, contracted: i64) -> Revision {
        let (floor, contracted) = (version(floor), Some(version(contracted)));
        let window = Window { floor, ceiling: floor, set_by: "u1".parse().unwrap(), contracted };
        self.put(Key::Window(service()), window).await
    }

    /// The floor follows what compute releases need, and nothing was contracted.
    pub(crate) async fn set_followed_floor(&self, floor: i64) -> Revision {
        let window = Window {
            floor: version(floor),
            contracted: Some(version(1)),
            ..Window::open(BY_RELEASES.parse().unwrap())
        };
        self.put(Key::Window(service()), window).await
    }

    pub(crate) async fn direct(&self, directive: Directive) -> Revision {
        self.put(Key::Directive(service(), node()), directive).await
    }

    /// The report, where there is one.
    pub(crate) async fn report(&self) -> Option<Report> {
        match self.store.get(&report_key()).await.unwrap()?.value.unwrap() {
            Value::Report(record) => Some(record.body),
            other => panic!("no report: {other:?}"),
        }
    }

    /// The inventory record with its mod_revision.
    pub(crate) async fn inventory(&self) -> Option<(Revision, Inventory)> {
        let entry = self.store.get(&Key::Inventory(service(), node())).await.unwrap()?;
        match entry.value.unwrap() {
            Value::Inventory(record) => Some((entry.mod_revision, record.body)),
            other => panic!("no inventory: {other:?}"),
        }
    }

    /// The revision of the whole store.
    pub(crate) async fn revision(&self) -> Revision {
        self.store.get_many(&[report_key()]).await.unwrap().revision
    }

    pub(crate) async fn wait_for_report(
        &self,
        world: &World,
        what: &str,
        holds: impl Fn(&Report) -> bool,
    ) -> Report {
        let seen =
            wait_for(what, world, || self.report(), |report| report.as_ref().is_some_and(&holds)).await;
        seen.unwrap()
    }

    pub(crate) async fn wait_for_serving(&self, world: &World, version: i64, generation: Revision) -> Report {
        self.wait_for_report(world, &format!("serving {version} under {generation}"), |r| {
            r.step == Step::Serving
                && r.version.map(|v| v.get()) == Some(version as u32)
                && r.generation >= generation
        })
        .await
    }
}

/// The release that carries `version`, as a spec would name it.
pub(crate) fn release(world: &World, version: u32) -> Release {
    Release {
        tag: format!("pantry-{version}").parse().unwrap(),
        sha256: Digest::of(&std::fs::read(world.artifact(version)).unwrap()),
        version: self::version(version.into()),
    }
}

/// A directive as a coordinator writes it, with short times.
pub(crate) fn directive(disposition: Disposition, releases: Vec<Release>) -> Directive {
    Directive {
        upgrade: "u1".parse().unwrap(),
        disposition,
        releases,
        drain: Drain {
            evidence: Evidence::Haproxy,
            settle: Span::from_millis(200),
            deadline: Span::from_secs(60),
            on_deadline: OnDeadline::Proceed,
        },
        health: HealthTimes {
            min_healthy_time: Span::from_millis(100),
            healthy_deadline: Span::from_secs(60),
            ..HealthTimes::default()
        },
        term: "term-1".parse().unwrap(),
        declared_stopped: false,
        presumes_out: false,
        after_decline: false,
    }
}
