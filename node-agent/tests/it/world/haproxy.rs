//! A private HAProxy before the service: no retries, no redispatch.

use super::{World, free_port, wait_for};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tidegate_agent::config::fragment::Balancer;
use tidegate_agent::drain::balancer::{ServerStatus, ask};
use tidegate_agent::machine::Machine;

pub(crate) struct Haproxy {
    child: Child,
    /// Where clients ask.
    pub port: u16,
    balancer: Balancer,
}

impl Haproxy {
    /// Starts one before the world's service, and makes it the one that the agent asks.
    pub(crate) async fn start(world: &mut World) -> Self {
        let (room, port) = (world.path().to_owned(), free_port());
        world.stats = "haproxy.sock".to_owned();
        let socket = room.join(&world.stats);
        let config = room.join("haproxy.cfg");
        let text = format!(
            "global\n    stats socket {} mode 600 level operator\n\
             defaults\n    mode http\n    timeout connect 2s\n    timeout client 60s\n    timeout server 60s\n    \
             retries 0\n    no option redispatch\n\
             listen pantry\n    bind 127.0.0.1:{port}\n    option httpchk GET /healthcheck\n    \
             server n1 127.0.0.1:{} check inter 100ms fall 2 rise 2\n",
            socket.display(),
            world.port,
        );
        std::fs::write(&config, text).unwrap();
        let child = Command::new("haproxy")
            .arg("-db")
            .arg("-f")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("haproxy is needed for these tests: install haproxy, or leave out `real_haproxy`");
        let text = format!("stats = \"unix:{}\"\nbackend = \"pantry\"\nserver = \"n1\"\n", socket.display());
        let this = Self { child, port, balancer: toml::from_str(&text).unwrap() };
        wait_for("HAProxy answers", world, || this.word(), Result::is_ok).await.unwrap();
        this
    }

    /// What it says of the instance.
    pub(crate) async fn word(&self) -> Result<ServerStatus, String> {
        ask(&Machine, &self.balancer, Duration::from_secs(2)).await
    }

    /// Waits until it says so.
    pub(crate) async fn wait_for_status(&self, world: &World, status: &str) {
        wait_for(status, world, || self.word(), |word| word.as_ref().is_ok_and(|word| word.status == status))
            .await
            .unwrap();
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
