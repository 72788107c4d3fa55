//! A private etcd: free loopback ports, a directory of its own, ended with the test.

use super::store::report_key;
use super::{World, free_port, wait_for};
use etcd_client::{Client, ConnectOptions, Permission};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tidegate_proto::Prefix;
use tidegate_store::{Credentials, Endpoints, Store};

const ROOT: &str = "root's own";

pub(crate) struct Etcd {
    child: Child,
    data: PathBuf,
    client: u16,
    peer: u16,
}

impl Etcd {
    /// Starts one whose data lie in the world's room, and makes it that world's store.
    pub(crate) async fn start(world: &mut World) -> Self {
        let (data, client, peer) = (world.path().join("etcd"), free_port(), free_port());
        let etcd = Self { child: spawn(&data, client, peer), data, client, peer };
        let endpoints =
            Endpoints { urls: vec![format!("http://{}", etcd.address())], credentials: None, tls: None };
        let connect = || {
            let endpoints = endpoints.clone();
            async move { Store::connect(&endpoints, Prefix::default()).await.map_err(|e| e.to_string()) }
        };
        let store =
            wait_for("etcd answers", world, || async { connect().await.map(Connected) }, Result::is_ok).await;
        world.store.address = etcd.address();
        world.store.store = store.unwrap().0;
        etcd
    }

    /// From now on every client is asked for a password. The world's own store is root's; a user of this name has these
    /// permissions, and the world's agent is that one.
    pub(crate) async fn asks_for_passwords(&self, world: &mut World, user: &str, grants: Vec<Permission>) {
        let url = format!("http://{}", self.address());
        let mut raw = Client::connect([&url], None).await.unwrap();
        for (user, password) in [("root", ROOT), (user, "secret")] {
            raw.user_add(user, password, None).await.unwrap();
            raw.role_add(user).await.unwrap();
            raw.user_grant_role(user, user).await.unwrap();
        }
        for grant in grants {
            raw.role_grant_permission(user, grant).await.unwrap();
        }
        raw.auth_enable().await.unwrap();
        let credentials = Some(Credentials { user: "root".to_owned(), password: ROOT.to_owned() });
        let endpoints = Endpoints { urls: vec![url], credentials, tls: None };
        world.store.store = Store::connect(&endpoints, Prefix::default()).await.unwrap();
        let file = world.path().join("password");
        std::fs::write(&file, "secret").unwrap();
        world.login = format!("user = {user:?}\npassword_file = {file:?}");
    }

    /// Lets a user do more, as root.
    pub(crate) async fn grants(&self, user: &str, grant: Permission) {
        let options = ConnectOptions::new().with_user("root", ROOT);
        let mut raw = Client::connect([format!("http://{}", self.address())], Some(options)).await.unwrap();
        raw.role_grant_permission(user, grant).await.unwrap();
    }

    /// Removes a user, as root.
    pub(crate) async fn revokes(&self, user: &str) {
        let options = ConnectOptions::new().with_user("root", ROOT);
        let mut raw = Client::connect([format!("http://{}", self.address())], Some(options)).await.unwrap();
        raw.user_delete(user).await.unwrap();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.client))
    }

    /// Killed, as by a power cut of its process.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Started again on the same ports and data; returns when it answers.
    pub(crate) async fn start_again(&mut self, world: &World) {
        self.child = spawn(&self.data, self.client, self.peer);
        let answers = || async { world.store.store.get(&report_key()).await.is_ok() };
        wait_for("etcd answers again", world, answers, |answers| *answers).await;
    }
}

/// A store that has nothing to show of itself.
struct Connected(Store);

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connected")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(data: &std::path::Path, client: u16, peer: u16) -> Child {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    Command::new("etcd")
        .args(["--name", "private", "--log-level", "error", "--data-dir"])
        .arg(data)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("private={peer}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd is needed for these tests: install etcd-server, or leave out `real_etcd`")
}
