//! Authorization: each call gets the principal of its caller, or an error that says what is missing. Every server is behind
//! it; the role that a call needs is in one table, `needs`, and each record names the principal that acted.
//!
//! # Invariants
//! * An invalid token is refused, also from this machine, where none is needed to read.
//! * Without a token, no mutation is allowed.
//! * Neither a token nor a whole digest is ever logged or returned, except in the one answer that creates the token.

mod caller;
mod layer;
pub mod needs;
pub mod token;

pub use caller::{Caller, PresentedCredential, VOUCHED, vouch};
pub use layer::{grpc, http};
pub use token::Token;

use crate::leadership::now;
use crate::report::{Mirror, Trouble};
use std::sync::Arc;
use tidegate_proto::Digest;
use tidegate_proto::record::token::{CommonName, Credential, Role, Token as Known};

use crate::door::Shown;

/// The name of a caller with the coordinators' own token.
pub const OPERATOR: &str = "operator";

/// Who calls, believed.
#[derive(Clone)]
pub struct Principal {
    /// The name in the history.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// By what they are known.
    pub by: By,
}

/// By what a principal is known.
#[derive(Clone)]
pub enum By {
    Token(Token),
    /// A certificate of this subject.
    Certificate(CommonName),
    /// Nothing but that the call comes from this machine.
    Place,
}

impl Principal {
    /// Who acts, for the history; `remark` is whom they say that they act for.
    pub fn who(&self, remark: &str) -> String {
        match remark.trim() {
            remark if remark.is_empty() || remark == self.name => self.name.clone(),
            remark => format!("{} for {remark}", self.name),
        }
    }
}

/// Why a call is refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Who calls is not known.
    #[error("{0}")]
    Unknown(String),
    /// They are known, and it is not theirs to do.
    #[error("{0}")]
    Forbidden(String),
    /// The role is not known yet.
    #[error("{0}")]
    NotYet(String),
}

/// Lets calls in.
#[derive(Clone)]
pub struct Guard {
    mirror: Arc<Mirror>,
    own: Option<Digest>,
}

impl Guard {
    /// A guard that knows the tokens of the store, and the coordinators' own where they have one.
    pub fn new(mirror: Arc<Mirror>, own: Option<&Token>) -> Self {
        Self { mirror, own: own.map(Token::digest) }
    }

    /// Lets a call in that needs this role.
    pub fn admit(&self, caller: &Caller, need: Role) -> Result<Principal, Denied> {
        let principal = self.identify(caller, need)?;
        if principal.role >= need {
            return Ok(principal);
        }
        if matches!(principal.by, By::Place) {
            return Err(Denied::Unknown(nothing_shown(need)));
        }
        Err(Denied::Forbidden(format!(
            "{} has the role {}, and this needs {need}: use a token with that role (`tidegate token create --role {need}` makes one)",
            principal.name, principal.role
        )))
    }

    fn identify(&self, caller: &Caller, need: Role) -> Result<Principal, Denied> {
        match (&caller.presented, &caller.shown) {
            (PresentedCredential::Token(token), _) if self.own.as_ref().is_some_and(|own| token.is(own)) => {
                match &caller.vouched {
                    Shown::Subject(subject) => self.by_certificate(subject),
                    // The call is made in the name of another caller: it never gets the rights of the coordinators.
                    Shown::Unreadable => Err(Denied::Unknown(format!(
                        "the certificate that a coordinator vouches for cannot be read: the header {VOUCHED}, once, holds its common name as hexadecimal digits"
                    ))),
                    Shown::Nothing => Ok(principal(OPERATOR, Role::Operate, By::Token(token.clone()))),
                }
            }
            (PresentedCredential::Token(token), _) => self.by_token(token),
            (PresentedCredential::Malformed, _) => Err(Denied::Unknown(
                "the authorization header holds no token: `Authorization: Bearer TOKEN`, once, is needed"
                    .to_owned(),
            )),
            (PresentedCredential::Nothing, Shown::Subject(subject)) => self.by_certificate(subject),
            (PresentedCredential::Nothing, Shown::Unreadable) => Err(Denied::Unknown(
                "the certificate shown has not exactly one common name, by which its principal would be known"
                    .to_owned(),
            )),
            (PresentedCredential::Nothing, Shown::Nothing) if caller.local => {
                Ok(principal("local", Role::Read, By::Place))
            }
            (PresentedCredential::Nothing, Shown::Nothing) => Err(Denied::Unknown(nothing_shown(need))),
        }
    }

    fn by_token(&self, token: &Token) -> Result<Principal, Denied> {
        self.has_read()?;
        let view = self.mirror.view();
        let known = token.id().and_then(|id| view.fleet.token(&id));
        match known {
            Some(known) if matches!(&known.credential, Credential::Digest(digest) if token.is(digest)) => {
                good(known, known.record.is_newer())?;
                Ok(principal(known.name.as_str(), known.role, By::Token(token.clone())))
            }
            _ => Err(Denied::Unknown(
                "no coordinator here knows this token: give another with --token-file; `tidegate token list` shows those that there are"
                    .to_owned(),
            )),
        }
    }

    fn by_certificate(&self, subject: &CommonName) -> Result<Principal, Denied> {
        self.has_read()?;
        let view = self.mirror.view();
        match view.fleet.token_of_certificate(subject, now()) {
            Some((_, known)) => {
                good(known, known.record.is_newer())?;
                Ok(principal(known.name.as_str(), known.role, By::Certificate(subject.clone())))
            }
            None => Err(Denied::Unknown(format!(
                "the certificate of {subject} is valid, but no token names it now: `tidegate token create --certificate {subject:?}` makes it so",
                subject = subject.to_string()
            ))),
        }
    }

    fn has_read(&self) -> Result<(), Denied> {
        match self.mirror.trouble() {
            Some(trouble @ Trouble::Unread(_)) => Err(Denied::NotYet(trouble.to_string())),
            _ => Ok(()),
        }
    }
}

fn principal(name: &str, role: Role, by: By) -> Principal {
    Principal { name: name.to_owned(), role, by }
}

/// Whether a known token may still be used; the reason is given only to a caller that has presented it.
fn good(known: &Known, newer: bool) -> Result<(), Denied> {
    let refused = |why: String| Err(Denied::Unknown(format!("the token of {} {why}", known.name)));
    if newer {
        return refused(
            "was made by a newer version, and may mean less than this one would allow".to_owned(),
        );
    }
    if let Some(revoked) = &known.revoked {
        return refused(format!("was revoked by {}: {}", revoked.by, revoked.why));
    }
    if known.has_expired(now()) {
        return refused("has expired: ask for another".to_owned());
    }
    Ok(())
}

fn nothing_shown(need: Role) -> String {
    let rest = match need {
        Role::Read => "without one only callers on the coordinator's own machine may look",
        Role::Release | Role::Operate => {
            "a coordinator with an embedded store keeps one in its directory, operator.token; `tidegate token create` makes more"
        }
    };
    format!("this needs the role {need}: give a token with --token-file (TIDEGATE_TOKEN_FILE); {rest}")
}
