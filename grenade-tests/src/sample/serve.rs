//! One running instance: binds, becomes ready when its database answers, and ends in good order.
//!
//! Order at the end: no new connections, then every request in flight is answered, then the database's connections
//! close, then exit 0.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::Context;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::serve::ListenerExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::sample::database::{Database, DatabaseUrl};
use crate::sample::edition::Edition;
use crate::sample::http::{self, Catalogue};
use crate::sample::in_flight::{self, InFlight};
use crate::sample::ops::{self, Ops, Readiness};
use crate::sample::start::record_start;
use crate::sample::store::Store;

/// How often a database that does not answer yet is asked again.
const READY_RETRY: Duration = Duration::from_millis(100);

/// How an instance is run; all of it was parsed at the border.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The catalogue's database.
    pub database: DatabaseUrl,
    /// The instance's node.
    pub node: String,
    /// The file whose presence takes the instance out of rotation.
    pub disable_file: PathBuf,
    /// How long a start takes before it can become ready.
    pub start_delay: Duration,
    /// From which instance on this release is broken, and the ledger that counts them.
    pub broken: Option<(usize, PathBuf)>,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When the address cannot be bound, the start ledger cannot be kept or the database's options are malformed. A
/// database that does not answer is no error: the instance says that it is not ready and asks again.
pub async fn serve(edition: &'static Edition, options: ServeOptions) -> anyhow::Result<()> {
    let fault = match &options.broken {
        None => None,
        Some((from, ledger)) => {
            let ordinal = record_start(ledger, &options.node)?;
            (ordinal >= *from).then(|| format!("{} is broken from instance {from} on", edition.release))
        }
    };
    let session = format!("pantry-api/{}/{}", edition.version, options.node);
    let store = Store::new(Database::open(&options.database, &session)?, edition);
    let in_flight = InFlight::default();
    let starting = Readiness::NotReady("it is starting".to_owned());
    let ops = Ops {
        edition,
        disable_file: options.disable_file.clone(),
        in_flight: in_flight.clone(),
        readiness: Arc::new(RwLock::new(starting)),
    };
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    let listener = tokio::net::TcpListener::bind(options.listen)
        .await
        .with_context(|| format!("could not listen on {}", options.listen))?
        .tap_io(|stream| {
            // An answer is one small write: waiting for more would only delay it.
            let _ = stream.set_nodelay(true);
        });
    let becoming = tokio::spawn(become_ready(ops.clone(), store.clone(), options.start_delay, fault));
    let catalogue = http::routes(Catalogue { store: store.clone(), edition })
        .layer(middleware::from_fn_with_state(in_flight, in_flight::count));
    let node = HeaderValue::from_str(&options.node).context("the node's name does not fit a header")?;
    let app = catalogue
        .merge(ops::routes(ops))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is nothing at this path") })
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            stamp(request, next, edition, node.clone())
        }));
    tracing::info!(listen = %options.listen, version = edition.version, node = options.node, "serving");
    axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await
        .context("could not serve")?;
    becoming.abort();
    store.close().await;
    tracing::info!("ended in good order");
    Ok(())
}

/// Says on every answer who gave it.
async fn stamp(request: Request, next: Next, edition: &'static Edition, node: HeaderValue) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert("x-pantry-version", HeaderValue::from(edition.version));
    headers.insert("x-pantry-node", node);
    response
}

/// Readiness is reached once and kept: a database that stumbles later must not take every instance out at once.
async fn become_ready(ops: Ops, store: Store, delay: Duration, fault: Option<String>) {
    tokio::time::sleep(delay).await;
    if let Some(fault) = fault {
        ops.set(Readiness::NotReady(fault));
        return;
    }
    loop {
        let why = match store.unready().await {
            Ok(0) => {
                ops.set(Readiness::Ready);
                return;
            }
            Ok(_) => format!("the database holds {}", ops.edition.statements.unready_means),
            Err(e) => match std::error::Error::source(&e) {
                Some(cause) => format!("{e}: {cause}"),
                None => e.to_string(),
            },
        };
        ops.set(Readiness::NotReady(why));
        tokio::time::sleep(READY_RETRY).await;
    }
}
