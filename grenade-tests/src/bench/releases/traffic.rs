//! What an etcd has been asked, as it counts itself.

use std::net::SocketAddr;
use std::time::Duration;

use crate::world::wait::wait_for_200;

/// Time limit of an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Since it was started, or between two looks.
#[derive(Debug, PartialEq)]
pub(super) struct Traffic {
    /// Ranges, transactions, puts and deletes.
    pub requests: f64,
    /// What went over its clients' connections, both ways.
    pub bytes: f64,
}

impl Traffic {
    /// As it is now.
    pub(super) async fn now(etcd: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self::read(&wait_for_200("the metrics of etcd", ANSWER, etcd, "/metrics").await?))
    }

    /// What came after an earlier look.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self { requests: self.requests - earlier.requests, bytes: self.bytes - earlier.bytes }
    }

    fn read(text: &str) -> Self {
        let sum = |wanted: &dyn Fn(&str) -> bool| -> f64 {
            let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
            lines.filter(|(name, _)| wanted(name)).filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
        };
        let unary = ["Range", "Txn", "Put", "DeleteRange"].map(|method| format!("grpc_method=\"{method}\""));
        Self {
            requests: sum(&|name| {
                name.starts_with("grpc_server_started_total")
                    && unary.iter().any(|method| name.contains(method))
            }),
            bytes: sum(&|name| {
                name.starts_with("etcd_network_client_grpc_received_bytes_total")
                    || name.starts_with("etcd_network_client_grpc_sent_bytes_total")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_counts_are_read() {
        let text = "# HELP etcd_network_client_grpc_sent_bytes_total x\n\
                    etcd_network_client_grpc_received_bytes_total 100\n\
                    etcd_network_client_grpc_sent_bytes_total 2.5e+03\n\
                    grpc_server_started_total{grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\"} 7\n\
                    grpc_server_started_total{grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\"} 1\n\
                    grpc_server_started_total{grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\"} 3\n";
        assert_eq!(Traffic::read(text), Traffic { requests: 10.0, bytes: 2_600.0 });
    }
}
