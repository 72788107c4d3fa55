//! The status of a server on a balancer's runtime socket: HAProxy's `show stat`, a CSV table with named columns. Works
//! with every balancer that answers alike.

use crate::config::address::Stats;
use crate::config::fragment::Balancer;
use crate::directive::seen::Balancers;
use crate::host::Host;
use std::time::Duration;
use tidegate_proto::record::report::BalancerReport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// The largest answer that is read, in bytes: some 10,000 servers.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;

/// What one balancer says of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its status, as it was printed.
    pub status: String,
    /// Sessions open now.
    pub sessions: u32,
    /// Where the balancer sends this instance's requests, where it says so (HAProxy: from level operator on).
    pub address: Option<String>,
}

impl ServerStatus {
    /// It gets new requests, without any doubt of the balancer's.
    pub fn is_up(&self) -> bool {
        // "UP 1/3" is on its way down; "no check" is always used.
        self.status == "UP" || self.status == "no check"
    }

    /// It gets no new requests. "DOWN 1/2" is on its way up, and not there yet.
    pub fn is_down(&self) -> bool {
        ["DOWN", "MAINT", "NOLB", "DRAIN"].iter().any(|word| self.status.starts_with(word))
    }
}

/// Asks every balancer, at the same time.
pub async fn ask_all(host: &dyn Host, balancers: &[Balancer], limit: Duration) -> Balancers {
    if balancers.is_empty() {
        return Balancers::None;
    }
    let words = futures::future::join_all(balancers.iter().map(|one| ask(host, one, limit))).await;
    let (mut up, mut down, mut sessions, mut said) = (true, true, 0u32, Vec::new());
    for (balancer, word) in balancers.iter().zip(words) {
        match word {
            Ok(word) => {
                up &= word.is_up();
                down &= word.is_down();
                sessions = sessions.saturating_add(word.sessions);
                said.push(BalancerReport {
                    balancer: balancer.to_string(),
                    status: word.status,
                    sessions: Some(word.sessions),
                });
            }
            Err(why) => return Balancers::Unreadable(format!("{balancer}: {why}")),
        }
    }
    Balancers::Said { up, down, sessions, each: said }
}

pub async fn ask(host: &dyn Host, balancer: &Balancer, limit: Duration) -> Result<ServerStatus, String> {
    let answer = tokio::time::timeout(limit, host.show_stat(&balancer.stats)).await;
    let csv = match answer {
        Ok(Ok(csv)) => csv,
        Ok(Err(e)) => return Err(format!("could not ask it: {e}")),
        Err(_) => return Err(format!("no answer within {} ms", limit.as_millis())),
    };
    find(&csv, &balancer.backend, &balancer.server)
}

/// Asks a runtime socket for its table.
pub async fn show_stat(stats: &Stats) -> std::io::Result<String> {
    match stats {
        Stats::Unix(path) => exchange(UnixStream::connect(path).await?).await,
        Stats::Tcp(address) => exchange(TcpStream::connect(address).await?).await,
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<String> {
    stream.write_all(b"show stat\n").await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The longest field that is kept, in characters. HAProxy's longest status is `MAINT (via BACKEND/SERVER)`.
const MAX_FIELD: usize = 200;

/// Finds the line of a server. Columns are found by their names: their order differs between versions. Fields are looked
/// up in place: a table may have as many as it has bytes.
pub fn find(csv: &str, backend: &str, server: &str) -> Result<ServerStatus, String> {
    let mut lines = csv.lines().skip_while(|line| !line.starts_with("# pxname,"));
    let header = lines.next().ok_or_else(|| {
        format!("its answer is not a `show stat` table: {:?}", csv.chars().take(60).collect::<String>())
    })?;
    let names = header.trim_start_matches("# ");
    let column = |name: &str| {
        names.split(',').position(|n| n == name).ok_or_else(|| format!("its table has no column {name}"))
    };
    let (proxy, name, status, sessions) =
        (column("pxname")?, column("svname")?, column("status")?, column("scur")?);
    let address = column("addr").ok();
    for line in lines {
        // Only the last columns are ever quoted, far behind these.
        let found = |at: usize| line.split(',').nth(at);
        if found(proxy) != Some(backend) || found(name) != Some(server) {
            continue;
        }
        let field = |at: usize| -> String { found(at).unwrap_or_default().chars().take(MAX_FIELD).collect() };
        let sessions = field(sessions);
        return Ok(ServerStatus {
            address: address.map(field).filter(|address| !address.is_empty()),
            status: field(status),
            sessions: sessions.parse().map_err(|_| format!("scur of {backend}/{server} is {sessions:?}"))?,
        });
    }
    Err(format!("it knows no server {server} in backend {backend}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight\n\
        front,FRONTEND,,,3,4,2000,9,0,0,0,0,0,,,,,OPEN,\n\
        pantry,n1,0,0,2,3,,9,0,0,,0,,0,0,0,0,UP,1\n\
        pantry,n2,0,0,0,3,,9,0,0,,0,,0,0,0,0,DOWN,1\n\
        pantry,n3,0,0,0,3,,9,0,0,,0,,0,0,0,0,UP 1/3,1\n\
        pantry,n4,0,0,0,3,,9,0,0,,0,,0,0,0,0,DOWN 1/2,1\n\
        pantry,n5,0,0,0,3,,9,0,0,,0,,0,0,0,0,MAINT (via x),1\n";

    #[test]
    fn a_servers_line_is_found_by_the_names_of_the_columns() {
        let word = find(TABLE, "pantry", "n1").unwrap();
        assert_eq!(word, ServerStatus { status: "UP".to_owned(), sessions: 2, address: None });
        for (server, up, down) in [
            ("n1", true, false),
            ("n2", false, true),
            ("n3", false, false),
            ("n4", false, true),
            ("n5", false, true),
        ] {
            let word = find(TABLE, "pantry", server).unwrap();
            assert_eq!((word.is_up(), word.is_down()), (up, down), "{word:?}");
        }
    }

    #[test]
    fn long_status_and_count_are_cut() {
        let table =
            |status: &str, count: &str| format!("# pxname,svname,scur,status\npantry,n1,{count},{status}\n");
        let long = "x".repeat(100_000);
        assert_eq!(find(&table(&long, "0"), "pantry", "n1").unwrap().status.len(), MAX_FIELD);
        assert!(find(&table("UP", &long), "pantry", "n1").unwrap_err().len() < 2 * MAX_FIELD);
    }

    #[test]
    fn missing_table_or_server_is_an_error() {
        assert!(find("Unknown command\n", "pantry", "n1").unwrap_err().contains("not a `show stat` table"));
        assert!(find(TABLE, "pantry", "n9").unwrap_err().contains("no server n9"));
        assert!(find(TABLE, "other", "n1").unwrap_err().contains("backend other"));
    }
}
