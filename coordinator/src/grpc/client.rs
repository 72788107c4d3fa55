//! A connection to a coordinator: what the command line and a forwarding follower use.

use crate::door::PING;
use crate::guard::Token;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_proto::wire::v1::metadata_client::MetadataClient;
use tidegate_proto::wire::v1::operator_client::OperatorClient;
use tidegate_proto::wire::v1::releases_client::ReleasesClient;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How many bytes an answer may have. A caller chooses how many instances one names, so only the frame of gRPC (4 GiB)
/// limits it, as over HTTP.
const MAX_ANSWER_BYTES: usize = usize::MAX;

/// What calls go through.
type Calls = InterceptedService<Channel, Bearer>;

/// A client of the operators' service.
pub type Client = OperatorClient<Calls>;

/// A client of the service about compute releases.
pub type Releases = ReleasesClient<Calls>;

/// A client of the service about metadata groups.
pub type Metadata = MetadataClient<Calls>;

/// A connection, over which every service is asked.
#[derive(Clone)]
pub struct Connection(Calls);

impl Connection {
    /// The operators' service.
    pub fn operator(&self) -> Client {
        OperatorClient::new(self.0.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// The service about compute releases.
    pub fn releases(&self) -> Releases {
        ReleasesClient::new(self.0.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    /// The service about metadata groups.
    pub fn metadata(&self) -> Metadata {
        MetadataClient::new(self.0.clone()).max_decoding_message_size(MAX_ANSWER_BYTES)
    }
}

/// Puts the token into every call.
#[derive(Clone)]
pub struct Bearer(Option<Token>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.header());
        }
        Ok(request)
    }
}

/// What a connection over TLS needs.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Whom to trust.
    pub ca: Option<PathBuf>,
    /// The certificate to show and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A coordinator that cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// The URL is none.
    #[error("{0:?} is no URL of a coordinator: http://HOST:PORT or https://HOST:PORT is allowed")]
    Url(String),
    /// TLS without anything to trust.
    #[error(
        "{0} speaks TLS: give the certificate authority that signed its certificate with --ca (a coordinator: --peer-ca)"
    )]
    NothingTrusted(String),
    /// A file cannot be read.
    #[error("could not read {path}")]
    Unreadable {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// No coordinator answers.
    #[error("no coordinator answers at {url}")]
    Connect {
        url: String,
        #[source]
        source: tonic::transport::Error,
    },
}

impl Trust {
    fn config(&self, url: &str) -> Result<ClientTlsConfig, Unreachable> {
        let ca = self.ca.as_deref().ok_or_else(|| Unreachable::NothingTrusted(url.to_owned()))?;
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        Ok(match &self.identity {
            Some((cert, key)) => config.identity(Identity::from_pem(read(cert)?, read(key)?)),
            None => config,
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Unreachable> {
    std::fs::read(path).map_err(|source| Unreachable::Unreadable { path: path.display().to_string(), source })
}

/// How long a coordinator may take to begin its answer, where the caller says nothing else.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects to a coordinator, whose every answer begins within [`CALL_TIMEOUT`].
pub async fn connect(url: &str, token: Option<Token>, trust: &Trust) -> Result<Connection, Unreachable> {
    connect_within(url, token, trust, CALL_TIMEOUT).await
}

/// Connects to a coordinator, whose every answer begins within `limit`: what is streamed may then take as long as it likes,
/// while the coordinator answers pings.
pub async fn connect_within(
    url: &str,
    token: Option<Token>,
    trust: &Trust,
    limit: Duration,
) -> Result<Connection, Unreachable> {
    let malformed = || Unreachable::Url(url.to_owned());
    let scheme = url.split_once("://").filter(|(_, rest)| !rest.is_empty()).map(|(scheme, _)| scheme);
    let mut endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| malformed())?;
    match scheme {
        Some("http") => {}
        Some("https") => {
            endpoint = endpoint
                .tls_config(trust.config(url)?)
                .map_err(|source| Unreachable::Connect { url: url.to_owned(), source })?;
        }
        _ => return Err(malformed()),
    }
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT.min(limit)).timeout(limit).tcp_nodelay(true);
    // A machine that lost its power or its network closes no connection: without pings a stream from it never ends.
    let endpoint = endpoint.http2_keep_alive_interval(PING).keep_alive_timeout(PING);
    let channel =
        endpoint.connect().await.map_err(|source| Unreachable::Connect { url: url.to_owned(), source })?;
    Ok(Connection(InterceptedService::new(channel, Bearer(token))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Listener;
    use axum::body::{Body, Bytes};
    use axum::http::{HeaderMap, HeaderValue};
    use http_body_util::{BodyExt, Full};
    use prost::Message;
    use std::future::ready;
    use tidegate_proto::wire::v1::{JsonReply, LeaderRequest, ShowGroupRequest, ShowStreamRequest};
    use tokio::time::Instant;
    use tonic::Code;
    use tonic::service::Routes;
    use tonic::transport::Server;

    /// The URL of a coordinator whose every answer is this message.
    async fn answering(message: &impl Message) -> String {
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", tcp.local_addr().unwrap());
        let message = message.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let frame = Bytes::from([&[0_u8][..], &length[..], &message[..]].concat());
        let answer = move || {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let body = Full::new(frame.clone()).with_trailers(ready(Some(Ok(trailers))));
            ready(([("content-type", "application/grpc")], Body::new(body)))
        };
        let routes = Routes::from(axum::Router::new().fallback(answer));
        let incoming = Listener::new(tcp, None).incoming();
        tokio::spawn(Server::builder().add_routes(routes).serve_with_incoming(incoming));
        url
    }

    #[tokio::test]
    async fn answer_of_more_than_4_mib_is_read() {
        // The bytes of a `LeaderReply` too, whose first field is a text.
        let url = answering(&JsonReply { json: "x".repeat(5 * 1024 * 1024) }).await;
        let connection = connect(&url, None, &Trust::default()).await.unwrap();
        let leader = connection.operator().leader(LeaderRequest {}).await.unwrap().into_inner();
        let stream = connection.releases().show_stream(ShowStreamRequest::default()).await.unwrap();
        let group = connection.metadata().show_group(ShowGroupRequest::default()).await.unwrap();
        for text in [leader.address, stream.into_inner().json, group.into_inner().json] {
            assert_eq!(text.len(), 5 * 1024 * 1024);
        }
    }

    #[tokio::test]
    async fn silent_connection_ends_before_the_time_limit_of_a_call() {
        let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", deaf.local_addr().unwrap());
        let limit = Duration::from_secs(3600);
        let connection = connect_within(&url, None, &Trust::default(), limit).await.unwrap();
        tokio::time::pause();
        let began = Instant::now();
        let broken = connection.operator().leader(LeaderRequest {}).await.unwrap_err();
        assert_eq!(broken.code(), Code::Unavailable, "{broken:?}");
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
}
