//! The suite on a private etcd, and what needs a server of its own: restarts, users, TLS, an empty disk.

use crate::etcd::{Etcd, How, TlsFiles};
use crate::proxy::{Line, Proxy};
use crate::world::{LIMIT, Watched, World, budget, budget_key, connect};
use etcd_client::{Client, Permission};
use std::path::Path;
use tidegate_proto::{Commit, Prefix};
use tidegate_store::{Credentials, Endpoints, LeaseState, Scope, Seen, Store, StoreError, Tls};

async fn world() -> World {
    let etcd = Etcd::start();
    connect(&etcd.url()).await;
    World::new(etcd.address(), etcd)
}

crate::run_suite!(world);

async fn put(store: &Store, name: &str) -> tidegate_proto::Revision {
    store.commit(&Commit::new().put(budget_key(name), budget(1))).await.unwrap().revision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_and_a_lease_outlive_a_restart_of_the_server() {
    let mut etcd = Etcd::start();
    let store = connect(&etcd.url()).await;
    let lease = store.lease(std::time::Duration::from_secs(5)).await.unwrap();
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    put(&store, "a").await;
    watched.until(|seen| matches!(seen, Seen::Changed { .. })).await;
    etcd.stop();
    let lost = watched.until(|seen| matches!(seen, Seen::Lost { .. })).await;
    assert!(matches!(&lost, Seen::Lost { why, .. } if !why.is_empty()));
    let refused = store.get(&budget_key("a")).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Unreachable { endpoints, .. } if *endpoints == etcd.url()),
        "{refused:?}"
    );
    assert!(refused.retryable());
    etcd.start_again();
    watched.until(|seen| matches!(seen, Seen::Regained)).await;
    let made = put(&store, "b").await;
    let next = watched.next().await;
    assert!(matches!(&next, Seen::Changed { revision, .. } if *revision == made), "{:?}", watched.reported);
    assert!(tokio::time::timeout(2 * lease.ttl(), lease.lost()).await.is_err(), "the lease was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_that_fell_back_is_reported_restored() {
    let mut etcd = Etcd::start();
    let store = connect(&etcd.url()).await;
    put(&store, "a").await;
    let last = put(&store, "b").await;
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    etcd.stop();
    etcd.start_blank();
    match watched.until(|seen| !matches!(seen, Seen::Lost { .. })).await {
        Seen::Restored { seen, found } => assert!(seen == last && found < last, "seen {seen}, found {found}"),
        other => panic!("{other:?} after {:?}", watched.reported),
    }
    let listed = watched.next().await;
    assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.is_empty()), "{listed:?}");
    let made = put(&store, "c").await;
    let next = watched.next().await;
    assert!(matches!(&next, Seen::Changed { revision, .. } if *revision == made), "{:?}", watched.reported);
}

/// etcd, a connection to it, a proxy before it, and a watch through the proxy that has listed the keys.
async fn watched_through_proxy() -> (Etcd, Store, Proxy, Watched) {
    let etcd = Etcd::start();
    let direct = connect(&etcd.url()).await;
    let proxy = Proxy::before(etcd.address()).await;
    let store = connect(&proxy.url()).await;
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    (etcd, direct, proxy, watched)
}

/// The proxy refuses all connections, and a blank etcd takes the place of the one behind it; answers a connection to that.
async fn replace_by_blank(etcd: &mut Etcd, proxy: &Proxy) -> Store {
    proxy.set(Line::Closed);
    proxy.cut();
    etcd.stop();
    etcd.start_blank();
    connect(&etcd.url()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_that_fell_back_and_caught_up_is_reported_restored() {
    for removes in [false, true] {
        let (mut etcd, direct, proxy, mut watched) = watched_through_proxy().await;
        let mut last = put(&direct, "a").await;
        if removes {
            last = direct.commit(&Commit::new().delete(budget_key("a"))).await.unwrap().revision;
        }
        watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == last)).await;
        let direct = replace_by_blank(&mut etcd, &proxy).await;
        for n in 0..10 {
            put(&direct, &format!("other{n}")).await;
        }
        proxy.set(Line::Open);
        let restored = watched.until(|seen| matches!(seen, Seen::Restored { .. })).await;
        assert!(matches!(restored, Seen::Restored { seen, .. } if seen >= last), "{restored:?}");
        let listed = watched.next().await;
        assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == 10), "{listed:?}");
    }
}

/// A report that is said again comes at the same revision as before the fall; the event before it is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fall_is_reported_although_the_last_event_is_repeated() {
    let (mut etcd, direct, proxy, mut watched) = watched_through_proxy().await;
    put(&direct, "lost").await;
    let last = put(&direct, "repeated").await;
    watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == last)).await;
    let direct = replace_by_blank(&mut etcd, &proxy).await;
    put(&direct, "other").await;
    assert_eq!(put(&direct, "repeated").await, last, "the last event is the same in both histories");
    proxy.set(Line::Open);
    let restored = watched.until(|seen| matches!(seen, Seen::Restored { .. })).await;
    assert!(matches!(restored, Seen::Restored { seen, .. } if seen == last), "{restored:?}");
    let listed = watched.next().await;
    assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == 2), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_the_error_names_what_was_tried() {
    let mut etcd = Etcd::start();
    etcd.stop();
    let endpoints = Endpoints::plain([etcd.url()]);
    let refused = Store::connect(&endpoints, Prefix::default()).await.err().unwrap();
    assert!(refused.to_string().contains(&etcd.url()), "{refused}");
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("onnect"), "{cause}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_down_costs_no_call() {
    let (etcd, mut down) = (Etcd::start(), Etcd::start());
    connect(&etcd.url()).await;
    down.stop();
    let endpoints = Endpoints::plain([down.url(), etcd.url()]);
    // A member that refuses is ready to do so before the other is connected; no connection may begin with it.
    for _ in 0..20 {
        Store::connect(&endpoints, Prefix::default()).await.unwrap();
    }
    let store = Store::connect(&endpoints, Prefix::default()).await.unwrap();
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    for round in 0..100 {
        let made = put(&store, &format!("s{round}")).await;
        let entry = store.get(&budget_key(&format!("s{round}"))).await.unwrap().unwrap();
        assert_eq!((entry.mod_revision, entry.create_revision), (made, made));
        // A watch that is moved to the other member before it has reported an event lists again.
        let shows = |seen: &Seen| match seen {
            Seen::Changed { revision, .. } => *revision == made,
            Seen::Listed(snapshot) => snapshot.revision >= made,
            _ => false,
        };
        watched.until(shows).await;
    }
}

/// A root, and an agent that may read and write one key; then no client may without a password.
async fn enable_users(raw: &mut Client) {
    raw.user_add("root", "secret", None).await.unwrap();
    raw.role_add("root").await.unwrap();
    raw.user_grant_role("root", "root").await.unwrap();
    raw.user_add("agent", "word", None).await.unwrap();
    raw.role_add("agent").await.unwrap();
    let own = Permission::read_write("/tidegate/budget/mine");
    raw.role_grant_permission("agent", own).await.unwrap();
    raw.user_grant_role("agent", "agent").await.unwrap();
    raw.auth_enable().await.unwrap();
}

fn as_user(url: String, user: &str, password: &str) -> Endpoints {
    let credentials = Some(Credentials { user: user.into(), password: password.into() });
    Endpoints { credentials, ..Endpoints::plain([url]) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_without_permission_is_refused_with_the_reason() {
    let etcd = Etcd::start();
    connect(&etcd.url()).await;
    enable_users(&mut Client::connect([etcd.url()], None).await.unwrap()).await;
    let wrong = Store::connect(&as_user(etcd.url(), "root", "wrong"), Prefix::default()).await.err().unwrap();
    assert!(matches!(wrong, StoreError::Authentication { .. }) && !wrong.retryable(), "{wrong:?}");
    let root = Store::connect(&as_user(etcd.url(), "root", "secret"), Prefix::default()).await.unwrap();
    put(&root, "other").await;
    let agent = Store::connect(&as_user(etcd.url(), "agent", "word"), Prefix::default()).await.unwrap();
    put(&agent, "mine").await;
    let refused = agent.get(&budget_key("other")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    let commit = Commit::new().put(budget_key("other"), budget(2));
    let refused = agent.commit(&commit).await.unwrap_err();
    assert!(!refused.retryable() && refused.to_string().contains("refused"), "{refused:?}");
    let mut forbidden = Watched::begin(&agent, vec![Scope::All]);
    let reported = forbidden.next().await;
    assert!(matches!(&reported, Seen::Lost { why, .. } if why.contains("permission denied")), "{reported:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_token_is_renewed_and_cut_watch_resumes() {
    let how = How { token_ttl: Some(1), ..How::default() };
    let etcd = Etcd::start_in(tempfile::TempDir::new().unwrap(), how);
    connect(&etcd.url()).await;
    enable_users(&mut Client::connect([etcd.url()], None).await.unwrap()).await;
    let proxy = Proxy::before(etcd.address()).await;
    let agent = Store::connect(&as_user(proxy.url(), "agent", "word"), Prefix::default()).await.unwrap();
    let lease = agent.lease(std::time::Duration::from_secs(2)).await.unwrap();
    let mut watched = Watched::begin(&agent, vec![Scope::Key(budget_key("mine"))]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    put(&agent, "mine").await;
    watched.until(|seen| matches!(seen, Seen::Changed { .. })).await;
    for _ in 0..2 {
        // Three lives of a token without a use of it.
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        proxy.set(Line::Closed);
        proxy.cut();
        watched.until(|seen| matches!(seen, Seen::Lost { .. })).await;
        proxy.set(Line::Open);
        assert!(matches!(watched.next().await, Seen::Regained), "{:?}", watched.reported);
        let made = put(&agent, "mine").await;
        let next = watched.next().await;
        assert!(matches!(next, Seen::Changed { revision, .. } if revision == made), "{:?}", watched.reported);
    }
    assert_eq!(lease.state(), LeaseState::Held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_a_private_authority_and_client_certificates() {
    let dir = tempfile::TempDir::new().unwrap();
    let (ours, others) = (Authority::new(), Authority::new());
    let files = ours.server_files(dir.path());
    let (cert, key) = ours.issue("agent");
    let etcd = Etcd::start_in(dir, How { tls: Some(files), ..How::default() });
    let with = |ca: &Authority, identity: Option<(String, String)>| {
        let (cert, key) = identity.map(|(c, k)| (c.into_bytes(), k.into_bytes())).unzip();
        let tls = Tls { ca: ca.pem().into_bytes(), cert, key, domain: None };
        Endpoints { tls: Some(tls), ..Endpoints::plain([etcd.url()]) }
    };
    let good = with(&ours, Some((cert.clone(), key.clone())));
    let begun = std::time::Instant::now();
    let store = loop {
        match Store::connect(&good, Prefix::default()).await {
            Ok(store) => break store,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error:?}"),
        }
    };
    put(&store, "a").await;
    for bad in [with(&others, Some((cert, key))), with(&ours, None)] {
        let refused = Store::connect(&bad, Prefix::default()).await.err();
        assert!(matches!(refused, Some(StoreError::Unreachable { .. })), "{refused:?}");
    }
}

/// A private certificate authority.
struct Authority {
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "a private authority");
        let key = rcgen::KeyPair::generate().unwrap();
        Self { issuer: rcgen::CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for `name` and 127.0.0.1, and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let names = vec![name.to_owned(), "127.0.0.1".to_owned()];
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.extended_key_usages =
            vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    fn server_files(&self, dir: &Path) -> TlsFiles {
        let (cert, key) = self.issue("localhost");
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        TlsFiles {
            cert: write("server.crt", cert),
            key: write("server.key", key),
            ca: write("ca.crt", self.pem()),
        }
    }
}
