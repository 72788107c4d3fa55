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
    /// What authorises it cannot be read.
    #[error("the record {key} cannot be read ({found}), so nothing is admitted by it")]
    Unreadable {
        key: Key,
        /// What is wrong with it.
        found: String,
    },
    /// It was restored from a backup, or is another one.
    #[error(
        "the store has the window of {instance} at revision {found}, and revision {obeyed} of it was obeyed: the store was \
         restored or replaced. Nothing is admitted before a person has reconciled it (`tidegate fleet reconcile`)"
    )]
    FellBack {
        instance: InstanceId,
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

/// The keys of window, report and inventory record of one instance.
fn keys(instance: &InstanceId) -> [Key; 3] {
    let InstanceId { service, node } = instance.clone();
    [Key::Window(service.clone()), Key::Report(service.clone(), node.clone()), Key::Inventory(service, node)]
}

/// What is under them, at one revision.
async fn read(store: &Store, instance: &InstanceId) -> Result<Snapshot, NotAdmitted> {
    store.get_many(&keys(instance)).await.map_err(NotAdmitted::Store)
}

/// Writes the admission, on the condition that what was read is unchanged.
async fn decide(store: &Store, candidate: &Candidate<'_>, read: &Snapshot) -> Result<Admission, NotAdmitted> {
    let [window_key, report_key, inventory_key] = keys(candidate.instance);
    let window = window_admits(read, &window_key, candidate)?;
    let report = report_allows(read, &report_key, candidate)?;
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
    let [window_key, report_key, inventory_key] = keys(candidate.instance);
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

fn window_admits(read: &Snapshot, key: &Key, candidate: &Candidate<'_>) -> Result<Revision, NotAdmitted> {
    let found = read.get(key).map_or(Revision::ABSENT, |entry| entry.mod_revision);
    if found < candidate.obeyed && !mutant::is("former-window-is-obeyed") {
        let (instance, obeyed) = (candidate.instance.clone(), candidate.obeyed);
        return Err(NotAdmitted::FellBack { instance, obeyed, found });
    }
    let Some(entry) = read.get(key) else { return Ok(Revision::ABSENT) };
    let window = match &entry.value {
        Ok(Value::Window(record)) => &record.body,
        Ok(_) => return Err(unreadable(key, "it is of another kind")),
        Err(e) => return Err(unreadable(key, &e.to_string())),
    };
    if window.admits(candidate.version) || mutant::is("window-is-not-asked") {
        return Ok(entry.mod_revision);
    }
    let (side, bound) = match candidate.version < window.floor {
        true => ("below the floor", window.floor),
        false => ("above the ceiling", window.ceiling),
    };
    let reason = format!(
        "version {} of {} is {side} {bound}: the window {window} was set by upgrade {}",
        candidate.version, candidate.instance, window.set_by
    );
    let (version, bears) = (candidate.version, window.bears(candidate.version));
    let [.., inventory_key] = keys(candidate.instance);
    let overtaken = window.follows_needs() && held(read, &inventory_key, candidate).is_some();
    Err(NotAdmitted::Refused(Refusal { version, reason, window: entry.mod_revision, bears, overtaken }))
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
mod tests {
    use super::*;
    use tidegate_embedded_etcd::Embedded;
    use tidegate_proto::record::report::Report;
    use tidegate_proto::record::window::Window;
    use tidegate_proto::{Prefix, ServiceName};

    fn version(n: i64) -> ServiceVersion {
        ServiceVersion::new(n).unwrap()
    }

    /// One that asks to be admitted.
    struct Asker {
        instance: InstanceId,
        labels: BTreeMap<String, String>,
        identity: Identity,
    }

    impl Asker {
        fn n1() -> Self {
            Self {
                instance: InstanceId::new("pantry-api".parse().unwrap(), "n1".parse().unwrap()),
                labels: BTreeMap::new(),
                identity: Identity { nonce: "n".into(), boot: "b".into() },
            }
        }

        fn asks(&self, n: i64) -> Candidate<'_> {
            Candidate {
                instance: &self.instance,
                version: version(n),
                release: None,
                labels: &self.labels,
                identity: &self.identity,
                known: Revision::ABSENT,
                obeyed: Revision::ABSENT,
            }
        }
    }

    async fn set_window(store: &Store, service: &ServiceName, floor: i64, ceiling: i64) -> Revision {
        let window = Window {
            floor: version(floor),
            ceiling: version(ceiling),
            set_by: "u1".parse().unwrap(),
            contracted: None,
        };
        let commit = Commit::new().put(Key::Window(service.clone()), window);
        store.commit(&commit).await.unwrap().revision
    }

    #[tokio::test]
    async fn only_what_is_within_the_window_is_admitted() {
        let client = Embedded::in_memory().client().await.unwrap();
        let store = Store::over(client, Prefix::default());
        let n1 = Asker::n1();
        assert!(admit(&store, &n1.asks(9)).await.is_ok(), "without a window anything may");
        set_window(&store, &n1.instance.service, 2, 3).await;
        for (n, fits) in [(1, false), (2, true), (3, true), (4, false)] {
            let answer = admit(&store, &n1.asks(n)).await;
            assert_eq!(answer.is_ok(), fits, "version {n}: {answer:?}");
        }
    }

    #[tokio::test]
    async fn older_window_than_obeyed_admits_and_refuses_nothing() {
        let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
        let n1 = Asker::n1();
        let obeyed = Revision(100);
        let fell_back = |answer: Result<Admission, NotAdmitted>| match answer {
            Err(NotAdmitted::FellBack { found, .. }) => found,
            other => panic!("{other:?}"),
        };
        let asks = |n| Candidate { obeyed, ..n1.asks(n) };
        assert_eq!(fell_back(admit(&store, &asks(2)).await), Revision::ABSENT, "a blank store");
        let older = set_window(&store, &n1.instance.service, 2, 3).await;
        for version in [1, 2] {
            assert_eq!(fell_back(admit(&store, &asks(version)).await), older, "version {version}");
        }
        assert!(admit(&store, &Candidate { obeyed: older, ..n1.asks(2) }).await.is_ok());
    }

    #[tokio::test]
    async fn report_without_version_needs_another_admission() {
        let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
        let n1 = Asker::n1();
        let first = admit(&store, &n1.asks(1)).await.unwrap().revision;
        let asks = Candidate { known: first, ..n1.asks(1) };
        let InstanceId { service, node } = n1.instance.clone();
        let key = Key::Report(service, node);
        for (version, stands) in [(Some(1), true), (None, false)] {
            let report =
                serde_json::json!({ "identity": n1.identity, "admission": first, "version": version });
            let report: Report = serde_json::from_value(report).unwrap();
            let at = store.commit(&Commit::new().put(key.clone(), report)).await.unwrap().revision;
            let admission = admit(&store, &asks).await.unwrap();
            assert_eq!(admission.revision == first, stands, "{version:?}: {admission:?}");
            assert_eq!(admission.report, at, "{version:?}");
        }
    }

    #[tokio::test]
    async fn window_change_refuses_admission_read_under_former_one() {
        let client = Embedded::in_memory().client().await.unwrap();
        let store = Store::over(client, Prefix::default());
        let n1 = Asker::n1();
        set_window(&store, &n1.instance.service, 1, 2).await;
        let read = read(&store, &n1.instance).await.unwrap();
        set_window(&store, &n1.instance.service, 2, 2).await;
        let answer = decide(&store, &n1.asks(1), &read).await;
        assert!(matches!(answer, Err(NotAdmitted::Commit(CommitError::Conflict { .. }))), "{answer:?}");
    }

    #[tokio::test]
    async fn admission_uses_watched_keys_only_while_they_are_current() {
        let client = Embedded::in_memory().client().await.unwrap();
        let store = Store::over(client, Prefix::default());
        let n1 = Asker::n1();
        let InstanceId { service, node } = n1.instance.clone();
        let report: Report = serde_json::from_value(serde_json::json!({ "identity": n1.identity })).unwrap();
        let key = Key::Report(service.clone(), node.clone());
        let report_at = store.commit(&Commit::new().put(key, report)).await.unwrap().revision;
        let window_at = set_window(&store, &n1.instance.service, 1, 2).await;
        let window = Window {
            floor: version(1),
            ceiling: version(2),
            set_by: "u1".parse().unwrap(),
            contracted: None,
        };
        let window = Known { revision: window_at, window };
        let first = admit_as_watched(&store, &n1.asks(2), &window, report_at).await.unwrap();
        assert_eq!(first, Admission { revision: Revision(window_at.0 + 1), report: report_at });

        // The watched window is outdated, whichever way it has moved since.
        set_window(&store, &n1.instance.service, 3, 3).await;
        let refused = admit_as_watched(&store, &n1.asks(2), &window, report_at).await;
        assert!(matches!(refused, Err(NotAdmitted::Refused(_))), "{refused:?}");
        assert!(
            admit_as_watched(&store, &n1.asks(3), &window, report_at).await.is_ok(),
            "the window admits it now"
        );

        // Another agent's report forbids the write, although the watch did not show it.
        let other = Identity { nonce: "another".into(), boot: "b".into() };
        let report: Report = serde_json::from_value(serde_json::json!({ "identity": other })).unwrap();
        let key = Key::Report(service.clone(), node.clone());
        store.commit(&Commit::new().put(key, report)).await.unwrap();
        let window = Known { revision: set_window(&store, &n1.instance.service, 1, 2).await, ..window };
        let held = admit_as_watched(&store, &n1.asks(2), &window, report_at).await;
        assert!(matches!(held, Err(NotAdmitted::Held { .. })), "{held:?}");
    }
}
