//! The sessions on a schema, on every endpoint that the spec names: what a certificate, an undo and preflight ask for.

use super::bound::{Bound, Unbound};
use crate::telemetry::Chain;
use std::collections::BTreeSet;
use tidegate_migrations::{DatabaseUrl, Engine, Error, SessionFact, SessionKind, Sessions};
use tidegate_planner::certificate::{Session, standing_flaws};
use tidegate_proto::spec::{DatabaseSource, Spec, SpecSchema};

/// Another endpoint of the database, under the name of the variable that holds its URL.
pub(super) struct Endpoint {
    name: String,
    url: DatabaseUrl,
}

/// The further endpoints that a spec names.
pub(super) fn endpoints(schema: &SpecSchema) -> Result<Vec<Endpoint>, Unbound> {
    let endpoint = |source: &DatabaseSource| {
        Ok(Endpoint { name: source.name().to_owned(), url: super::bound::url(source)? })
    };
    schema.endpoints.iter().map(endpoint).collect()
}

/// All sessions, but for those by which coordinators ask for them; or why the database cannot list them.
///
/// # Errors
/// An endpoint does not answer: which sessions it has is not known.
pub(super) async fn sessions_of(bound: &Bound) -> Result<Result<BTreeSet<Session>, String>, String> {
    let listed = bound.engine.sessions().await;
    let mut all = match listed.map_err(|error| silent(&bound.variable, &error))? {
        Sessions::CannotTell { reason } => return Ok(Err(reason)),
        Sessions::Listed(listed) => counted(&bound.variable, listed),
    };
    for Endpoint { name, url } in &bound.endpoints {
        match Engine::sessions_at(url).await.map_err(|error| silent(name, &error) + &retired(name))? {
            Sessions::CannotTell { reason } => {
                return Err(format!("endpoint {name} of the schema cannot list its sessions: {reason}"));
            }
            Sessions::Listed(listed) => all.append(&mut counted(name, listed)),
        }
    }
    Ok(Ok(all))
}

fn silent(endpoint: &str, error: &Error) -> String {
    format!("the sessions on endpoint {endpoint} of the schema could not be read: {}", Chain(error))
}

/// What helps where an endpoint does not come back.
fn retired(endpoint: &str) -> String {
    format!(
        "; where it is gone for good, set {endpoint} to the URL of what took its place, or of the database itself, on each coordinator, and restart them one by one"
    )
}

fn counted(endpoint: &str, listed: Vec<SessionFact>) -> BTreeSet<Session> {
    let others = listed.into_iter().filter(|session| session.kind != SessionKind::Engine);
    others.map(|session| recorded(endpoint, session)).collect()
}

/// A session as a certificate records it.
pub(crate) fn recorded(endpoint: &str, session: SessionFact) -> Session {
    let kind = match session.kind {
        SessionKind::Session => "session",
        SessionKind::PreparedTransaction => "prepared transaction",
        SessionKind::WalSender => "replication connection",
        SessionKind::Apply => "logical replication",
        SessionKind::Engine => "engine",
    };
    Session {
        name: session.application_name,
        kind: kind.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        pid: session.pid,
        user: session.user,
        client: session.client,
    }
}

/// The sessions that contract will wait for unless an operator ends them: preflight warns of them, or of an endpoint that
/// does not answer.
pub(super) async fn warnings(bound: &Bound, spec: &Spec, schema: &SpecSchema) -> Vec<String> {
    let sessions = match sessions_of(bound).await {
        Ok(Ok(sessions)) => sessions,
        Ok(Err(_)) => return Vec::new(),
        Err(unread) => return vec![unread],
    };
    let sharing = schema.shared_with.keys().chain([&spec.service]).cloned();
    let allowed = schema.allow_sessions.iter().cloned().collect();
    let found = standing_flaws(sharing, &allowed, &sessions);
    found.iter().map(|flaw| flaw.why.clone()).collect()
}
