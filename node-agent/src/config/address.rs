//! HTTP addresses, balancer sockets and absolute paths, each validated when it is parsed, so that the error names its
//! line.

use serde::Deserialize;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A text that does not say where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAddress {
    /// Not an HTTP address.
    #[error("{0:?} is not an address to ask: http://host:port/path is allowed")]
    Http(String),
    /// Not a socket of a balancer.
    #[error("{0:?} is not a balancer's socket: unix:/path or tcp:host:port is allowed")]
    Stats(String),
    /// Not an absolute path.
    #[error("{0:?} is not an absolute path: begin it with a slash")]
    Path(String),
}

/// What is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Url {
    /// Host and port, as a connection needs them.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

impl TryFrom<String> for Url {
    type Error = NotAnAddress;
    fn try_from(text: String) -> Result<Self, NotAnAddress> {
        let parsed: http::Uri = text.parse().map_err(|_| NotAnAddress::Http(text.clone()))?;
        let good = parsed.scheme_str() == Some("http");
        let authority = parsed.authority().filter(|a| good && !a.host().is_empty());
        let authority = authority.ok_or(NotAnAddress::Http(text))?;
        let port = authority.port_u16().unwrap_or(80);
        let path = parsed.path_and_query().map_or("/", |p| p.as_str());
        Ok(Self { authority: format!("{}:{port}", authority.host()), path: path.to_owned() })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// The runtime socket of a balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Stats {
    /// A socket in the file system.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl TryFrom<String> for Stats {
    type Error = NotAnAddress;
    fn try_from(text: String) -> Result<Self, NotAnAddress> {
        if let Some(path) = text.strip_prefix("unix:").filter(|p| p.starts_with('/')) {
            return Ok(Self::Unix(path.into()));
        }
        match text.strip_prefix("tcp:").map(|rest| (rest, rest.rsplit_once(':'))) {
            Some((rest, Some((host, port)))) if !host.is_empty() && u16::from_str(port).is_ok() => {
                Ok(Self::Tcp(rest.to_owned()))
            }
            _ => Err(NotAnAddress::Stats(text)),
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// A path that means the same from every directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AbsolutePath(pub PathBuf);

impl AbsolutePath {
    /// The path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl TryFrom<String> for AbsolutePath {
    type Error = NotAnAddress;
    fn try_from(text: String) -> Result<Self, NotAnAddress> {
        let path = PathBuf::from(&text);
        if path.is_absolute() { Ok(Self(path)) } else { Err(NotAnAddress::Path(text)) }
    }
}

macro_rules! schemas {
    ($($type:ident $title:literal: $pattern:literal, $description:literal;)*) => {$(
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "title": $title,
                    "type": "string",
                    "pattern": $pattern,
                    "description": $description
                })
            }
        }
    )*};
}

schemas! {
    Url "URL": "^http://.", "An address to ask: http://host:port/path.";
    Stats "socket": "^(unix:/|tcp:.+:[0-9]+$)", "The runtime socket of a balancer: unix:/path or tcp:host:port.";
    AbsolutePath "absolute path": "^/", "An absolute path.";
}

/// A socket to listen on.
pub type Listen = SocketAddr;
