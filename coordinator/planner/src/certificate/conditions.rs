//! Every condition of a certificate, recomputed from the evidence inside it. The same function decides whether one
//! may be made and whether one that was made is true.

use super::allowed::is_acceptable;
use super::{Certificate, FORMAT, Gone, InstanceSeen, Part, SESSION, SESSIONS, ServicePart, Session};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::spec::Spec;
use tidegate_proto::{NodeId, Revision, ServiceName, ServiceVersion, mutant};

/// A part that is not so, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {why}")]
pub struct False {
    /// Which part.
    pub part: String,
    /// What was found, and what is needed.
    pub why: String,
}

fn not(part: impl Into<String>, why: impl Into<String>) -> False {
    False { part: part.into(), why: why.into() }
}

/// Everything that is false; empty = it proves what it says.
pub fn check(certificate: &Certificate) -> Vec<False> {
    if certificate.format != FORMAT {
        return vec![not("format", format!("form {} is not known, {FORMAT} is", certificate.format))];
    }
    let mut found = Vec::new();
    if certificate.required.is_empty() {
        found.push(not("required", "no service is named"));
    }
    for service in certificate.services.keys().filter(|s| !certificate.required.contains_key(*s)) {
        found.push(not(format!("services.{service}"), "nothing is required of it"));
    }
    found.extend(services_flaws(&certificate.required, &certificate.services, certificate.read_at));
    found.extend(approval_flaw(certificate));
    found.extend(rows_flaw(certificate));
    if let Part::Proved(sessions) = &certificate.sessions {
        found.extend(sessions_flaws(&certificate.required, &certificate.allowed_sessions, sessions));
    }
    found
}

/// What is false of the services themselves, whatever the database shows and a person approves.
pub(crate) fn services_flaws(
    required: &BTreeMap<ServiceName, ServiceVersion>,
    services: &BTreeMap<ServiceName, ServicePart>,
    read_at: Revision,
) -> Vec<False> {
    let flaws = |(service, required): (&ServiceName, &ServiceVersion)| match services.get(service) {
        Some(part) => service_flaws(service, *required, part, read_at),
        None => vec![not(format!("services.{service}"), "nothing was read of it")],
    };
    required.iter().flat_map(flaws).collect()
}

fn service_flaws(
    service: &ServiceName,
    required: ServiceVersion,
    part: &ServicePart,
    read_at: Revision,
) -> Vec<False> {
    let name = |what: &str| format!("services.{service}.{what}");
    let Some(window) = &part.window else {
        return vec![not(name("window"), "there is none, so anything may be admitted")];
    };
    let mut found = Vec::new();
    if window.floor < required {
        found.push(not(name("window"), format!("its floor is {}, {required} is needed", window.floor)));
    }
    if window.at > read_at || !window.at.exists() || window.ceiling < window.floor {
        found.push(not(
            name("window"),
            format!(
                "[{}, {}] at revision {} cannot have been read at {read_at}",
                window.floor, window.ceiling, window.at
            ),
        ));
    }
    if part.instances.is_empty() && !part.named_empty {
        found.push(not(name("instances"), "it has none, and the spec does not name it as empty"));
    }
    for (node, seen) in &part.instances {
        found.extend(
            instance_flaw(seen, required, window.at, read_at)
                .map(|why| not(name(&format!("instances.{node}")), why)),
        );
    }
    for (node, gone) in &part.decommissioned {
        let counted = part.instances.contains_key(node);
        found.extend(
            gone_flaw(node, gone, required, read_at, counted)
                .map(|why| not(name(&format!("decommissioned.{node}")), why)),
        );
    }
    found
}

/// An instance's version is the lower of its report and its last admission; a report that belongs to another
/// admission is unknown.
fn instance_flaw(
    seen: &InstanceSeen,
    required: ServiceVersion,
    window: Revision,
    read_at: Revision,
) -> Option<String> {
    let Some(reported) = seen.reported else {
        return Some("the version that it runs is not known".to_owned());
    };
    let lower = reported.min(seen.admitted);
    if !seen.admission.exists() || !seen.report.exists() || seen.admission > read_at || seen.report > read_at
    {
        return Some(format!(
            "admission {} and report {} cannot have been read at {read_at}",
            seen.admission, seen.report
        ));
    }
    if seen.report_admission != seen.admission {
        return Some(format!(
            "its report belongs to admission {}, its last admission is {}",
            seen.report_admission, seen.admission
        ));
    }
    if lower < required {
        return Some(format!("it is at version {lower}, {required} is needed"));
    }
    (seen.acknowledged != window && !mutant::is("unacknowledged-is-certified"))
        .then(|| format!("it acknowledged window {}, not {window}", seen.acknowledged))
}

fn gone_flaw(
    node: &NodeId,
    gone: &Gone,
    required: ServiceVersion,
    read_at: Revision,
    counted: bool,
) -> Option<String> {
    if counted {
        return Some(format!("{node} is both gone and there"));
    }
    if gone.covers != gone.admission || !gone.admission.exists() || gone.admission > read_at {
        return Some(format!(
            "the word covers admission {}, the last one is {}",
            gone.covers, gone.admission
        ));
    }
    if gone.who.is_empty() || gone.why.is_empty() {
        return Some("no statement says how it was stopped".to_owned());
    }
    let how = gone.stopped_how.as_deref().unwrap_or_default();
    (gone.admitted < required && how.trim().is_empty()).then(|| {
        format!("it was last known at version {}, and no statement says how it was stopped", gone.admitted)
    })
}

/// A database that cannot list its sessions needs an approval that names that.
fn approval_flaw(certificate: &Certificate) -> Option<False> {
    let sessions_unknown = matches!(certificate.sessions, Part::NotApplicable(_));
    match &certificate.approval {
        Part::Proved(word) if word.who.is_empty() => Some(not("approval", "no approver is named")),
        Part::Proved(word) if sessions_unknown && !word.accepts.contains(SESSIONS) => Some(not(
            "approval",
            "the database cannot list its sessions, and the approval does not accept that",
        )),
        Part::Proved(_) => None,
        Part::NotApplicable(_) if certificate.approval_asked => {
            Some(not("approval", "the spec asks for one, and there is none"))
        }
        Part::NotApplicable(_) if sessions_unknown => {
            Some(not("approval", "the database cannot list its sessions, and no approval accepts that"))
        }
        Part::NotApplicable(_) => None,
    }
}

fn rows_flaw(certificate: &Certificate) -> Option<False> {
    match &certificate.pending_rows {
        Part::Proved(rows) if rows.pending == 0 => None,
        Part::Proved(rows) => Some(not("pending_rows", format!("{} rows are not migrated", rows.pending))),
        Part::NotApplicable(_) => None,
    }
}

/// Every session that is neither tagged `service/version/node` at or above what is required, nor allowed by name.
/// Tidegate's own sessions are tagged `tidegate/<term>/schema`.
pub fn sessions_flaws(
    required: &BTreeMap<ServiceName, ServiceVersion>,
    allowed: &BTreeSet<String>,
    sessions: &BTreeSet<Session>,
) -> Vec<False> {
    let flaw = |session: &Session| {
        if allowed.contains(&session.name) {
            return None;
        }
        let why = tag_flaw(required, &session.name)?;
        Some(not("sessions", format!("{session} {why}{}", help(session))))
    };
    sessions.iter().filter_map(flaw).collect()
}

/// The sessions that no upgrade of a service ends, so that contract will wait for a person: untagged, or of a service
/// that is not known to share the schema.
pub fn standing_flaws(
    sharing: impl IntoIterator<Item = ServiceName>,
    allowed: &BTreeSet<String>,
    sessions: &BTreeSet<Session>,
) -> Vec<False> {
    let any_version = sharing.into_iter().map(|service| (service, ServiceVersion::ABSENT)).collect();
    sessions_flaws(&any_version, allowed, sessions)
}

/// The most findings of one kind that are listed.
const LISTED: usize = 20;

/// Findings as one text, bounded; none where there is none.
pub fn joined(found: &[False]) -> Option<String> {
    let listed: Vec<String> = found.iter().take(LISTED).map(ToString::to_string).collect();
    let more = match found.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!found.is_empty()).then(|| listed.join("; ") + &more)
}

impl std::fmt::Display for Session {
    /// `session "psql" (pid 7, user app, client 10.0.0.7, at DATABASE_URL)`, with what is known of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)?;
        let known = [
            self.pid.map(|pid| format!("pid {pid}")),
            self.user.as_ref().map(|user| format!("user {user}")),
            self.client.as_ref().map(|client| format!("client {client}")),
            self.endpoint.as_ref().map(|endpoint| format!("at {endpoint}")),
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        if known.is_empty() { Ok(()) } else { write!(f, " ({})", known.join(", ")) }
    }
}

/// The command that ends a session, and what else helps.
fn help(session: &Session) -> String {
    let end = match (session.pid, session.endpoint.is_some()) {
        (Some(pid), _) => format!("SELECT pg_terminate_backend({pid})"),
        (None, true) => format!("ROLLBACK PREPARED '{}'", session.name.replace('\'', "''")),
        // As former versions recorded it.
        (None, false) => return String::new(),
    };
    let end = format!("; end it where it runs, or with {end}");
    if !is_acceptable(&session.name) {
        return end;
    }
    let name = session.name.replace('\'', "'\\''");
    format!(
        "{end}; or accept it by name: in remove and contract with `tidegate upgrade approve ID contract --accept '{SESSION}{name}'`, before the start in schema.allow_sessions of the spec"
    )
}

fn tag_flaw(required: &BTreeMap<ServiceName, ServiceVersion>, name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('/').collect();
    let [service, version, node] = parts[..] else {
        return Some("is not tagged service/version/node and not allowed by name".to_owned());
    };
    if service == "tidegate" && node == "schema" {
        return None;
    }
    let (Ok(service), Ok(version), Ok(_)) =
        (service.parse::<ServiceName>(), version.parse::<ServiceVersion>(), node.parse::<NodeId>())
    else {
        return Some("is not tagged service/version/node and not allowed by name".to_owned());
    };
    match required.get(&service) {
        Some(needs) if version >= *needs || mutant::is("old-session-is-certified") => None,
        Some(needs) => Some(format!("is below version {needs}")),
        None => Some(format!("belongs to {service}, which is not known to share the schema")),
    }
}

/// From which version on each service uses what expand makes: the upgraded one at the version it goes to, each that shares
/// the schema at the one that may meet the contracted form.
pub fn new_form(spec: &Spec) -> BTreeMap<ServiceName, ServiceVersion> {
    let shared = spec.schema.iter().flat_map(|schema| &schema.shared_with);
    let sharing = shared.filter(|_| !mutant::is("sharing-services-have-no-sessions"));
    let sharing = sharing.map(|(service, needs)| (service.clone(), *needs));
    sharing.chain([(spec.service.clone(), spec.to)]).collect()
}

/// Every session of a service that uses what expand made: undoing expand is contract, mirrored.
pub fn undo_flaws(
    new_form: &BTreeMap<ServiceName, ServiceVersion>,
    sessions: &BTreeSet<Session>,
) -> Vec<False> {
    let flaw = |session: &Session| {
        let mut parts = session.name.split('/');
        let service: ServiceName = parts.next()?.parse().ok()?;
        let version: ServiceVersion = parts.next()?.parse().ok()?;
        let from = new_form.get(&service).filter(|from| version >= **from)?;
        let why = format!("{session} uses what expand made, as {service} does from version {from} on");
        Some(not("sessions", why))
    };
    sessions.iter().filter_map(flaw).collect()
}
