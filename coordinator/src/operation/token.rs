//! API tokens: create, list, revoke.

use super::{OperationError, explaining, mutation, parse, remarking};
use crate::context::Context;
use crate::guard::{Token, token};
use crate::leadership::{Leadership, now};
use tidegate_planner::Stored;
use tidegate_planner::ask::{self, TokenRequest};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::token::{Credential, Token as Known};
use tidegate_proto::wire::v1::{
    self, CreateTokenReply, CreateTokenRequest, Done, ListTokensRequest, RevokeTokenRequest,
};
use tidegate_proto::{Span, TokenId};

/// So many characters of a digest are shown: enough to distinguish two.
const SHOWN: usize = 8;

/// Lets a principal in: makes a token, or makes a certificate known. The token is in this answer and nowhere else.
pub async fn create_token(
    context: &Context,
    leadership: &Leadership,
    asked: CreateTokenRequest,
) -> Result<CreateTokenReply, OperationError> {
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let (name, role) = (parse(&asked.name)?, parse(&asked.role)?);
    let lasts =
        Some(&asked.expires).filter(|text| !text.is_empty()).map(|text| parse::<Span>(text)).transpose()?;
    let id = token::new_id().map_err(unavailable)?;
    let (credential, token) = if asked.certificate.is_empty() {
        let token = Token::make(&id).map_err(unavailable)?;
        (Credential::Digest(token.digest()), Some(token))
    } else {
        (Credential::Certificate(parse(&asked.certificate)?), None)
    };
    let request = TokenRequest { id: id.clone(), name, role, credential, lasts };
    let revision = mutation::apply_on_any_store(context, leadership, |fleet, moment| {
        ask::create_token(fleet, moment, request.clone(), &asker)
    })
    .await?;
    let expires = context.mirror.view().fleet.token(&id).and_then(|token| token.expires);
    Ok(CreateTokenReply {
        id: id.to_string(),
        token: token.map(Token::reveal).unwrap_or_default(),
        expires: expires.map(|at| at.0),
        revision: revision.0,
    })
}

/// Every token, by its id; no whole digest is returned.
pub async fn list_tokens(
    context: &Context,
    asked: &ListTokensRequest,
) -> Result<Vec<v1::Token>, OperationError> {
    let now = now();
    let view = context.mirror.view();
    let tokens = view.fleet.tokens().map(|(id, token)| seen(id, token, now));
    Ok(tokens.filter(|token| asked.all || (!token.expired && token.revoked.is_none())).collect())
}

fn seen(id: &TokenId, token: &Stored<Known>, now: Timestamp) -> v1::Token {
    let (certificate, digest) = match &token.credential {
        Credential::Certificate(subject) => (Some(subject.to_string()), None),
        Credential::Digest(digest) => (None, Some(digest.to_string().chars().take(SHOWN).collect())),
    };
    let revoked = token.revoked.clone();
    v1::Token {
        id: id.to_string(),
        name: token.name.to_string(),
        role: token.role.to_string(),
        certificate,
        digest,
        by: token.by.clone(),
        // The record's own time; the `at` beside it is its mod_revision.
        at: token.record.body.at.0,
        expires: token.expires.map(|at| at.0),
        expired: token.has_expired(now),
        revoked: revoked.map(|revoked| v1::Revoked { by: revoked.by, why: revoked.why, at: revoked.at.0 }),
    }
}

/// Takes a token back.
pub async fn revoke_token(
    context: &Context,
    leadership: &Leadership,
    asked: RevokeTokenRequest,
) -> Result<Done, OperationError> {
    let id: TokenId = parse(&asked.id)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision = mutation::apply_on_any_store(context, leadership, |fleet, moment| {
        ask::revoke_token(fleet, moment, &id, &asker)
    })
    .await?;
    Ok(Done { what: format!("token {id} is revoked"), revision: revision.0 })
}

fn unavailable(error: token::NoToken) -> OperationError {
    OperationError::Unavailable(error.to_string())
}
