//! Client certificates at both doors, and the renewal of the coordinator's own.

use super::pki::{self, Pki};
use super::{Fixture, call, is_authorized};
use crate::world::store;
use tidegate_coordinator::api;
use tidegate_coordinator::door::{Certificates, Listener};
use tidegate_coordinator::grpc::client::Trust;
use tidegate_coordinator::guard;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::wire::v1::RevokeTokenRequest;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request};

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_its_holders_name_at_both_doors() {
    let pki = Pki::new(&["ci", "cd", "nobody"]);
    let embedded = Embedded::in_memory();
    let fixture = Fixture::open(store(&embedded).await, Some((&pki, false))).await;
    fixture.coordinator.leads().await;
    let plain = pki.trust(None);
    fixture.create("runner", "operate", "ci", &plain).await;
    let gone = fixture.create("former", "operate", "cd", &plain).await;
    assert!(gone.token.is_empty(), "a certificate needs no token");

    let with = |name| pki.trust(Some(name));
    assert!(is_authorized(call(&fixture, None, &with("ci"), "CordonNode").await));
    assert!(is_authorized(call(&fixture, None, &with("cd"), "CordonNode").await));
    fixture.revoke(&gone.id, &plain).await;
    assert_eq!(call(&fixture, None, &with("cd"), "CordonNode").await, Code::Unauthenticated);
    assert_eq!(
        call(&fixture, None, &with("nobody"), "Leader").await,
        Code::Unauthenticated,
        "shown, and not known"
    );
    assert!(is_authorized(call(&fixture, None, &plain, "Leader").await), "none shown, from this machine");
    let own = fixture.own.clone();
    assert!(
        is_authorized(call(&fixture, Some(&own), &with("nobody"), "CordonNode").await),
        "a token is enough"
    );
    // A certificate of another authority ends the handshake.
    let other = Pki::new(&["ci"]);
    let forged = Trust { identity: other.trust(Some("ci")).identity, ..plain.clone() };
    assert!(
        !matches!(call(&fixture, None, &forged, "Leader").await, Code::Ok),
        "a forged certificate was taken"
    );

    for (name, status) in [(Some("ci"), 200), (Some("cd"), 401), (Some("nobody"), 401), (None, 200)] {
        let answer = pki::get(fixture.http, "/metrics", None, Some(&pki.connector(name))).await.unwrap();
        assert_eq!(answer.status, status, "{name:?}: {answer:?}");
    }
    assert!(pki::get(fixture.http, "/metrics", None, Some(&forging(&pki, &other))).await.is_err());
}

fn forging(pki: &Pki, other: &Pki) -> tokio_rustls::TlsConnector {
    pki.connector_with(Some(other.pem("ci")))
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_vouched_certificate_gives_no_rights() {
    let embedded = Embedded::in_memory();
    let fixture = Fixture::open(store(&embedded).await, None).await;
    fixture.coordinator.leads().await;
    let none = Trust::default();
    fixture.create("boss", "operate", "boss", &none).await;
    let vouching = async |values: &[&'static str]| {
        let mut asked = Request::new(RevokeTokenRequest { id: "x".to_owned(), ..Default::default() });
        for value in values {
            asked.metadata_mut().append(guard::VOUCHED, value.parse().unwrap());
        }
        fixture.client(Some(&fixture.own), &none).await.revoke_token(asked).await.unwrap_err().code()
    };
    let boss = "626f7373";
    assert_eq!(vouching(&[boss]).await, Code::InvalidArgument, "authorized as boss; a reason is missing");
    for unreadable in [&["zz"][..], &["ff"], &[""], &[boss, boss], &["zz", boss]] {
        assert_eq!(vouching(unreadable).await, Code::Unauthenticated, "{unreadable:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handshake_without_required_certificate_fails() {
    let pki = Pki::new(&["ci"]);
    let embedded = Embedded::in_memory();
    let fixture = Fixture::open(store(&embedded).await, Some((&pki, true))).await;
    fixture.coordinator.leads().await;
    fixture.create("runner", "read", "ci", &pki.trust(Some("ci"))).await;
    assert!(is_authorized(call(&fixture, None, &pki.trust(Some("ci")), "Leader").await));
    let own = fixture.own.clone();
    assert_ne!(
        call(&fixture, Some(&own), &pki.trust(None), "Leader").await,
        Code::Ok,
        "no certificate, and let in"
    );
    assert!(pki::get(fixture.http, "/healthz", None, Some(&pki.connector(None))).await.is_err());
    assert_eq!(
        pki::get(fixture.http, "/healthz", None, Some(&pki.connector(Some("ci")))).await.unwrap().status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_while_both_doors_stay_open() {
    let pki = Pki::new(&[]);
    let mut certificates = Certificates::new(pki.files(false)).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let listener = Listener::new(tcp, Some(certificates.http()));
    let router = axum::Router::new().route("/", axum::routing::get(|| async { "here" }));
    let open = CancellationToken::new();
    let _open = open.clone().drop_guard();
    tokio::spawn(api::serve(listener, router, open));
    let serial = async || pki::served(address, &pki.connector(None)).await;
    let first = serial().await;
    assert!(!certificates.renew().unwrap(), "nothing is new");
    assert_eq!(serial().await, first);
    // Half of a renewal: the certificate is new and its key is not. The former pair goes on.
    let key = pki.renew_certificate();
    assert!(certificates.renew().is_err());
    assert_eq!(serial().await, first);
    pki.renew_key(&key);
    assert!(certificates.renew().unwrap());
    assert_ne!(serial().await, first, "the new certificate is served");
}
