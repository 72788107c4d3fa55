//! The daemon: everything is built first, sockets bound, so that what cannot work is said before anything is
//! driven; then it runs until it is asked to end, finishes the action under way and gives the leadership up.

mod certificates;
mod pointers;

use crate::api;
use crate::config::{Settings, StoreChoice};
use crate::context::Context;
use crate::door::listen::bind;
use crate::door::{Certificates, Listener, raise_descriptors};
use crate::grpc::client::Trust;
use crate::grpc::{self, Peers};
use crate::guard::{self, Guard, Token};
use crate::leader_loop;
use crate::metrics::Metrics;
use crate::report::Mirror;
use crate::telemetry::Chain;
use anyhow::{Context as _, Result, anyhow};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_embedded_etcd::Embedded;
use tidegate_store::{Credentials, Endpoints, Reader, Tls};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Builds a coordinator and runs it until `cancel`.
pub(crate) async fn run(settings: Settings, cancel: CancellationToken) -> Result<()> {
    let built = Built::new(&settings).await?;
    built.announce(&settings)?;
    built.run(settings, cancel).await
}

/// Where a coordinator can be reached: what the ready file holds.
#[derive(Debug, Clone)]
struct Addresses {
    grpc: SocketAddr,
    http: SocketAddr,
    store: Option<SocketAddr>,
}

struct Built {
    static_settings: BTreeMap<String, String>,
    store: Reader,
    embedded: Option<Embedded>,
    grpc: TcpListener,
    http: TcpListener,
    store_listener: Option<TcpListener>,
    addresses: Addresses,
    advertise: String,
    certificates: Option<Certificates>,
    token: Option<(Token, PathBuf)>,
}

impl Built {
    async fn new(settings: &Settings) -> Result<Self> {
        settings.check()?;
        raise_descriptors();
        let certificates = certificates::read(settings)?;
        let grpc = bind("--grpc", settings.grpc).await?;
        let http = bind("--http", settings.http).await?;
        let store_listener = match settings.store_listen {
            Some(addr) => Some(bind("--store-listen", addr).await?),
            None => None,
        };
        let addresses = Addresses {
            grpc: grpc.local_addr()?,
            http: http.local_addr()?,
            store: store_listener.as_ref().map(TcpListener::local_addr).transpose()?,
        };
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let advertise =
            settings.advertise.clone().unwrap_or_else(|| format!("{scheme}://{}", addresses.grpc));
        let (store, embedded) = open_store(settings, &advertise).await?;
        // After the store's directory is there, and locked for this coordinator.
        let token = own_token(settings)?;
        let static_settings = static_settings(settings)?;
        if let Some(dir) = &settings.traffic_dir {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("could not make the directory --traffic-dir {}", dir.display()))?;
        }
        Ok(Self {
            static_settings,
            store,
            embedded,
            grpc,
            http,
            store_listener,
            addresses,
            advertise,
            certificates,
            token,
        })
    }

    /// Says where it can be reached, once everything is bound.
    fn announce(&self, settings: &Settings) -> Result<()> {
        let Addresses { grpc, http, store } = &self.addresses;
        tracing::info!(%grpc, %http, store = store.map(tracing::field::display), advertise = self.advertise, "bound");
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let token_file = self.token.as_ref().map(|(_, path)| absolute(path).display().to_string());
        match &token_file {
            Some(path) => {
                tracing::info!(
                    path,
                    "this token has the role operate; keep the file private (tidegate --token-file)"
                )
            }
            None => {
                tracing::info!("there is no --token-file: only tokens that the store knows let anyone act")
            }
        }
        let Some(path) = &settings.ready_file else { return Ok(()) };
        let text = json!({
            "pid": std::process::id(),
            "grpc": grpc.to_string(),
            "http": http.to_string(),
            "store": store.map(|store| store.to_string()),
            "advertise": self.advertise,
            "token_file": token_file,
        });
        write_whole(path, &format!("{text}\n"))
            .with_context(|| format!("could not write the ready file {}", path.display()))
    }

    async fn run(self, settings: Settings, cancel: CancellationToken) -> Result<()> {
        let mirror = Mirror::with_report_grace(settings.report_grace);
        let (leaderships, leadership) = watch::channel(None);
        let context = Context {
            store: self.store.clone(),
            mirror: Arc::clone(&mirror),
            leadership,
            metrics: Arc::new(Metrics::new()),
            migrations: settings.migrations.clone(),
            hindrance: watch::Sender::default(),
            address: self.advertise.into(),
            static_settings: Arc::new(self.static_settings),
            releases: Arc::default(),
        };
        // Listeners end first, so that no command comes after the coordinator has resigned; the store last.
        let (doors, sync_status) = (cancel.clone(), CancellationToken::new());
        let tasks = TaskTracker::new();
        tasks.spawn(Arc::clone(&mirror).follow(self.store, sync_status.clone()));
        if let Some(dir) = settings.traffic_dir {
            tasks.spawn(pointers::keep(dir, Arc::clone(&mirror), sync_status.clone()));
        }
        if let (Some(embedded), Some(listener)) = (self.embedded.clone(), self.store_listener) {
            let (shutdown, address) = (sync_status.clone(), listener.local_addr()?);
            tasks.spawn(async move {
                let agents = Listener::new(listener, None).agents();
                if let Err(error) = embedded.serve_each(address, agents, shutdown).await {
                    tracing::error!(error = %Chain(&error), "the store is no longer served to agents");
                }
            });
        }
        let own = self.token.map(|(token, _)| token);
        let guard = Guard::new(Arc::clone(&context.mirror), own.as_ref());
        let tls = self.certificates.as_ref().map(|certificates| (certificates.grpc(), certificates.http()));
        let (grpc_tls, http_tls) = tls.unzip();
        if let Some(certificates) = self.certificates {
            let renewing = certificates::renew(certificates, doors.clone());
            tasks.spawn(async move {
                if let Err(error) = renewing.await {
                    tracing::error!(error = %Chain(error.as_ref()), "the TLS certificates are no longer renewed");
                }
            });
        }
        let identity = settings.tls_cert.clone().zip(settings.tls_key.clone());
        let peers = Peers { own, trust: Trust { ca: settings.peer_ca.clone(), identity } };
        let services = grpc::services(&context, &peers);
        let router = api::router(context.clone(), services.clone(), guard.clone());
        let grpc = Listener::new(self.grpc, grpc_tls);
        let grpc = grpc::serve(grpc, services, guard, doors.clone());
        let http = api::serve(Listener::new(self.http, http_tls), router, doors);
        let leader_loop =
            tokio::spawn(leader_loop::run(context, leaderships, settings.leader_ttl, cancel.clone()));
        let served = tokio::try_join!(grpc, http, run_until_shutdown(self.embedded.clone(), cancel.clone()));
        // A door that ended by an error ends the coordinator: another takes over.
        cancel.cancel();
        leader_loop.await.context("the leader_loop broke")?;
        sync_status.cancel();
        tasks.close();
        tasks.wait().await;
        if let Some(embedded) = self.embedded {
            embedded.close().await;
        }
        served.map(|_| ())
    }
}

/// Runs until `shutdown`, or until the embedded store can no longer write: then the coordinator exits, and its
/// supervisor's restart opens the store's file again.
async fn run_until_shutdown(embedded: Option<Embedded>, shutdown: CancellationToken) -> Result<()> {
    let Some(embedded) = embedded else { return Ok(()) };
    tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        why = embedded.broken() => Err(anyhow!("the embedded store can no longer write to its file: {why}")),
    }
}

/// The lowest layer of every compute's settings.
fn static_settings(settings: &Settings) -> Result<BTreeMap<String, String>> {
    let Some(path) = &settings.compute_settings else { return Ok(BTreeMap::new()) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read the compute settings {}", path.display()))?;
    tidegate_planner::document::yaml(&text).with_context(|| {
        format!("{} holds no settings: NAME: \"VALUE\", a line each, is needed", path.display())
    })
}

/// The coordinators' own token, and where it is.
fn own_token(settings: &Settings) -> Result<Option<(Token, PathBuf)>> {
    let Some(path) = settings.own_token() else { return Ok(None) };
    let token = if settings.kept_token().is_some_and(|kept| is_same(&kept, &path)) {
        Token::keep(&path, &guard::OPERATOR.parse()?)?
    } else {
        Token::read(&path)?
    };
    Ok(Some((token, path)))
}

/// Whether two paths name one file, which need not be there, in a directory that is.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let directory = std::path::absolute(path).ok()?.parent()?.canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    one == other || place(one).is_some_and(|place_of_one| Some(place_of_one) == place(other))
}

async fn open_store(settings: &Settings, advertise: &str) -> Result<(Reader, Option<Embedded>)> {
    match &settings.store {
        StoreChoice::Embedded(dir) => {
            let embedded =
                Embedded::open(dir, advertise).await.context("could not open the embedded store")?;
            let client = embedded.client().await.context("could not connect to the embedded store")?;
            Ok((Reader::over(client, settings.prefix.clone()), Some(embedded)))
        }
        StoreChoice::Etcd(urls) => {
            let endpoints =
                Endpoints { urls: urls.clone(), credentials: credentials(settings)?, tls: tls(settings)? };
            let store = Reader::connect(&endpoints, settings.prefix.clone()).await?;
            Ok((store, None))
        }
    }
}

fn credentials(settings: &Settings) -> Result<Option<Credentials>> {
    let (Some(user), Some(path)) = (&settings.store_user, &settings.store_password_file) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read the password file {}", path.display()))?;
    Ok(Some(Credentials { user: user.clone(), password: text.trim_end_matches(['\r', '\n']).to_owned() }))
}

fn tls(settings: &Settings) -> Result<Option<Tls>> {
    let read =
        |path: &Path| std::fs::read(path).with_context(|| format!("could not read {}", path.display()));
    let Some(ca) = &settings.store_ca else { return Ok(None) };
    Ok(Some(Tls {
        ca: read(ca)?,
        cert: settings.store_cert.as_deref().map(read).transpose()?,
        key: settings.store_key.as_deref().map(read).transpose()?,
        domain: None,
    }))
}

/// Writes a file whole or not at all: a reader that waits for it never reads half of it.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}
