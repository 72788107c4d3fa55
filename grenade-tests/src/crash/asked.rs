//! Answers a process that asks, before and after an act of its own, whether it may go on: see `crash::point` of the
//! agent and of the schema engine, which ask in debug builds only.

use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::crash::Reaper;
use crate::world::WorldError;

/// The variable that names the socket to a process.
pub const VARIABLE: &str = "TIDEGATE_CRASH_ASK";

/// A socket that answers one process; it ends with this value.
#[derive(Debug)]
pub struct Asked {
    socket: PathBuf,
    _end: DropGuard,
}

impl Asked {
    /// For the process of this name, on a socket in `dir`.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn start(dir: &Path, process: &str, reaper: &Reaper) -> Result<Self, WorldError> {
        let socket = dir.join(format!("{process}.crash"));
        let listener = UnixListener::bind(&socket).map_err(|source| WorldError::Files {
            tried: "bind",
            path: socket.clone(),
            source,
        })?;
        let end = CancellationToken::new();
        let (process, reaper) = (process.to_owned(), reaper.clone());
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, process.clone(), reaper.clone()));
            }
        }));
        Ok(Self { socket, _end: end.drop_guard() })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

async fn answer(mut stream: UnixStream, process: String, reaper: Reaper) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(&mut stream).read_line(&mut line).await?;
    let killed = match line.trim_end().split_once(' ') {
        Some(("before", kind)) => reaper.begins(&process, kind).await.is_none(),
        Some(("after", kind)) => reaper.did(&process, kind).await,
        _ => false,
    };
    match killed {
        // A process that is ending gets no answer.
        true => stream.readable().await,
        false => stream.write_all(b"g").await,
    }
}
