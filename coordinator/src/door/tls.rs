//! The certificates of this coordinator, reloaded when they are renewed: the last complete set is used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// What one door speaks, as it is now.
pub type Config = watch::Receiver<Arc<ServerConfig>>;

/// Where they are.
#[derive(Debug, Clone)]
pub struct Files {
    /// The certificate of this coordinator, with those that lead to its authority (PEM).
    pub cert: PathBuf,
    /// Its key (PEM).
    pub key: PathBuf,
    /// Who signs callers' certificates (PEM); none = callers are asked for none.
    pub client_ca: Option<PathBuf>,
    /// Whether a caller without a certificate is turned away at once.
    pub client_required: bool,
}

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A file cannot be read.
    #[error("could not read {path}")]
    Unreadable {
        path: String,
        #[source]
        source: io::Error,
    },
    /// They are not what they should be, or do not belong together.
    #[error("the TLS certificate {cert} and key {key} cannot be used: {why}")]
    Malformed {
        /// Which certificate.
        cert: String,
        key: String,
        why: String,
    },
}

/// What was in the files.
#[derive(PartialEq, Eq)]
struct Read {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// The certificates of both doors.
pub struct Certificates {
    files: Files,
    read: Read,
    grpc: watch::Sender<Arc<ServerConfig>>,
    http: watch::Sender<Arc<ServerConfig>>,
}

impl Certificates {
    /// Reads them.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn new(files: Files) -> Result<Self, Unusable> {
        let read = files.read()?;
        let (grpc, http) = files.configs(&read)?;
        Ok(Self { files, read, grpc: watch::Sender::new(grpc), http: watch::Sender::new(http) })
    }

    /// What gRPC speaks.
    pub fn grpc(&self) -> Config {
        self.grpc.subscribe()
    }

    /// What HTTP speaks.
    pub fn http(&self) -> Config {
        self.http.subscribe()
    }

    /// Reads them again; whether they were new. New connections use them, old ones go on.
    ///
    /// # Errors
    /// When they cannot be used; the former ones are used until they can (a renewal writes two files, one after the
    /// other).
    pub fn renew(&mut self) -> Result<bool, Unusable> {
        let read = self.files.read()?;
        if read == self.read {
            return Ok(false);
        }
        let (grpc, http) = self.files.configs(&read)?;
        self.read = read;
        self.grpc.send_replace(grpc);
        self.http.send_replace(http);
        Ok(true)
    }
}

impl Files {
    fn read(&self) -> Result<Read, Unusable> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|source| Unusable::Unreadable { path: path.display().to_string(), source })
        };
        Ok(Read {
            cert: read(&self.cert)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }

    /// For gRPC and for HTTP: they differ in the protocol that callers are offered.
    fn configs(&self, read: &Read) -> Result<(Arc<ServerConfig>, Arc<ServerConfig>), Unusable> {
        let config = self.config(read).map_err(|why| Unusable::Malformed {
            cert: self.cert.display().to_string(),
            key: self.key.display().to_string(),
            why,
        })?;
        let speaking = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        Ok((speaking(b"h2"), speaking(b"http/1.1")))
    }

    fn config(&self, read: &Read) -> Result<ServerConfig, String> {
        let chain = certificates(&read.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&read.key).map_err(|e| e.to_string())?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        let builder = match &read.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(ca)? {
                    roots.add(authority).map_err(|e| format!("--tls-client-ca: {e}"))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if self.client_required { verifier } else { verifier.allow_unauthenticated() };
                builder
                    .with_client_cert_verifier(verifier.build().map_err(|e| format!("--tls-client-ca: {e}"))?)
            }
        };
        builder.with_single_cert(chain, key).map_err(|e| e.to_string())
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    if chain.is_empty() { Err("there is no certificate in the file".to_owned()) } else { Ok(chain) }
}
