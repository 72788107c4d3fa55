//! The unix socket on which the balancer reports its servers' state, in the form of HAProxy's runtime API.
//!
//! One line with one or more commands, divided by `;`, then the answers, then the end of the connection. Only reads:
//! nothing can be changed here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::balancer::health::Thresholds;
use crate::balancer::server::Servers;
use crate::balancer::stat;

/// The longest line of commands, in bytes; HAProxy's own limit is its buffer of 16 KiB.
const LONGEST_LINE: u64 = 16 << 10;
/// How long a client may take to send its line.
const LINE_LIMIT: Duration = Duration::from_secs(10);

/// What the socket reports.
#[derive(Debug, Clone)]
pub struct Reported {
    /// The servers.
    pub servers: Arc<Servers>,
    /// How checks are counted.
    pub thresholds: Thresholds,
}

/// Makes the socket; a stale file of a former process is replaced, a live one is refused.
///
/// # Errors
/// When another process answers on it, or the file cannot be made.
pub fn bind(path: &Path) -> std::io::Result<(UnixListener, SocketFile)> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::AddrInUse,
            "another process answers on this socket",
        ));
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    Ok((UnixListener::bind(path)?, SocketFile(path.to_owned())))
}

/// The socket's file, removed when the balancer ends.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Answers until the task is dropped.
pub async fn answer(listener: UnixListener, reported: Reported) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let reported = reported.clone();
                tokio::spawn(async move {
                    if let Err(e) = converse(stream, reported).await {
                        tracing::debug!(error = %e, "a client of the stats socket went away");
                    }
                });
            }
            Err(e) => {
                tracing::warn!(error = %e, "the stats socket could not accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, reported: Reported) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader.take(LONGEST_LINE));
    let read = tokio::time::timeout(LINE_LIMIT, reader.read_until(b'\n', &mut line));
    if read.await.map_err(std::io::Error::other)?? == 0 {
        return Ok(());
    }
    let line = String::from_utf8_lossy(&line);
    for command in line.trim().split(';') {
        writer.write_all(reply(command.trim(), &reported).as_bytes()).await?;
    }
    writer.shutdown().await
}

fn reply(command: &str, reported: &Reported) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["show", "stat", ..] => {
            let servers: Vec<_> =
                reported.servers.all().iter().map(|server| (server.at.clone(), server.snapshot())).collect();
            stat::show(&servers, reported.thresholds)
        }
        ["show", "info"] => format!(
            "Name: tidegate-balancer\nVersion: {}\nPid: {}\n\n",
            env!("CARGO_PKG_VERSION"),
            std::process::id()
        ),
        ["help"] => format!("The following commands are valid at this level:\n{COMMANDS}\n"),
        _ => format!("Unknown command. Please enter one of the following commands only:\n{COMMANDS}\n"),
    }
}

const COMMANDS: &str = "  help      : list all commands\n\
                        \x20 show info : report information about the running process\n\
                        \x20 show stat : report counters for each proxy and server\n";
