//! The smallest service that can be upgraded: one thread, one question at a time, up within a few milliseconds. It has
//! no state, so what an upgrade of it takes beyond its hooks is the upgrade's own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(1);

/// What it answers by.
#[derive(Debug)]
pub struct SmallService {
    /// Its version.
    pub version: u32,
    /// What makes its health check refuse.
    pub disable_file: PathBuf,
}

/// Answers until it is ended.
///
/// # Errors
/// When the address cannot be listened at.
pub fn serve(listen: SocketAddr, service: &SmallService) -> std::io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    for stream in listener.incoming().flatten() {
        // A client that went away is none.
        let _ = answer(stream, service);
    }
    Ok(())
}

fn answer(mut stream: TcpStream, service: &SmallService) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The whole head is read: closing with unread bytes would cut the answer off.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (status, body) = service.about(first.split(' ').nth(1).unwrap_or_default());
    let length = body.len();
    // In one piece, as services answer: each piece would be a packet, and wake the client.
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes())
}

impl SmallService {
    fn about(&self, path: &str) -> (&'static str, String) {
        match path {
            "/version" => ("200 OK", self.version.to_string()),
            "/ready" => ("200 OK", String::new()),
            "/healthcheck" if self.disable_file.exists() => {
                ("503 Service Unavailable", "DISABLED BY FILE".to_owned())
            }
            "/healthcheck" => ("200 OK", String::new()),
            // It answers one question at a time, so that nothing else is.
            "/in-flight" => ("200 OK", "0".to_owned()),
            _ => ("404 Not Found", String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SmallService;

    #[test]
    fn the_file_disables_the_health_check_and_nothing_else() {
        let room = tempfile::tempdir().unwrap();
        let service = SmallService { version: 7, disable_file: room.path().join("disable") };
        assert_eq!(service.about("/healthcheck").0, "200 OK");
        std::fs::write(&service.disable_file, "").unwrap();
        assert_eq!(service.about("/healthcheck").0, "503 Service Unavailable");
        assert_eq!((service.about("/ready").0, service.about("/version").1.as_str()), ("200 OK", "7"));
        assert_eq!(service.about("/else").0, "404 Not Found");
    }
}
