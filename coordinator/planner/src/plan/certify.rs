//! Making a certificate: the evidence of one fresh read, checked by the same conditions as ever after, and the
//! transaction that stores it and enters contract, comparing everything that the read saw.

use super::Draft;
use crate::action::Action;
use crate::certificate::{Certificate, FORMAT, Part, Rows, Session, allowed_sessions, check, services_seen};
use crate::contracted::named_in_windows;
use crate::fleet::{Fleet, ServiceFleet, Stored};
use crate::gate::Reason;
use crate::gate::schema::ready::listed;
use crate::gate::schema::uncertified;
use crate::gate::store::unreconciled;
use crate::moment::Moment;
use crate::release::floor::none_came_to;
use crate::upgrade::phase::Move;
use std::collections::BTreeSet;
use tidegate_proto::commit::{Commit, MAX_COMMIT_OPERATIONS, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::certificate::CertificatePage;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::{SchemaBinding, Upgrade};
use tidegate_proto::spec::{ApprovalPoint, SpecSchema};
use tidegate_proto::{Key, Revision, ServiceName, UpgradeId, mutant};

/// What the database showed after the read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseEvidence {
    /// Rows that the migration has not reached.
    pub pending_rows: u64,
    /// Its sessions, or why it cannot list them.
    pub sessions: Result<BTreeSet<Session>, String>,
}

/// A certificate and the transactions that store it: the last one enters contract. The first that fails ends it, and
/// another certificate is made; none is kept for later.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The certificate.
    pub certificate: Certificate,
    /// In this order.
    pub commits: Vec<Commit>,
}

/// Makes the certificate of an upgrade from a fleet read again at one revision, or says which condition is not met.
pub fn certify(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    evidence: DatabaseEvidence,
) -> Result<Made, Vec<Reason>> {
    let no = |why: &str| vec![uncertified(why)];
    let upgrade = fleet
        .upgrade(id)
        .filter(|u| fleet.active_upgrade(&u.spec.service).is_some_and(|(active, _)| active == id))
        .ok_or_else(|| no("the upgrade is not active"))?;
    if let Some(reason) = unreconciled(fleet, &moment.schemas) {
        return Err(vec![reason]);
    }
    let (Some(binding), Some(asked)) = (&upgrade.schema, &upgrade.spec.schema) else {
        return Err(no("the upgrade has no schema"));
    };
    let schema = fleet.schema(&binding.id).ok_or_else(|| no("the schema's record is gone"))?;
    if upgrade.paused.is_some() {
        return Err(no("the upgrade is paused"));
    }
    let certificate = certificate(fleet, moment, id, upgrade, binding, asked, schema, evidence);
    let flaws = check(&certificate);
    if !flaws.is_empty() {
        return Err(listed(&flaws));
    }
    let commits = commits(fleet, moment, id, upgrade, binding, schema, &certificate)?;
    Ok(Made { certificate, commits })
}

fn certificate(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    upgrade: &Upgrade,
    binding: &SchemaBinding,
    asked: &SpecSchema,
    schema: &Schema,
    evidence: DatabaseEvidence,
) -> Certificate {
    let endpoints = match &evidence.sessions {
        Ok(_) => asked.every_endpoint().map(str::to_owned).collect(),
        Err(_) => BTreeSet::new(),
    };
    let approval_asked = upgrade.spec.approvals.contains(&ApprovalPoint::Contract);
    let approval = match upgrade.approvals.get(&ApprovalPoint::Contract) {
        Some(word) => Part::Proved(word.clone()),
        None => Part::NotApplicable("the spec asks for no approval of contract".to_owned()),
    };
    Certificate {
        format: FORMAT,
        upgrade: id.clone(),
        schema: binding.id.clone(),
        migrations: binding.migrations,
        term: moment.leader.term.clone(),
        read_at: fleet.revision(),
        required: schema.services.clone(),
        services: services_seen(fleet, asked, schema),
        approval_asked,
        approval,
        pending_rows: Part::Proved(Rows { pending: evidence.pending_rows }),
        sessions: evidence.sessions.map_or_else(Part::NotApplicable, Part::Proved),
        allowed_sessions: allowed_sessions(upgrade),
        endpoints,
    }
}

/// Removes the stored certificate of an earlier attempt that did not enter contract, so that it is not taken for a
/// proof and none of its pages follow those of the next.
pub fn forget(fleet: &Fleet, id: &UpgradeId, former: &[Key]) -> Vec<Commit> {
    let at = fleet.upgrade(id).map_or(Revision::ABSENT, |upgrade| upgrade.at);
    let of_upgrade = || Commit::new().when(Precondition::At(Key::Upgrade(id.clone()), at));
    let batches = former.chunks(MAX_COMMIT_OPERATIONS);
    batches.map(|keys| keys.iter().cloned().fold(of_upgrade(), Commit::delete)).collect()
}

/// The largest text on one page, in bytes: four pages and their envelope stay below etcd's 1.5 MiB for a request.
const PAGE_BYTES: usize = 256 * 1024;
const PAGES_A_COMMIT: usize = 4;

fn commits(
    fleet: &Fleet,
    moment: &Moment,
    id: &UpgradeId,
    upgrade: &Stored<Upgrade>,
    binding: &SchemaBinding,
    schema: &Stored<Schema>,
    certificate: &Certificate,
) -> Result<Vec<Commit>, Vec<Reason>> {
    let texts = split(&certificate.text());
    let pages = texts.len() as u32;
    let numbered: Vec<(u32, CertificatePage)> =
        (0..).zip(texts).map(|(n, text)| (n, CertificatePage::sealed(text, pages))).collect();
    let put_pages = |commit: Commit, batch: &[(u32, CertificatePage)]| {
        batch
            .iter()
            .fold(commit, |commit, (n, page)| commit.put(Key::Certificate(id.clone(), *n), page.clone()))
    };
    let mut batches: Vec<&[(u32, CertificatePage)]> = numbered.chunks(PAGES_A_COMMIT).collect();
    let last = batches.pop().unwrap_or_default();
    let of_upgrade = || Commit::new().when(Precondition::At(Key::Upgrade(id.clone()), upgrade.at));
    let mut commits: Vec<Commit> = batches.into_iter().map(|batch| put_pages(of_upgrade(), batch)).collect();

    let mut draft = Draft::new(fleet, moment, id, upgrade, moment.next_event);
    let extra = compared(fleet, binding, schema, certificate.read_at);
    let extra = named_in_windows(fleet, contracted(extra, binding, schema), schema.services.iter());
    draft.advance(
        Move::Certified(certificate.digest()),
        put_pages(extra, last),
        |_| (),
        "its certificate is stored",
    );
    let (actions, reasons) = draft.finish();
    match actions.into_iter().next() {
        Some(Action::Commit(planned)) => commits.push(planned.commit),
        _ => return Err(reasons),
    }
    Ok(commits)
}

/// How many sharing services are compared one by one: four compares each, and room for the upgrade's own.
const ONE_BY_ONE: usize = 25;

/// What the transaction compares with what R saw: windows, schema record, inventory, decommissions, and who reports. A
/// report that changes or lapses after R is harmless, because another version and a return need admission. One that was not
/// there at R is not: an instance that R saw as decommissioned, or did not see at all, counts from its first report. Where
/// many services share the schema, those of all services are compared at once, because a transaction has a bounded number
/// of compares.
fn compared(fleet: &Fleet, binding: &SchemaBinding, schema: &Stored<Schema>, read_at: Revision) -> Commit {
    if mutant::is("certificate-compares-nothing") {
        return Commit::new();
    }
    let commit = Commit::new().when(Precondition::At(Key::Schema(binding.id.clone()), schema.at));
    let windows = schema.services.keys().fold(commit, |commit, service| {
        let window = fleet.service(service).map_or(Revision::ABSENT, ServiceFleet::window_at);
        commit.when(Precondition::At(Key::Window(service.clone()), window))
    });
    let services: Vec<&ServiceName> = schema.services.keys().collect();
    let gone: Vec<Precondition> = match services.len() > ONE_BY_ONE {
        true => vec![Precondition::NonePutAfter(Kind::Decommission, read_at)],
        false => services.iter().map(|of| none_decommissioned(of, read_at)).collect(),
    };
    let came = none_came_to(read_at, &services, ONE_BY_ONE);
    came.into_iter().chain(gone).fold(windows, Commit::when)
}

fn none_decommissioned(service: &ServiceName, read_at: Revision) -> Precondition {
    Precondition::NonePutAfterWithin(Kind::Decommission, service.to_string(), read_at)
}

/// Adds to a commit that from now on the schema requires what the certificate has proved. The record is put even where
/// nothing rises, so that a commit that sets a window from an older snapshot fails.
fn contracted(commit: Commit, binding: &SchemaBinding, schema: &Stored<Schema>) -> Commit {
    let mut body = schema.record.body.clone();
    for (service, requires) in &body.services {
        let known = body.contracted.entry(service.clone()).or_insert(*requires);
        *known = (*known).max(*requires);
    }
    commit.put(Key::Schema(binding.id.clone()), schema.record.with(body))
}

/// Splits a text into pages, never inside a character.
fn split(text: &str) -> Vec<String> {
    let mut pages = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(PAGE_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (page, more) = rest.split_at(end);
        pages.push(page.to_owned());
        rest = more;
    }
    pages
}
