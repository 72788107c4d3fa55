//! What both servers, gRPC and HTTP, have in common: sockets, TLS where there is a certificate, and the peer of a connection.

mod connections;
pub(crate) mod listen;
mod listener;
mod tls;

pub use connections::raise_descriptors;
pub use listener::{Listener, PING, Wire};
pub use tls::{Certificates, Config, Files, Unusable};

use std::net::{IpAddr, SocketAddr};
use tidegate_proto::record::token::CommonName;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// From where.
    pub address: SocketAddr,
    /// With which certificate.
    pub shown: Shown,
}

/// The certificate that a caller has shown, and the authority has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// None.
    Nothing,
    /// One that does not say whose it is.
    Unreadable,
    Subject(CommonName),
}

impl Peer {
    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        match self.address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.to_canonical().is_loopback(),
        }
    }
}

impl Shown {
    fn of(chain: Option<&[CertificateDer<'_>]>) -> Self {
        match chain.and_then(<[_]>::first) {
            None => Self::Nothing,
            Some(leaf) => common_name(leaf).map_or(Self::Unreadable, Self::Subject),
        }
    }
}

/// The one common name of a certificate's subject.
fn common_name(der: &[u8]) -> Option<CommonName> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.parse().ok()?;
    names.next().is_none().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_loopback_in_every_notation() {
        let local = |ip: &str| {
            Peer { address: SocketAddr::new(ip.parse().unwrap(), 1), shown: Shown::Nothing }.is_local()
        };
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(local(here), "{here} is this machine");
        }
        for elsewhere in ["10.0.0.1", "0.0.0.0", "fe80::1", "::ffff:10.0.0.1"] {
            assert!(!local(elsewhere), "{elsewhere} is not this machine");
        }
    }

    #[test]
    fn certificate_names_its_owner_by_one_common_name() {
        let subject = |names: &[&str]| {
            let mut params = rcgen::CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            for name in names {
                params.distinguished_name.push(rcgen::DnType::CommonName, *name);
            }
            let key = rcgen::KeyPair::generate().unwrap();
            Shown::of(Some(&[params.self_signed(&key).unwrap().der().clone()]))
        };
        assert_eq!(subject(&["ci.example.org"]), Shown::Subject("ci.example.org".parse().unwrap()));
        assert_eq!(subject(&[]), Shown::Unreadable);
        assert_eq!(subject(&["a\nb"]), Shown::Unreadable);
        assert_eq!(Shown::of(None), Shown::Nothing);
        assert_eq!(Shown::of(Some(&[CertificateDer::from(vec![1, 2, 3])])), Shown::Unreadable);
    }
}
