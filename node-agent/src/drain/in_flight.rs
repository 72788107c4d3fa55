//! Counts requests in flight: by the service's counter, or by the established connections of its port.

use crate::config::settings::InFlight;
use crate::directive::seen::InFlight as Seen;
use crate::fetch;
use crate::host::{Host, NoAnswer};
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Where the kernel has its tables of connections.
const TABLES: &str = "/proc/net";

/// The kernel's word for an established connection in its tables.
const ESTABLISHED: &str = "01";

/// Its word for a listener.
const LISTENS: &str = "0A";

pub async fn count(host: &dyn Host, how: &InFlight, limit: Duration) -> Seen {
    match how {
        InFlight::Http(url, pointer) => match fetch::number(host, url, pointer.as_deref(), limit).await {
            Ok(number) => u32::try_from(number).map_or(Seen::Unknown, Seen::Counted),
            Err(NoAnswer::Refused { .. }) => Seen::Refused,
            Err(error) => {
                tracing::debug!(%error, "could not count what is in flight");
                Seen::Unknown
            }
        },
        InFlight::Tcp(port) => host.connections(*port).await.map_or(Seen::Unknown, Seen::Counted),
    }
}

/// The established connections of a local port; none where the kernel does not provide them.
pub async fn connections(port: u16) -> Option<u32> {
    connections_in(Path::new(TABLES), port).await
}

/// Whether anything listens at a local port; none where the kernel does not provide that.
pub async fn is_listening(port: u16) -> Option<bool> {
    let tables = read(Path::new(TABLES)).await?;
    Some(tables.iter().any(|table| pairs(table, port, LISTENS).next().is_some()))
}

async fn connections_in(directory: &Path, port: u16) -> Option<u32> {
    let [four, six] = read(directory).await?;
    Some(established(&four, port).saturating_add(established(&six, port)))
}

/// The tables of both families. A listener for both has its IPv4 connections in the table of IPv6: where that is there and
/// cannot be read, nothing is known.
async fn read(directory: &Path) -> Option<[String; 2]> {
    let four = tokio::fs::read_to_string(directory.join("tcp")).await.ok()?;
    let six = match tokio::fs::read_to_string(directory.join("tcp6")).await {
        // A machine without IPv6 has no such table.
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.ok()?,
    };
    Some([four, six])
}

/// Counts the established connections of a local port in the kernel's table. While other connections come and go, the
/// kernel may list one several times: each pair of addresses counts once.
fn established(table: &str, port: u16) -> u32 {
    let found: HashSet<_> = pairs(table, port, ESTABLISHED).collect();
    u32::try_from(found.len()).unwrap_or(u32::MAX)
}

/// The addresses of both ends of each line of a local port in this state.
fn pairs<'a>(table: &'a str, port: u16, state: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let ours = format!(":{port:04X}");
    let lines = table.lines().skip(1).filter_map(move |line| pair(line, state));
    lines.filter(move |(local, _)| local.ends_with(&ours))
}

/// The addresses of both ends, where the line is of a connection in this state.
fn pair<'a>(line: &'a str, state: &str) -> Option<(&'a str, &'a str)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, remote) = (fields.next()?, fields.next()?);
    (fields.next()? == state).then_some((local, remote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    /// The kernel's table as it was read while connections of other ports came and went, without the columns that follow.
    const TABLE: &str = "
  sl  local_address rem_address   st
   0: 0100007F:1F90 00000000:0000 0A
   1: 0100007F:1F90 0100007F:C350 01
   2: 0100007F:C350 0100007F:1F90 01
   3: 0100007F:1F90 0100007F:C351 01
   4: 0100007F:1F90 0100007F:C350 01
   5: 0100007F:1F90 0100007F:C352 06
   6: 0100007F:1F91 0100007F:C353 01
";

    #[test]
    fn connection_that_the_kernel_lists_twice_counts_once() {
        let table = TABLE.trim_start_matches('\n');
        assert_eq!(established(table, 8080), 2);
        assert_eq!(established(table, 8081), 1);
        assert_eq!(established(table, 8082), 0);
        assert_eq!(pairs(table, 8080, LISTENS).count(), 1);
        assert_eq!(pairs(table, 8081, LISTENS).count(), 0);
    }

    /// The agent may have no file descriptor left for the second table.
    #[tokio::test]
    async fn unreadable_table_of_ipv6_leaves_the_count_unknown() {
        let room = tempfile::tempdir().unwrap();
        let six = room.path().join("tcp6");
        std::fs::write(room.path().join("tcp"), TABLE.trim_start_matches('\n')).unwrap();
        assert_eq!(connections_in(room.path(), 8080).await, Some(2), "a machine without IPv6");
        std::fs::create_dir(&six).unwrap();
        assert_eq!(connections_in(room.path(), 8082).await, None, "a directory cannot be read");
        std::fs::remove_dir(&six).unwrap();
        let mapped = "0000000000000000FFFF00000100007F";
        let line = format!("   0: {mapped}:1F92 {mapped}:C350 01\n");
        std::fs::write(&six, format!("  sl  local_address remote_address st\n{line}")).unwrap();
        assert_eq!(connections_in(room.path(), 8082).await, Some(1), "an IPv4 peer in that table");
    }

    /// Another process may connect to this port for a moment, where it asks a port that was free before.
    #[tokio::test]
    async fn established_connections_of_the_port_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        comes_to(port, 0).await;
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        comes_to(port, 1).await;
        drop((client, server));
        comes_to(port, 0).await;
    }

    async fn comes_to(port: u16, expected: u32) {
        let limit = Duration::from_secs(5);
        let until = Instant::now() + limit;
        loop {
            let seen = count(&Machine, &InFlight::Tcp(port), limit).await;
            if seen == Seen::Counted(expected) {
                return;
            }
            assert!(Instant::now() < until, "{seen:?} and not {expected} for {limit:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
