//! Counts requests in flight: by the service's counter, or by the established connections of its port.

use crate::config::settings::InFlight;
use crate::directive::seen::InFlight as Seen;
use crate::fetch;
use crate::host::{Host, NoAnswer};
use std::time::Duration;

/// The kernel's word for an established connection in its tables.
const ESTABLISHED: &str = "01";

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
    let four = tokio::fs::read_to_string("/proc/net/tcp").await.ok()?;
    // A machine without IPv6 has no such table.
    let six = tokio::fs::read_to_string("/proc/net/tcp6").await.unwrap_or_default();
    Some(established(&four, port).saturating_add(established(&six, port)))
}

/// Counts the established connections of a local port in the kernel's table.
fn established(table: &str, port: u16) -> u32 {
    let ours = format!(":{port:04X}");
    let lines = table.lines().skip(1).filter(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|local| local.ends_with(&ours));
        local && fields.nth(1) == Some(ESTABLISHED)
    });
    u32::try_from(lines.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn established_connections_of_the_port_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let how = InFlight::Tcp(port);
        let limit = Duration::from_secs(5);
        assert_eq!(count(&Machine, &how, limit).await, Seen::Counted(0));
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(count(&Machine, &how, limit).await, Seen::Counted(1));
        drop((client, server));
        assert_eq!(count(&Machine, &how, limit).await, Seen::Counted(0));
    }
}
