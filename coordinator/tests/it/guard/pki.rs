//! An authority of our own, certificates that it signed, and callers that show them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_coordinator::door::Files;
use tidegate_coordinator::grpc::client::Trust;
use tidegate_coordinator::guard::Token;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// An authority, the coordinators' certificate (`server`), and one for each name.
pub(super) struct Pki {
    dir: TempDir,
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

impl Pki {
    pub(super) fn new(names: &[&str]) -> Self {
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
        let pki = Self { dir: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(pki.path("ca.crt"), pki.issuer.pem()).unwrap();
        for name in ["server"].iter().chain(names) {
            let (cert, key) = pki.issue(name);
            std::fs::write(pki.path(&format!("{name}.crt")), cert).unwrap();
            std::fs::write(pki.path(&format!("{name}.key")), key).unwrap();
        }
        pki
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A certificate of this subject, for 127.0.0.1, and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// The files of a coordinator's configuration.
    pub(super) fn files(&self, client_required: bool) -> Files {
        Files {
            cert: self.path("server.crt"),
            key: self.path("server.key"),
            client_ca: Some(self.path("ca.crt")),
            client_required,
        }
    }

    /// The first half of a renewal; answers the key that belongs to it.
    pub(super) fn renew_certificate(&self) -> String {
        let (cert, key) = self.issue("server");
        std::fs::write(self.path("server.crt"), cert).unwrap();
        key
    }

    /// The second.
    pub(super) fn renew_key(&self, key: &str) {
        std::fs::write(self.path("server.key"), key).unwrap();
    }

    /// What a caller trusts, and shows.
    pub(super) fn trust(&self, name: Option<&str>) -> Trust {
        let identity =
            name.map(|name| (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key"))));
        Trust { ca: Some(self.path("ca.crt")), identity }
    }

    /// A certificate and its key.
    pub(super) fn pem(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let read = |kind: &str| std::fs::read(self.path(&format!("{name}.{kind}"))).unwrap();
        (read("crt"), read("key"))
    }

    /// The same for callers of HTTP.
    pub(super) fn connector(&self, name: Option<&str>) -> TlsConnector {
        self.connector_with(name.map(|name| self.pem(name)))
    }

    pub(super) fn connector_with(&self, identity: Option<(Vec<u8>, Vec<u8>)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(&cert).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key).unwrap()).unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

/// What tonic needs of it.
pub(super) fn client(trust: &Trust) -> ClientTlsConfig {
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    let config =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(trust.ca.as_ref().unwrap())));
    match &trust.identity {
        Some((cert, key)) => config.identity(Identity::from_pem(read(cert), read(key))),
        None => config,
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// One GET, over TLS where there is a connector.
pub(super) async fn get(
    at: SocketAddr,
    path: &str,
    token: Option<&Token>,
    tls: Option<&TlsConnector>,
) -> io::Result<Answer> {
    let tcp = TcpStream::connect(at).await?;
    match tls {
        None => exchange(tcp, "GET", path, token).await,
        Some(tls) => exchange(tls.connect(ServerName::from(at.ip()), tcp).await?, "GET", path, token).await,
    }
}

/// One request without a body.
pub(super) async fn request(
    at: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&Token>,
) -> io::Result<Answer> {
    exchange(TcpStream::connect(at).await?, method, path, token).await
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
    token: Option<&Token>,
) -> io::Result<Answer> {
    let bearer = token
        .map_or(String::new(), |token| format!("Authorization: {}\r\n", token.header().to_str().unwrap()));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\n{bearer}Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status.ok_or(io::ErrorKind::InvalidData)?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// The certificate that is served there now.
pub(super) async fn served(at: SocketAddr, tls: &TlsConnector) -> Vec<u8> {
    let stream = tls.connect(ServerName::from(at.ip()), TcpStream::connect(at).await.unwrap()).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}
