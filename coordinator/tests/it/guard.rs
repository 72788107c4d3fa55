//! Who may: every call with every credential, over real connections, plain and over TLS.

mod certificates;
mod pki;

use crate::world::{Coordinator, store};
use pki::Pki;
use std::net::SocketAddr;
use tidegate_coordinator::api;
use tidegate_coordinator::door::{Certificates, Listener, Peer, Shown};
use tidegate_coordinator::grpc::client::{Client, Trust, connect};
use tidegate_coordinator::grpc::{self, Peers};
use tidegate_coordinator::guard::{self, Caller, Denied, Guard, PresentedCredential, Token};
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::token::{Credential, Role, Token as Known};
use tidegate_proto::verb::{Route, VERBS};
use tidegate_proto::wire::v1::{
    CreateTokenReply, CreateTokenRequest, ListTokensRequest, RevokeTokenRequest, UpgradeHistoryRequest,
};
use tidegate_proto::{Commit, Digest, Key, Precondition, Revision, TokenId, Value};
use tidegate_store::{Scope, Store};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Code, Request, Status};

/// A coordinator with both of its doors open.
struct Fixture {
    coordinator: Coordinator,
    grpc: SocketAddr,
    http: SocketAddr,
    own: Token,
    scheme: &'static str,
    _open: DropGuard,
}

/// A token with a text of our choosing.
fn token(text: &str) -> Token {
    Token::of_header(format!("Bearer {text}").as_bytes()).unwrap()
}

impl Fixture {
    async fn open(store: Store, pki: Option<(&Pki, bool)>) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (grpc_at, http_at) = (tcp.local_addr().unwrap(), http.local_addr().unwrap());
        let scheme = if pki.is_some() { "https" } else { "http" };
        let coordinator = Coordinator::at(store, &format!("{scheme}://{grpc_at}"));
        let own = token("tgt_operator_shared-by-the-coordinators");
        let guard = Guard::new(coordinator.context.mirror.clone(), Some(&own));
        let certificates = pki.map(|(pki, required)| Certificates::new(pki.files(required)).unwrap());
        let tls = certificates.as_ref().map(|certificates| (certificates.grpc(), certificates.http()));
        let (grpc_tls, http_tls) = tls.unzip();
        let trust = pki.map_or_else(Trust::default, |(pki, _)| pki.trust(Some("server")));
        let peers = Peers { own: Some(own.clone()), trust };
        let services = grpc::services(&coordinator.context, &peers);
        let open = CancellationToken::new();
        tokio::spawn(grpc::serve(
            Listener::new(tcp, grpc_tls),
            services.clone(),
            guard.clone(),
            open.clone(),
        ));
        let router = api::router(coordinator.context.clone(), services, guard.clone()).merge(
            // A route that is not in the table.
            axum::Router::new()
                .route("/unlisted", axum::routing::get(|| async { "changed everything" }))
                .layer(axum::middleware::from_fn_with_state(guard, guard::http)),
        );
        tokio::spawn(api::serve(Listener::new(http, http_tls), router, open.clone()));
        Self { coordinator, grpc: grpc_at, http: http_at, own, scheme, _open: open.drop_guard() }
    }

    async fn client(&self, token: Option<&Token>, trust: &Trust) -> Client {
        connect(&format!("{}://{}", self.scheme, self.grpc), token.cloned(), trust).await.unwrap().operator()
    }

    /// As the operator.
    async fn create(&self, name: &str, role: &str, certificate: &str, trust: &Trust) -> CreateTokenReply {
        let asked = CreateTokenRequest {
            name: name.to_owned(),
            role: role.to_owned(),
            certificate: certificate.to_owned(),
            ..CreateTokenRequest::default()
        };
        let own = self.own.clone();
        self.client(Some(&own), trust).await.create_token(asked).await.unwrap().into_inner()
    }

    async fn revoke(&self, id: &str, trust: &Trust) {
        let asked = RevokeTokenRequest { id: id.to_owned(), why: "a test".to_owned(), who: String::new() };
        self.client(Some(&self.own), trust).await.revoke_token(asked).await.unwrap();
    }
}

/// One call of a method by its name, with an empty message; how it ended.
async fn call(fixture: &Fixture, token: Option<&Token>, trust: &Trust, method: &str) -> Code {
    let known = VERBS.iter().find(|verb| verb.method.name() == method);
    let path = known.map_or_else(|| format!("/tidegate.v1.Operator/{method}"), |verb| verb.path());
    let url = format!("{}://{}", fixture.scheme, fixture.grpc);
    let mut endpoint = tonic::transport::Endpoint::from_shared(url).unwrap();
    if fixture.scheme == "https" {
        endpoint = endpoint.tls_config(pki::client(trust)).unwrap();
    }
    let Ok(channel) = endpoint.connect().await else { return Code::Cancelled };
    let mut request = Request::new(());
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token.header());
    }
    let path = path.parse().unwrap();
    let mut raw = tonic::client::Grpc::new(channel);
    raw.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    raw.unary(request, path, codec)
        .await
        .map_or_else(|status| status.code(), |_: tonic::Response<()>| Code::Ok)
}

/// The same over HTTP: the status of an empty request to a route.
async fn request_route(fixture: &Fixture, token: Option<&Token>, route: &Route) -> u16 {
    let path = route.path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
    let path = path.collect::<Vec<_>>().join("/");
    pki::request(fixture.http, route.method, &path, token).await.unwrap().status
}

fn is_authorized(code: Code) -> bool {
    !matches!(code, Code::Unauthenticated | Code::PermissionDenied)
}

/// Puts a token's record as it could only be written elsewhere, or earlier.
async fn put(store: &Store, id: &str, known: Known) {
    let key = Key::Token(id.parse::<TokenId>().unwrap());
    let commit = Commit::new().when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, known);
    store.commit(&commit).await.unwrap();
}

fn known(name: &str, role: Role, token: &Token) -> Known {
    Known {
        name: name.parse().unwrap(),
        role,
        credential: Credential::Digest(token.digest()),
        by: "a test".to_owned(),
        at: Timestamp(1),
        expires: None,
        revoked: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_requires_its_role_on_both_doors() {
    let embedded = Embedded::in_memory();
    let fixture = Fixture::open(store(&embedded).await, None).await;
    fixture.coordinator.leads().await;
    let none = Trust::default();
    let mut tokens = Vec::new();
    for role in Role::ALL {
        let made = fixture.create(role.word(), role.word(), "", &none).await;
        tokens.push((Some(role), token(&made.token)));
    }
    let revoked = fixture.create("gone", "operate", "", &none).await;
    fixture.revoke(&revoked.id, &none).await;
    tokens.push((None, token(&revoked.token)));
    let expired = token("tgt_expired_0123456789abcdef");
    let past = Known { expires: Some(Timestamp(1)), ..known("old", Role::Operate, &expired) };
    put(&store(&embedded).await, "expired", past).await;
    tokens.push((None, expired));
    // The id of a good token with another secret, an id without a token, and a text that is no token of ours.
    let operate = tokens[2].1.id().unwrap();
    for wrong in
        [format!("tgt_{operate}_{}", "0".repeat(64)), format!("tgt_x_{}", "0".repeat(64)), "x".repeat(64)]
    {
        tokens.push((None, token(&wrong)));
    }
    tokens.push((Some(Role::Operate), fixture.own.clone()));
    let shown = fixture.coordinator.context.mirror.sync_status().borrow().revision;
    fixture.coordinator.context.mirror.reaches(shown).await;

    let before = events(&store(&embedded).await).await;
    for verb in VERBS.iter() {
        let (method, need) = (verb.method.name(), &verb.needs);
        for (role, token) in &tokens {
            for route in &verb.routes {
                let status = request_route(&fixture, Some(token), route).await;
                let expected = match role {
                    None => 401,
                    Some(role) if role < need => 403,
                    Some(_) => {
                        assert!(!matches!(status, 401 | 403 | 405), "{route:?} with {role:?}: {status}");
                        continue;
                    }
                };
                assert_eq!(status, expected, "{route:?} (needs {need}) with {role:?}, {:?}", token.id());
            }
            let code = call(&fixture, Some(token), &none, method).await;
            let expected = match role {
                None => Code::Unauthenticated,
                Some(role) if role < need => Code::PermissionDenied,
                Some(_) => {
                    assert!(is_authorized(code), "{method} with {role:?}: {code:?}");
                    continue;
                }
            };
            assert_eq!(code, expected, "{method} (needs {need}) with {role:?}, {:?}", token.id());
        }
        for route in &verb.routes {
            let status = request_route(&fixture, None, route).await;
            assert_eq!(status != 401, *need == Role::Read, "{route:?} without a token: {status}");
        }
        let code = call(&fixture, None, &none, method).await;
        assert_eq!(
            is_authorized(code),
            *need == Role::Read,
            "{method} from this machine without a token: {code:?}"
        );
    }
    assert_eq!(events(&store(&embedded).await).await, before, "something was changed");
    assert_eq!(call(&fixture, None, &none, "NoSuchMethod").await, Code::Unauthenticated);
    assert_eq!(call(&fixture, Some(&fixture.own), &none, "NoSuchMethod").await, Code::Unimplemented);
}

/// The records in `events/fleet`: who, and the outcome.
async fn events(store: &Store) -> Vec<(String, String)> {
    let found = store.list(&Scope::Within(Kind::Event, Subject::Fleet.to_string())).await.unwrap();
    let reported = found.entries.into_iter().filter_map(|entry| match entry.value {
        Ok(Value::Event(event)) => Some((event.body.who, event.body.to)),
        _ => None,
    });
    reported.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_elsewhere_nothing_is_answered_without_a_token() {
    let embedded = Embedded::in_memory();
    let coordinator = Coordinator::start(&embedded, "one").await;
    let own = token("tgt_operator_0123456789abcdef");
    let guard = Guard::new(coordinator.context.mirror.clone(), Some(&own));
    let from = |address: &str, presented: PresentedCredential| {
        let peer = Peer { address: address.parse().unwrap(), shown: Shown::Nothing };
        Caller { presented, ..Caller::of(Some(&peer), &axum::http::HeaderMap::new()) }
    };
    let bearer = || PresentedCredential::Token(own.clone());
    // Before the store was read, only the coordinators' own token can be known.
    let unread = Guard::new(tidegate_coordinator::report::Mirror::new(), Some(&own));
    assert!(unread.admit(&from("10.0.0.1:7", bearer()), Role::Operate).is_ok());
    let other = PresentedCredential::Token(token("tgt_k1_0123456789abcdef"));
    assert!(matches!(unread.admit(&from("127.0.0.1:7", other), Role::Read), Err(Denied::NotYet(_))));

    coordinator.leads().await;
    for need in Role::ALL {
        let denied = guard.admit(&from("10.0.0.1:7", PresentedCredential::Nothing), need);
        assert!(matches!(denied, Err(Denied::Unknown(_))), "{need} from elsewhere");
        let denied = guard.admit(&from("127.0.0.1:7", PresentedCredential::Malformed), need);
        assert!(matches!(denied, Err(Denied::Unknown(_))), "{need} with what is no token");
        assert!(guard.admit(&from("10.0.0.1:7", bearer()), need).is_ok());
    }
    assert!(guard.admit(&from("127.0.0.1:7", PresentedCredential::Nothing), Role::Read).is_ok());
    // A call that came over no connection is from nowhere.
    let nowhere = Caller::of(None, &axum::http::HeaderMap::new());
    assert!(matches!(guard.admit(&nowhere, Role::Read), Err(Denied::Unknown(_))));
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_answers_with_a_status_a_word_and_a_sentence() {
    let embedded = Embedded::in_memory();
    let fixture = Fixture::open(store(&embedded).await, None).await;
    fixture.coordinator.leads().await;
    let none = Trust::default();
    let read = token(&fixture.create("board", "read", "", &none).await.token);
    let ask =
        async |path: &str, token: Option<&Token>| pki::get(fixture.http, path, token, None).await.unwrap();
    for (path, token, status) in [
        ("/healthz", None, 200),
        ("/readyz", None, 200),
        ("/metrics", None, 200),
        ("/metrics", Some(&read), 200),
        ("/metrics", Some(&token("tgt_x_0123456789abcdef")), 401),
        ("/nothing", None, 404),
        // What is not in the table is the operator's alone.
        ("/unlisted", None, 401),
        ("/unlisted", Some(&read), 403),
        ("/unlisted", Some(&fixture.own), 200),
    ] {
        let answer = ask(path, token).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        if matches!(status, 401 | 403) {
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            let word = if status == 401 { "unauthenticated" } else { "forbidden" };
            assert_eq!(body["error"], word, "{answer:?}");
            assert!(body["message"].as_str().unwrap().len() > 20, "{answer:?}");
            assert_eq!(
                status == 401,
                answer.head.to_lowercase().contains("www-authenticate: bearer"),
                "{answer:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_caller_is_known_to_the_leader_by_name() {
    let pki = Pki::new(&["ci", "cd"]);
    let embedded = Embedded::in_memory();
    let leader = Fixture::open(store(&embedded).await, Some((&pki, false))).await;
    leader.coordinator.leads().await;
    let follower = Fixture::open(store(&embedded).await, Some((&pki, false))).await;
    let leads = leader.coordinator.context.mirror.sync_status().borrow().revision;
    follower.coordinator.context.mirror.reaches(leads).await;
    let plain = pki.trust(None);
    // All of it is asked of the follower, which sees at once what the leader wrote.
    let ann = token(&follower.create("ann", "operate", "", &plain).await.token);
    follower.create("ci", "operate", "ci", &plain).await;
    follower.create("cd", "release", "cd", &plain).await;
    let ask = async |token: Option<&Token>, trust: &Trust, remark: &str| {
        let asked = CreateTokenRequest {
            name: "x".to_owned(),
            role: "read".to_owned(),
            who: remark.to_owned(),
            ..CreateTokenRequest::default()
        };
        follower.client(token, trust).await.create_token(asked).await
    };
    ask(Some(&ann), &plain, "").await.unwrap();
    ask(Some(&ann), &plain, "the coordinator").await.unwrap();
    ask(None, &pki.trust(Some("ci")), "ann").await.unwrap();
    let denied = ask(None, &pki.trust(Some("cd")), "ann").await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied, "{denied:?}");
    let said = events(&store(&embedded).await).await;
    let who: Vec<&str> = said.iter().map(|(who, _)| who.as_str()).collect();
    assert_eq!(who, ["operator", "operator", "operator", "ann", "ann for the coordinator", "ci for ann"]);
    follower.coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_coordinator_may_vouch_for_a_certificate() {
    let embedded = Embedded::in_memory();
    let fixture = Fixture::open(store(&embedded).await, None).await;
    fixture.coordinator.leads().await;
    let none = Trust::default();
    fixture.create("boss", "operate", "boss", &none).await;
    let read = token(&fixture.create("spy", "read", "", &none).await.token);
    let vouching = async |token: Option<&Token>| -> Result<(), Status> {
        let mut asked = Request::new(RevokeTokenRequest { id: "x".to_owned(), ..Default::default() });
        asked.metadata_mut().insert(guard::VOUCHED, guard::vouch(&"boss".parse().unwrap()));
        fixture.client(token, &none).await.revoke_token(asked).await.map(|_| ())
    };
    assert_eq!(vouching(Some(&read)).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(vouching(None).await.unwrap_err().code(), Code::Unauthenticated);
    let with_own = vouching(Some(&fixture.own.clone())).await.unwrap_err();
    assert_eq!(with_own.code(), Code::InvalidArgument, "let in, as boss, and asked why: {with_own:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_or_newer_token_record_refuses_every_call() {
    let embedded = Embedded::in_memory();
    let fixture = Fixture::open(store(&embedded).await, None).await;
    fixture.coordinator.leads().await;
    let none = Trust::default();
    let (newer, broken) = (token("tgt_newer_0123456789abcdef"), token("tgt_broken_0123456789abcdef"));
    let mut raw = embedded.client().await.unwrap();
    let digest = |token: &Token| token.digest().to_string();
    let record = |schema: u32, role: &str, token: &Token| {
        format!(
            r#"{{"schema":{schema},"name":"x","role":"{role}","credential":{{"digest":"{}"}},"by":"x","at":1}}"#,
            digest(token)
        )
    };
    raw.put("/tidegate/tokens/newer", record(2, "operate", &newer), None).await.unwrap();
    let put = raw.put("/tidegate/tokens/broken", record(1, "emperor", &broken), None).await.unwrap();
    let revision = Revision(put.header().unwrap().revision());
    fixture.coordinator.context.mirror.reaches(revision).await;
    for token in [&newer, &broken] {
        assert_eq!(call(&fixture, Some(token), &none, "Leader").await, Code::Unauthenticated);
    }
    let mut reported =
        fixture.client(None, &none).await.list_tokens(ListTokensRequest { all: true }).await.unwrap();
    assert_eq!(reported.get_mut().message().await.unwrap().unwrap().id, "newer");
    assert!(reported.get_mut().message().await.unwrap().is_none(), "what cannot be read is not listed");
    let history = UpgradeHistoryRequest { id: "none".to_owned() };
    let answer = fixture.client(Some(&fixture.own), &none).await.upgrade_history(history).await;
    assert_eq!(answer.unwrap_err().code(), Code::NotFound, "everything else goes on");
    assert_ne!(Digest::of(b"x").to_string(), digest(&newer));
}
