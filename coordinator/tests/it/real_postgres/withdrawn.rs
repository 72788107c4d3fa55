//! A gate of contract that closes while the certificate is made: after the fleet was read, and before the sessions were.

use super::{Postgres, migrations, things};
use crate::herd::{node, service};
use crate::process::Daemon;
use crate::schema::SCHEMA;
use crate::world::{LIMIT, spec};
use sqlx::Connection;
use std::time::Duration;
use tidegate_proto::record::report::Report;
use tidegate_proto::{Commit, Key, Revision, Value};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A port before a server: while it is shut, connections are accepted and wait.
struct Door {
    port: u16,
    is_open: watch::Sender<bool>,
    /// Whether the last connection found it shut.
    waits: watch::Receiver<bool>,
}

impl Door {
    async fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_open, opened) = watch::channel(true);
        let (waiting, waits) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let is_shut = !*opened.borrow();
                waiting.send_replace(is_shut);
                tokio::spawn(pass(client, server, opened.clone()));
            }
        });
        Self { port, is_open, waits }
    }
}

/// Once the door is open, passes everything on.
async fn pass(mut client: TcpStream, server: u16, mut opened: watch::Receiver<bool>) {
    let is_open = opened.wait_for(|is_open| *is_open).await.is_ok();
    if is_open && let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await {
        // Either side may end it in any way.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}

/// How many jobs on the schema were ended because no turn asked for them.
fn ended(daemon: &Daemon) -> usize {
    daemon.log().matches("no longer asked for, and ends").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_that_closes_meanwhile_ends_the_certificate() {
    let postgres = Postgres::init();
    postgres.start();
    things(&postgres).await.close().await.unwrap();
    let door = Door::before(postgres.port).await;
    let daemon = Daemon::embedded(|command, dir| {
        command.arg("--migrations").arg(migrations(dir)).env("THINGS_URL", postgres.url());
        command.env("DOOR_URL", format!("postgres://op@127.0.0.1:{}/postgres", door.port));
    });
    let end = CancellationToken::new();
    tokio::spawn(daemon.herd(3).await.run(end.clone()));
    let asked = SCHEMA.replace("migrations: things", "migrations: things, endpoints: [{from_env: DOOR_URL}]");
    let path = daemon.file("spec.yaml", &spec(&format!("min_in_service: 1\n{asked}")));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "{started:?}");
    let explain = ["upgrade", "explain", "u1"];
    daemon.until("contract waits for a person", &explain, |said| said.out.contains("approve u1 contract"));

    door.is_open.send_replace(false);
    assert_eq!(daemon.ask(&["upgrade", "approve", "u1", "contract"]).code, 0);
    let mut waits = door.waits.clone();
    let asks = tokio::time::timeout(LIMIT, waits.wait_for(|waits| *waits)).await.is_ok();
    assert!(asks, "no sessions are asked for\n{}", daemon.log());

    // Its report was there before, and names the same version: only the window is not acknowledged any more.
    let store = daemon.store().await;
    let lease = store.lease(Duration::from_secs(60)).await.unwrap();
    let key = Key::Report(service(), node(1));
    let entry = store.get(&key).await.unwrap().unwrap();
    let Ok(Value::Report(record)) = entry.value else { panic!("{key} cannot be read") };
    let before = ended(&daemon);
    let behind = Report { window: Revision::ABSENT, ..record.body.clone() };
    store.commit_leased(&Commit::new().put(key.clone(), behind), &lease).await.unwrap();
    daemon.until("it is no longer asked for", &explain, |_| ended(&daemon) > before);
    let restored = store.commit_leased(&Commit::new().put(key, record.body), &lease).await.unwrap().revision;
    door.is_open.send_replace(true);

    let watched = daemon.ask(&["upgrade", "watch", "u1"]);
    assert_eq!(watched.code, 0, "{watched:?}\n{}", daemon.log());
    let certificate = daemon.ask(&["upgrade", "certificate", "u1"]);
    let sealed: serde_json::Value = serde_json::from_str(&certificate.out).unwrap();
    let read_at = sealed["certificate"]["read_at"].as_i64().unwrap();
    assert!(read_at >= restored.0, "it was read at {read_at}, and the gate was closed until {restored}");
    end.cancel();
}
