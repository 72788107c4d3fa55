//! The store's endpoints and credentials. The caller that has the configuration reads certificates and keys and passes
//! them as PEM; this module opens no file.

use crate::error::StoreError;
use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use std::fmt;
use std::time::Duration;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that is silent for this long is pinged, and dropped when no answer comes for as long again: a vanished
/// member is noticed within 10 s.
const PING_AFTER: Duration = Duration::from_secs(5);

/// Where the store is.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    /// The members: `http://host:port`, or `https://host:port` with [`Tls`].
    pub urls: Vec<String>,
    /// A user of the store, where it asks for one.
    pub credentials: Option<Credentials>,
    /// For `https`.
    pub tls: Option<Tls>,
}

/// A user of the store.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// Never printed.
    pub password: String,
}

/// What TLS needs, each as PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// The authority that signed the members' certificates. No other is trusted.
    pub ca: Vec<u8>,
    /// Our certificate, where members want one.
    pub cert: Option<Vec<u8>>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// The name in the members' certificates, where it is not the host of the URL.
    pub domain: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.urls.join(", "))
    }
}

impl Endpoints {
    /// Endpoints without user and TLS.
    pub fn plain(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { urls: urls.into_iter().map(Into::into).collect(), credentials: None, tls: None }
    }

    pub(crate) fn options(&self) -> Result<ConnectOptions, StoreError> {
        self.check_urls()?;
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_keep_alive(PING_AFTER, PING_AFTER)
            .with_keep_alive_while_idle(true)
            // A member cut off from the others must not keep a watch in silence.
            .with_require_leader(true);
        if let Some(Credentials { user, password }) = &self.credentials {
            // Tokens live for minutes; without this every call fails after that.
            options = options.with_user(user, password).with_auto_token_refresh(true);
        }
        if let Some(tls) = &self.tls {
            options = options.with_tls(tls.options()?);
        }
        Ok(options)
    }

    fn check_urls(&self) -> Result<(), StoreError> {
        let wrong = |text: String| Err(StoreError::Configuration(text));
        if self.urls.is_empty() {
            return wrong("there are none; name at least one, such as http://127.0.0.1:2379".to_owned());
        }
        for url in &self.urls {
            match (url.starts_with("https://"), url.starts_with("http://"), &self.tls) {
                (true, _, Some(_)) | (_, true, None) => {}
                (true, _, None) => {
                    return wrong(format!("{url} is https, but no certificate authority is given"));
                }
                (_, true, Some(_)) => {
                    return wrong(format!("{url} is http, but TLS is asked for; write https"));
                }
                _ => return wrong(format!("{url:?} begins neither with http:// nor with https://")),
            }
        }
        Ok(())
    }
}

impl Tls {
    fn options(&self) -> Result<TlsOptions, StoreError> {
        let mut options = TlsOptions::new().ca_certificate(Certificate::from_pem(&self.ca));
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => options = options.identity(Identity::from_pem(cert, key)),
            (None, None) => {}
            _ => {
                let text = "a client certificate and its key belong together; one of them is missing";
                return Err(StoreError::Configuration(text.to_owned()));
            }
        }
        if let Some(domain) = &self.domain {
            options = options.domain_name(domain);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_endpoint_is_refused_before_any_connection() {
        let tls = Some(Tls::default());
        let half = Tls { cert: Some(vec![]), ..Tls::default() };
        let cases = [
            (Endpoints::default(), "there are none"),
            (Endpoints::plain(["127.0.0.1:2379"]), "begins neither"),
            (Endpoints::plain(["https://a:1"]), "no certificate authority"),
            (Endpoints { tls, ..Endpoints::plain(["http://a:1"]) }, "write https"),
            (Endpoints { tls: Some(half), ..Endpoints::plain(["https://a:1"]) }, "one of them is missing"),
        ];
        for (endpoints, expected) in cases {
            let text = endpoints.options().unwrap_err().to_string();
            assert!(text.contains(expected), "{text:?} does not say {expected:?}");
        }
    }

    #[test]
    fn a_password_is_never_printed() {
        let credentials = Some(Credentials { user: "root".into(), password: "hunter2".into() });
        let text = format!("{:?}", Endpoints { credentials, ..Endpoints::plain(["http://a:1"]) });
        assert!(text.contains("root") && !text.contains("hunter2"), "{text}");
    }
}
