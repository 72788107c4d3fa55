//! Create an API token, and revoke it.

use super::{Asker, Refusal, demand_why, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::token::{Credential, Revoked, Role, Token};
use tidegate_proto::{Key, PrincipalName, Revision, Span, TokenId};

/// Names that no token may give: the coordinators', which act by themselves, and that of their own token file.
const RESERVED: [&str; 2] = ["coordinator", "operator"];

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// Its public half.
    pub id: TokenId,
    /// Whose it is.
    pub name: PrincipalName,
    /// What they may do.
    pub role: Role,
    /// By what they are known.
    pub credential: Credential,
    /// How long it is good; none = until it is revoked.
    pub lasts: Option<Span>,
}

/// Lets a principal in.
pub fn create_token(
    fleet: &Fleet,
    moment: &Moment,
    asked: TokenRequest,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    let TokenRequest { id, name, role, credential, lasts } = asked;
    if RESERVED.contains(&name.as_str()) {
        return Err(Refusal::invalid(format!(
            "the history uses the name {name} for what coordinators do: choose another name"
        )));
    }
    if lasts.is_some_and(|span| span.as_millis() == 0) {
        return Err(Refusal::invalid("a token that expires immediately is useless: give a longer time"));
    }
    if let Credential::Certificate(subject) = &credential
        && let Some((other, held)) = fleet.token_of_certificate(subject, moment.wall)
    {
        return Err(Refusal::state(format!(
            "the certificate {subject} is known already, as {} with the role {} (token {other}): revoke that first",
            held.name, held.role
        )));
    }
    let key = Key::Token(id);
    let until = |span: Span| {
        Timestamp(moment.wall.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    };
    let to = format!("{key} of {name} ({role})");
    let body = Token {
        name,
        role,
        credential,
        by: asker.who.clone(),
        at: moment.wall,
        expires: lasts.map(until),
        revoked: None,
    };
    Ok(with_event(moment, Subject::Fleet, asker, "", &to)
        .when(Precondition::At(key.clone(), Revision::ABSENT))
        // Two callers at once must not both make a certificate known.
        .when(Precondition::NonePutAfter(Kind::Token, fleet.revision()))
        .put(key, body))
}

/// Revokes a token.
pub fn revoke_token(fleet: &Fleet, moment: &Moment, id: &TokenId, asker: &Asker) -> Result<Commit, Refusal> {
    demand_why(asker, "revoking a token")?;
    let Some(stored) = fleet.token(id) else {
        return Err(Refusal::not_found(format!(
            "there is no token {id}: `tidegate token list` shows those that there are"
        )));
    };
    if let Some(Revoked { by, why, .. }) = &stored.revoked {
        return Err(Refusal::state(format!("token {id} is revoked already, by {by}: {why}")));
    }
    let key = Key::Token(id.clone());
    let from = format!("{key} of {} ({})", stored.name, stored.role);
    let revoked = Revoked { by: asker.who.clone(), why: asker.why.clone(), at: moment.wall };
    let body = Token { revoked: Some(revoked), ..stored.record.body.clone() };
    Ok(with_event(moment, Subject::Fleet, asker, &from, &format!("{key} revoked"))
        .when(Precondition::At(key.clone(), stored.at))
        .put(key, stored.record.with(body)))
}
