//! What a call shows of who calls: where it comes from, a token, a certificate.

use super::token::Token;
use crate::door::{Peer, Shown};
use axum::http::{HeaderMap, header};
use tidegate_proto::record::token::CommonName;
use tonic::metadata::{Ascii, MetadataValue};

/// The header in which a forwarding coordinator passes its caller's certificate to the leader; believed only beside the
/// coordinators' own token.
pub const VOUCHED: &str = "tidegate-certificate";

/// The content of a call's `authorization` header.
#[derive(Clone)]
pub enum PresentedCredential {
    /// There is none.
    Nothing,
    /// Something that is no token.
    Malformed,
    /// A token, good or not.
    Token(Token),
}

/// Who calls, as shown, not yet as believed.
#[derive(Clone)]
pub struct Caller {
    /// Whether the call comes from this machine.
    pub local: bool,
    pub presented: PresentedCredential,
    /// The certificate of its connection, which the authority signed.
    pub shown: Shown,
    /// The certificate that a forwarding coordinator vouches for.
    pub vouched: Shown,
}

impl Caller {
    /// Reads it from a connection and a call's headers. A call without a connection is from nowhere.
    pub fn of(peer: Option<&Peer>, headers: &HeaderMap) -> Self {
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let presented = match (presented.next(), presented.next()) {
            (None, _) => PresentedCredential::Nothing,
            (Some(value), None) => Token::of_header(value.as_bytes())
                .map_or(PresentedCredential::Malformed, PresentedCredential::Token),
            // Two of them: it is ambiguous which one is meant.
            (Some(_), Some(_)) => PresentedCredential::Malformed,
        };
        let mut vouched = headers.get_all(VOUCHED).iter();
        let vouched = match (vouched.next(), vouched.next()) {
            (None, _) => Shown::Nothing,
            (Some(value), None) => read(value.as_bytes()).map_or(Shown::Unreadable, Shown::Subject),
            (Some(_), Some(_)) => Shown::Unreadable,
        };
        Self {
            local: peer.is_some_and(Peer::is_local),
            presented,
            shown: peer.map_or(Shown::Nothing, |peer| peer.shown.clone()),
            vouched,
        }
    }
}

/// Names are Unicode and headers are not: hexadecimal digits.
fn read(value: &[u8]) -> Option<CommonName> {
    String::from_utf8(hex::decode(value).ok()?).ok()?.parse().ok()
}

/// The value of [`VOUCHED`].
pub fn vouch(name: &CommonName) -> MetadataValue<Ascii> {
    hex::encode(name.to_string()).parse().expect("hexadecimal digits are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_vouched_for_arrives_whole() {
        let name: CommonName = "Ünï, O=x".parse().unwrap();
        assert_eq!(read(vouch(&name).as_bytes()), Some(name));
        for bad in ["", "zz", "ff", "0a"] {
            assert_eq!(read(bad.as_bytes()), None, "{bad:?} was taken for a name");
        }
    }
}
