//! Reads HAProxy's `show stat`, from HAProxy or from the built-in balancer.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// An answer takes milliseconds; one that takes longer will not come.
const LIMIT: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// The lines of one answer, by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowStat {
    /// The columns, in order.
    pub columns: Vec<String>,
    lines: Vec<HashMap<String, String>>,
}

impl ShowStat {
    /// Asks the socket.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn ask(socket: &Path) -> Result<Self, String> {
        Self::parse(&command(socket, "show stat").await?)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// When the first line is not a header, or another line has not as many fields as that.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let header = lines.next().and_then(|line| line.strip_prefix("# "));
        let header = header.ok_or_else(|| format!("no header, but {:?}", text.lines().next()))?;
        let columns: Vec<String> = header.trim_end_matches(',').split(',').map(str::to_owned).collect();
        let lines = lines.map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            if fields.len() < columns.len() {
                return Err(format!(
                    "a line of {} fields under {} columns: {line}",
                    fields.len(),
                    columns.len()
                ));
            }
            Ok(columns.iter().cloned().zip(fields.iter().map(|field| (*field).to_owned())).collect())
        });
        let lines = lines.collect::<Result<_, String>>()?;
        Ok(Self { columns, lines })
    }

    /// One field of one server's line; `None` if there is no such server or column.
    pub fn of(&self, server: &str, column: &str) -> Option<&str> {
        self.lines
            .iter()
            .find(|line| line.get("svname").is_some_and(|name| name == server))
            .and_then(|line| line.get(column))
            .map(String::as_str)
    }

    /// The names in order: FRONTEND, the servers, BACKEND.
    pub fn names(&self) -> Vec<&str> {
        self.lines.iter().filter_map(|line| line.get("svname")).map(String::as_str).collect()
    }

    /// Whether the server is down and has no session.
    pub fn is_drained(&self, server: &str) -> bool {
        self.of(server, "status").is_some_and(|status| status.starts_with("DOWN"))
            && self.of(server, "scur") == Some("0")
    }
}

/// Sends one command to a runtime socket and answers all that comes back.
///
/// # Errors
/// What went wrong, in words.
pub async fn command(socket: &Path, command: &str) -> Result<String, String> {
    let asked = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(format!("{command}\n").as_bytes()).await?;
        let mut text = String::new();
        stream.take(LARGEST).read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(e)) => Err(format!("{}: {e}", socket.display())),
        Err(_) => Err(format!("{}: no answer in {LIMIT:?}", socket.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::ShowStat;

    #[test]
    fn text_that_is_no_answer_is_refused() {
        assert!(ShowStat::parse("").is_err());
        assert!(ShowStat::parse("Permission denied\n").is_err());
        let short = ShowStat::parse("# pxname,svname,scur,status,\np,n1,0\n").unwrap_err();
        assert!(short.contains("fields"), "{short}");
    }

    #[test]
    fn down_with_a_session_is_not_drained() {
        let stat = |status: &str, scur: u32| {
            let text = format!("# pxname,svname,scur,status,\np,n1,{scur},{status},\n\n");
            ShowStat::parse(&text).map(|stat| stat.is_drained("n1"))
        };
        assert_eq!(stat("DOWN", 0), Ok(true));
        assert_eq!(stat("DOWN 1/2", 0), Ok(true));
        assert_eq!(stat("DOWN", 1), Ok(false));
        assert_eq!(stat("UP", 0), Ok(false));
        assert_eq!(stat("UP 1/2", 0), Ok(false));
    }
}
