//! The configuration of a coordinator: flags, each with an environment variable, validated here once. Nothing else reads
//! the environment, except for the database URLs that specs name.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tidegate_proto::{Prefix, Span};

/// Flags of `tidegate coordinator`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    /// Store: `embedded:DIR` (in this process, single node) or `etcd:URL[,URL…]`.
    #[arg(long, env = "TIDEGATE_STORE", value_name = "embedded:DIR|etcd:URL,…")]
    pub store: StoreChoice,
    /// Serve the embedded store to agents (and etcdctl) on this address; port 0 takes a free one.
    #[arg(long, env = "TIDEGATE_STORE_LISTEN", value_name = "ADDR")]
    pub store_listen: Option<SocketAddr>,
    /// User of the etcd cluster.
    #[arg(long, env = "TIDEGATE_STORE_USER", value_name = "NAME", requires = "store_password_file")]
    pub store_user: Option<String>,
    /// File with that user's password.
    #[arg(long, env = "TIDEGATE_STORE_PASSWORD_FILE", value_name = "PATH", requires = "store_user")]
    pub store_password_file: Option<PathBuf>,
    /// Certificate authority of the etcd cluster (PEM).
    #[arg(long, env = "TIDEGATE_STORE_CA", value_name = "PATH")]
    pub store_ca: Option<PathBuf>,
    /// Client certificate for the etcd cluster (PEM).
    #[arg(long, env = "TIDEGATE_STORE_CERT", value_name = "PATH", requires = "store_key")]
    pub store_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM).
    #[arg(long, env = "TIDEGATE_STORE_KEY", value_name = "PATH", requires = "store_cert")]
    pub store_key: Option<PathBuf>,
    /// HTTP address, for /healthz, /readyz, /metrics and the JSON API of every command (GET /v1/openapi.json). Port 0: a free port.
    #[arg(long, env = "TIDEGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:7401")]
    pub http: SocketAddr,
    /// gRPC address, for operators. Port 0: a free port.
    #[arg(long, env = "TIDEGATE_GRPC", value_name = "ADDR", default_value = "127.0.0.1:7400")]
    pub grpc: SocketAddr,
    /// URL under which other coordinators reach this one's gRPC. Default: the address that --grpc bound.
    #[arg(long, env = "TIDEGATE_ADVERTISE", value_name = "URL")]
    pub advertise: Option<String>,
    /// Key prefix, for regions or environments that share a store.
    #[arg(long, env = "TIDEGATE_PREFIX", value_name = "PREFIX", default_value_t = Prefix::default())]
    pub prefix: Prefix,
    /// Directory that contains the migrations that specs name.
    #[arg(long, env = "TIDEGATE_MIGRATIONS", value_name = "DIR")]
    pub migrations: Option<PathBuf>,
    /// Default settings of every compute: a YAML or JSON file of NAME: VALUE (strings). The manifest of a release overrides them.
    #[arg(long, env = "TIDEGATE_COMPUTE_SETTINGS", value_name = "PATH")]
    pub compute_settings: Option<PathBuf>,
    /// Keep a file here for each release stream, STREAM.json, that says what main traffic should go to.
    #[arg(long, env = "TIDEGATE_TRAFFIC_DIR", value_name = "DIR")]
    pub traffic_dir: Option<PathBuf>,
    /// TTL of the leader's lease: 1s to 5m. Another coordinator takes over after it.
    #[arg(long, env = "TIDEGATE_LEADER_TTL", value_name = "SPAN", default_value = "5s", value_parser = leader_ttl)]
    pub leader_ttl: Duration,
    /// How long to wait for the reports of agents before acting on a store that is new to this coordinator and has
    /// something under way: it may be a backup, which agents contradict. 0s to 5m.
    #[arg(long, alias = "hearing", env = "TIDEGATE_REPORT_GRACE", value_name = "SPAN", default_value = "3s", value_parser = report_grace)]
    pub report_grace: Duration,
    /// File to which the bound addresses are written, as JSON, once all sockets are bound.
    #[arg(long, env = "TIDEGATE_READY_FILE", value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
    /// Certificate of this coordinator (PEM); with it gRPC and HTTP speak TLS.
    #[arg(long, env = "TIDEGATE_TLS_CERT", value_name = "PATH", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM).
    #[arg(long, env = "TIDEGATE_TLS_KEY", value_name = "PATH", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Certificate authority of callers (PEM): a certificate that it signed is its holder's name, by `tidegate token create --certificate`.
    #[arg(long, env = "TIDEGATE_TLS_CLIENT_CA", value_name = "PATH", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Require a client certificate, also from callers with a token and for /healthz.
    #[arg(long, env = "TIDEGATE_TLS_CLIENT_REQUIRED", requires = "tls_client_ca")]
    pub tls_client_required: bool,
    /// Certificate authority of the other coordinators (PEM), for forwarding to a leader that speaks TLS.
    #[arg(long, env = "TIDEGATE_PEER_CA", value_name = "PATH")]
    pub peer_ca: Option<PathBuf>,
    /// File that holds the coordinators' own token (role operate). The same option as of every command.
    #[arg(skip)]
    pub token_file: Option<PathBuf>,
    /// Allow addresses that are not loopback without TLS. Tokens and answers can then be read on the network. Calls that change
    /// something still need a token, but the embedded store on such an address needs none and controls the whole fleet.
    #[arg(long, env = "TIDEGATE_INSECURE")]
    pub insecure: bool,
}

/// Where the truth is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    /// In this process, in a directory.
    Embedded(PathBuf),
    /// In an etcd cluster.
    Etcd(Vec<String>),
}

/// A text that names no store.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} names no store: embedded:DIR or etcd:URL[,URL…] is allowed, each URL beginning with http:// or https://"
)]
pub(crate) struct NotAStore(String);

impl FromStr for StoreChoice {
    type Err = NotAStore;
    fn from_str(text: &str) -> Result<Self, NotAStore> {
        let refused = || NotAStore(text.to_owned());
        match text.split_once(':') {
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Self::Embedded(dir.into())),
            Some(("etcd", urls)) => {
                let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
                let good = |url: &String| {
                    ["http://", "https://"]
                        .iter()
                        .any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
                };
                if urls.iter().all(good) { Ok(Self::Etcd(urls)) } else { Err(refused()) }
            }
            _ => Err(refused()),
        }
    }
}

fn leader_ttl(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|e| format!("{e}"))?;
    // etcd grants leases in whole seconds; above five minutes a dead leader would be noticed too late.
    if (1_000..=300_000).contains(&span.as_millis()) {
        Ok(span.into())
    } else {
        Err(format!("{span} is out of range: 1s to 5m is allowed"))
    }
}

fn report_grace(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|e| format!("{e}"))?;
    if span.as_millis() <= 300_000 {
        Ok(span.into())
    } else {
        Err(format!("{span} is out of range: 0s to 5m is allowed"))
    }
}

/// Settings that contradict each other.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Contradiction {
    /// An open door.
    #[error(
        "{flag} {addr} is not a loopback address: give --tls-cert and --tls-key, or --insecure to let tokens and answers cross the network unprotected"
    )]
    Open {
        /// The flag.
        flag: &'static str,
        /// The address that it names.
        addr: SocketAddr,
    },
    /// The embedded store speaks no TLS.
    #[error(
        "--store-listen {0} is not a loopback address, and the embedded store speaks no TLS: use etcd for more than one machine, or --insecure"
    )]
    OpenStore(SocketAddr),
    /// Nothing to serve.
    #[error(
        "--store-listen serves the embedded store, but --store names an etcd cluster: agents connect to etcd itself"
    )]
    NothingToServe,
}

/// The file in the embedded store's directory that holds the operator's token.
pub(crate) const OPERATOR_TOKEN: &str = "operator.token";

impl Settings {
    /// Path of the coordinators' own token: as configured, or beside the embedded store.
    pub(crate) fn own_token(&self) -> Option<PathBuf> {
        self.token_file.clone().or_else(|| self.kept_token())
    }

    /// The file beside the embedded store, which is made where it is missing.
    pub(crate) fn kept_token(&self) -> Option<PathBuf> {
        match &self.store {
            StoreChoice::Embedded(dir) => Some(dir.join(OPERATOR_TOKEN)),
            StoreChoice::Etcd(_) => None,
        }
    }

    /// Whether what was asked for fits together.
    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        let guarded = self.insecure || self.tls_cert.is_some();
        for (flag, addr) in [("--http", self.http), ("--grpc", self.grpc)] {
            if !addr.ip().is_loopback() && !guarded {
                return Err(Contradiction::Open { flag, addr });
            }
        }
        match (self.store_listen, &self.store) {
            (Some(_), StoreChoice::Etcd(_)) => Err(Contradiction::NothingToServe),
            (Some(addr), _) if !addr.ip().is_loopback() && !self.insecure => {
                Err(Contradiction::OpenStore(addr))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_embedded_or_etcd() {
        assert_eq!(
            "embedded:/var/lib/x".parse::<StoreChoice>().unwrap(),
            StoreChoice::Embedded("/var/lib/x".into())
        );
        let two = StoreChoice::Etcd(vec!["http://a:2379".to_owned(), "https://b:2379".to_owned()]);
        assert_eq!("etcd:http://a:2379,https://b:2379".parse::<StoreChoice>().unwrap(), two);
        for bad in
            ["", "embedded:", "etcd:", "etcd:a:2379", "etcd:http://", "etcd:http://a,", "redis:x", "/dir"]
        {
            assert!(bad.parse::<StoreChoice>().is_err(), "{bad:?} was taken for a store");
        }
    }

    #[test]
    fn times_that_may_be_set_are_bounded() {
        assert!(leader_ttl("5s").is_ok());
        for bad in ["0s", "999ms", "6m", "5", "-1s"] {
            assert!(leader_ttl(bad).is_err(), "{bad} was allowed");
        }
        assert_eq!(report_grace("0s"), Ok(Duration::ZERO));
        assert_eq!(report_grace("3s"), Ok(crate::report::REPORT_GRACE));
        assert!(report_grace("6m").is_err());
    }
}
