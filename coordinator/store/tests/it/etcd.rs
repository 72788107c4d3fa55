//! A private etcd: free loopback ports, a directory of its own, ended with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) struct Etcd {
    child: Child,
    dir: TempDir,
    data: PathBuf,
    ports: (u16, u16),
    how: How,
}

/// How a server is started.
#[derive(Default)]
pub(crate) struct How {
    pub(crate) tls: Option<TlsFiles>,
    /// How long a token lives without being used, in seconds (etcd: 300).
    pub(crate) token_ttl: Option<u32>,
}

/// PEM files of a server that speaks TLS only and wants a client certificate.
#[derive(Clone)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) ca: PathBuf,
}

impl Etcd {
    pub(crate) fn start() -> Self {
        Self::start_in(TempDir::new().unwrap(), How::default())
    }

    pub(crate) fn start_in(dir: TempDir, how: How) -> Self {
        let data = dir.path().join("data");
        let ports = (tidegate_port::free().unwrap().port(), tidegate_port::free().unwrap().port());
        let child = spawn(&data, ports, &how);
        Self { child, dir, data, ports, how }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.how.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.ports.0)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.0)
    }

    /// Killed, as by a power cut of the process.
    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Started again on the same ports and the same data.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.data, self.ports, &self.how);
    }

    /// Started again on the same ports, with nothing stored: what a lost disk looks like.
    pub(crate) fn start_blank(&mut self) {
        self.data = self.dir.path().join("blank");
        self.start_again();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(data: &Path, (client, peer): (u16, u16), how: &How) -> Child {
    let scheme = if how.tls.is_some() { "https" } else { "http" };
    let (client, peer) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new("etcd");
    command
        .args(["--name", "private", "--log-level", "error"])
        .arg("--data-dir")
        .arg(data)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("private={peer}")]);
    if let Some(TlsFiles { cert, key, ca }) = &how.tls {
        command.arg("--cert-file").arg(cert).arg("--key-file").arg(key);
        command.arg("--trusted-ca-file").arg(ca).arg("--client-cert-auth");
    }
    if let Some(seconds) = how.token_ttl {
        command.args(["--auth-token-ttl", &seconds.to_string()]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("etcd is needed for these tests: install etcd-server, or leave out `real_etcd`")
}
