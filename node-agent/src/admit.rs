//! Admission: asks the store whether a version may run on this node. One transaction compares the window that was read and
//! writes the inventory record; its revision is the admission that reports name. No minimum over nodes is computed, so the
//! node's own row never counts against it.

use crate::journal::{Known, Refusal};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::report::Identity;
use tidegate_proto::{
    Commit, InstanceId, Key, Precondition, ReleaseTag, Revision, ServiceVersion, Value, mutant,
};
use tidegate_store::{CommitError, Snapshot, Store, StoreError};

/// How often it is tried when what was read has changed meanwhile.
const ATTEMPTS: u32 = 5;

/// What is to be admitted.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub instance: &'a InstanceId,
    pub version: ServiceVersion,
    /// Its release, where it is known.
    pub release: Option<ReleaseTag>,
    /// The labels of its node.
    pub labels: &'a BTreeMap<String, String>,
    /// The agent that asks.
    pub identity: &'a Identity,
    /// The admission that the asker holds: where it is unchanged and the report, which never lapsed, says so, nothing is
    /// written.
    pub known: Revision,
    /// The mod_revision of the window that the asker obeyed last. An older one is a former store's.
    pub obeyed: Revision,
    /// The same of the directive that it accepted; 0 = none of this store.
    pub accepted: Revision,
    /// The inventory record that the asker's watch has shown, or that there is none; outer: none where it has no watch.
    pub shown: Option<Option<&'a Inventory>>,
}

/// An admission that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// The mod_revision of its inventory record.
    pub revision: Revision,
    /// The mod_revision of the report that was there; 0 = none. The next report is written over just that.
    pub report: Revision,
}

/// Why a version was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// The window does not admit it.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// Another agent reports this instance.
    #[error(
        "{instance} is reported by another agent (nonce {}, boot {}): two agents have the node name {}; give one another name, or wait for its lease",
        holder.nonce, holder.boot, instance.node
    )]
    Held {
        instance: InstanceId,
        /// The agent that reports it.
        holder: Identity,
    },
    /// The same agent reported it before its machine was rebooted; that lease has not expired yet.
    #[error("{0} is still reported from before this machine was rebooted: waiting until that lease expires")]
    EarlierBoot(InstanceId),
    /// Another agent has admitted it, which the asker was not shown yet.
    #[error("another agent has admitted {0}, perhaps as another release: waiting until the watch shows that")]
    Unshown(InstanceId),
    /// What authorises it cannot be read.
    #[error("the record {key} cannot be read ({found}), so nothing is admitted by it")]
    Unreadable {
        key: Key,
        /// What is wrong with it.
        found: String,
    },
    /// It was restored from a backup, or is another one.
    #[error(
        "the store has {key} at revision {found}, and revision {obeyed} of it was obeyed: the store was restored or \
         replaced. Nothing is admitted before a person has reconciled it (`tidegate fleet reconcile`)"
    )]
    FellBack {
        key: Key,
        obeyed: Revision,
        /// What is there; 0 = nothing.
        found: Revision,
    },
    /// The store did not answer, or others wrote at the same time again and again.
    #[error("the store could not be asked")]
    Store(#[source] StoreError),
    /// The transaction was not carried out.
    #[error("the admission was not written")]
    Commit(#[source] CommitError),
}

/// As [`admit`], without reading what the asker's watch has shown: the window, and the revision of its own report.
/// Where that window admits the candidate and both are unchanged, the admission is written on them; else everything is
/// read, so that nothing is refused on records that may be old.
pub async fn admit_as_watched(
    store: &Store,
    candidate: &Candidate<'_>,
    window: &Known,
    report_at: Revision,
) -> Result<Admission, NotAdmitted> {
    if window.window.admits(candidate.version) && report_at.exists() {
        match write(store, candidate, window.revision, report_at).await {
            Err(NotAdmitted::Commit(CommitError::Conflict { .. })) => {}
            answer => return answer,
        }
    }
    admit(store, candidate).await
}

/// Admits `candidate`.
pub async fn admit(store: &Store, candidate: &Candidate<'_>) -> Result<Admission, NotAdmitted> {
    let mut retries = 1..ATTEMPTS;
    loop {
        let read = read(store, candidate.instance).await?;
        match decide(store, candidate, &read).await {
            Err(NotAdmitted::Commit(CommitError::Conflict { .. })) if retries.next().is_some() => {}
            answer => return answer,
        }
    }
}

/// The keys of window, directive, report and inventory record of one instance.
fn keys(instance: &InstanceId) -> [Key; 4] {
    let InstanceId { service, node } = instance.clone();
    [
        Key::Window(service.clone()),
        Key::Directive(service.clone(), node.clone()),
        Key::Report(service.clone(), node.clone()),
        Key::Inventory(service, node),
    ]
}

/// What is under them, at one revision.
async fn read(store: &Store, instance: &InstanceId) -> Result<Snapshot, NotAdmitted> {
    store.get_many(&keys(instance)).await.map_err(NotAdmitted::Store)
}

/// Writes the admission, on the condition that the window and the report are unchanged. The directive only shows whether the
/// window is one of the store that was obeyed, which it stays at the revision that was read.
async fn decide(store: &Store, candidate: &Candidate<'_>, read: &Snapshot) -> Result<Admission, NotAdmitted> {
    check_store(read, candidate)?;
    let [window_key, _, report_key, inventory_key] = keys(candidate.instance);
    let window = window_admits(read, &window_key, candidate)?;
    let report = report_allows(read, &report_key, candidate)?;
    check_shown(read, &inventory_key, candidate)?;
    if is_reported(read, &report_key, candidate) && stands(read, &inventory_key, candidate) {
        return Ok(Admission { revision: candidate.known, report });
    }
    write(store, candidate, window, report).await
}

/// Writes the admission, on the condition that the window and the report are what they were.
async fn write(
    store: &Store,
    candidate: &Candidate<'_>,
    window: Revision,
    report: Revision,
) -> Result<Admission, NotAdmitted> {
    let [window_key, _, report_key, inventory_key] = keys(candidate.instance);
    let inventory = Inventory {
        version: candidate.version,
        release: candidate.release.clone(),
        labels: candidate.labels.clone(),
        identity: candidate.identity.clone(),
        at: now(),
    };
    let commit = match mutant::is("window-is-not-compared") {
        true => Commit::new(),
        false => Commit::new().when(Precondition::At(window_key, window)),
    };
    let commit = commit.when(Precondition::At(report_key, report)).put(inventory_key, inventory);
    let committed = store.commit(&commit).await.map_err(NotAdmitted::Commit)?;
    Ok(Admission { revision: committed.revision, report })
}

/// Whether neither the window nor the directive is older than the one that was obeyed. A person may have put back the window
/// alone; a directive that is not there says nothing.
fn check_store(read: &Snapshot, candidate: &Candidate<'_>) -> Result<(), NotAdmitted> {
    let [window, directive, ..] = keys(candidate.instance);
    let at = |key: &Key| read.get(key).map(|entry| entry.mod_revision);
    let window_at = at(&window).unwrap_or(Revision::ABSENT);
    let directive_at = at(&directive).unwrap_or(candidate.accepted);
    let compared = [(window, window_at, candidate.obeyed), (directive, directive_at, candidate.accepted)];
    match compared.into_iter().find(|(_, found, obeyed)| found < obeyed) {
        Some((key, found, obeyed)) if !mutant::is("former-window-is-obeyed") => {
            Err(NotAdmitted::FellBack { key, obeyed, found })
        }
        _ => Ok(()),
    }
}

fn window_admits(read: &Snapshot, key: &Key, candidate: &Candidate<'_>) -> Result<Revision, NotAdmitted> {
    let Some(entry) = read.get(key) else { return Ok(Revision::ABSENT) };
    let window = match &entry.value {
        Ok(Value::Window(record)) => &record.body,
        Ok(_) => return Err(unreadable(key, "it is of another kind")),
        Err(e) => return Err(unreadable(key, &e.to_string())),
    };
    if window.admits(candidate.version) || mutant::is("window-is-not-asked") {
        return Ok(entry.mod_revision);
    }
    let above = candidate.version >= window.floor;
    let (side, bound) = match above {
        true => ("above the ceiling", window.ceiling),
        false => ("below the floor", window.floor),
    };
    let reason = format!(
        "version {} of {} is {side} {bound}: the window {window} was set by upgrade {}",
        candidate.version, candidate.instance, window.set_by
    );
    let (version, bears) = (candidate.version, window.bears(candidate.version));
    let [.., inventory_key] = keys(candidate.instance);
    let overtaken = window.follows_needs() && held(read, &inventory_key, candidate).is_some();
    let at = entry.mod_revision;
    Err(NotAdmitted::Refused(Refusal { version, reason, window: at, bears, overtaken, above }))
}

fn report_allows(read: &Snapshot, key: &Key, candidate: &Candidate<'_>) -> Result<Revision, NotAdmitted> {
    let Some(entry) = read.get(key) else { return Ok(Revision::ABSENT) };
    match &entry.value {
        Ok(Value::Report(report)) => {
            check_holder(candidate.instance, &report.body.identity, candidate.identity)?;
            Ok(entry.mod_revision)
        }
        Ok(_) => Err(unreadable(key, "it is of another kind")),
        Err(e) => Err(unreadable(key, &e.to_string())),
    }
}

/// Whether the asker knew the last admission, where that is another agent's: it may name what runs. A watch that has resumed
/// shows only afterwards what was written meanwhile, and the asker's admission would take the place of that.
fn check_shown(read: &Snapshot, key: &Key, candidate: &Candidate<'_>) -> Result<(), NotAdmitted> {
    let Some(shown) = candidate.shown else { return Ok(()) };
    let Some(Ok(Value::Inventory(record))) = read.get(key).map(|entry| &entry.value) else { return Ok(()) };
    let is_own = record.body.identity.nonce == candidate.identity.nonce;
    if is_own || shown == Some(&record.body) {
        return Ok(());
    }
    Err(NotAdmitted::Unshown(candidate.instance.clone()))
}

/// Whether `own` may take over what `holder` reports.
pub fn check_holder(instance: &InstanceId, holder: &Identity, own: &Identity) -> Result<(), NotAdmitted> {
    match (holder.nonce == own.nonce, holder.boot == own.boot) {
        (true, true) => Ok(()),
        (true, false) => Err(NotAdmitted::EarlierBoot(instance.clone())),
        (false, _) => Err(NotAdmitted::Held { instance: instance.clone(), holder: holder.clone() }),
    }
}

/// Whether the report is of the admission that the asker holds and names its version. The first report after the end of a
/// lease says no version: the admission does not stand any more, although there is a report.
fn is_reported(read: &Snapshot, key: &Key, candidate: &Candidate<'_>) -> bool {
    let Some(Ok(Value::Report(record))) = read.get(key).map(|entry| &entry.value) else { return false };
    record.body.admission == candidate.known && record.body.version == Some(candidate.version)
}

fn stands(read: &Snapshot, key: &Key, candidate: &Candidate<'_>) -> bool {
    held(read, key, candidate)
        .is_some_and(|have| have.release == candidate.release && have.labels == *candidate.labels)
}

/// The admission that the asker holds, where it is of this version and of this boot of the machine.
fn held<'a>(read: &'a Snapshot, key: &Key, candidate: &Candidate<'_>) -> Option<&'a Inventory> {
    let entry = read.get(key).filter(|entry| entry.mod_revision == candidate.known)?;
    let Ok(Value::Inventory(record)) = &entry.value else { return None };
    let have = &record.body;
    (have.version == candidate.version && have.identity == *candidate.identity).then_some(have)
}

fn unreadable(key: &Key, found: &str) -> NotAdmitted {
    NotAdmitted::Unreadable { key: key.clone(), found: found.to_owned() }
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
