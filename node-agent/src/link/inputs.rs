//! What the store has for one service: its window, its directive, and the agent's own report and admission. A reader
//! sees the newest state, not each change.

use crate::journal::{Journal, Known, Order, Phase};
use std::collections::BTreeMap;
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::report::Identity;
use tidegate_proto::{Key, NodeId, ReleaseTag, Revision, ServiceName, ServiceVersion, Value};
use tidegate_store::{Change, Entry, Scope, Seen, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What the store has for one service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inputs {
    /// Whether it was read at all since the agent began.
    pub known: bool,
    /// Whether the store is away; the rest is then as old as that.
    pub away: bool,
    /// The newest revision at which the report's key was seen not to exist.
    pub no_report_at: Revision,
    /// The window; an unreadable one stays what it was.
    pub window: Option<Known>,
    pub directive: Option<Order>,
    /// The mod_revision of the inventory record.
    pub inventory: Revision,
    /// That record: the last admission, where it can be read.
    pub admitted: Option<Inventory>,
    /// The report's mod_revision, and who wrote it, where that can be read.
    pub report: Option<(Revision, Option<Identity>)>,
    /// The last reconciliation, with its mod_revision.
    pub reconciliation: Option<(Revision, Reconciliation)>,
    /// How often the store was found behind what was seen of it.
    pub regressions: u64,
    /// Up to where the store was shown: its list, and what has changed since.
    pub shown: Revision,
}

impl Inputs {
    /// Whether the store can be asked, as far as is known.
    pub fn reachable(&self) -> bool {
        self.known && !self.away
    }

    /// The window, or that there is none; none of either where that is not known.
    pub fn shown_window(&self) -> Option<Option<Known>> {
        self.known.then(|| self.window.clone())
    }

    /// The version and the release of the last admission, where the journal lacks it: it has none, and that was in this boot of
    /// the machine; or it has an older one, of this store or of one before its reconciliation, after which another agent with the
    /// node's name was admitted. What that agent started is what the machine starts again in a boot, as far as is known.
    pub fn unjournalled(&self, own: &Identity, journal: &Journal) -> Option<(ServiceVersion, ReleaseTag)> {
        let admitted = self.admitted.as_ref()?;
        // What was admitted by a former store was so before this one was reconciled.
        let last = journal.admission().max(journal.witness.reconciled);
        let is_lacked = match journal.admitted {
            None => admitted.identity.boot == own.boot,
            Some(_) => admitted.identity.nonce != own.nonce && last.exists() && last < self.inventory,
        };
        if !is_lacked {
            return None;
        }
        Some((admitted.version, admitted.release.clone()?))
    }

    /// Whether the store has an older admission than this one, or none, although it was shown as far: it fell back behind
    /// what the agent wrote, and before that was shown.
    pub fn lacks(&self, admission: Revision) -> bool {
        self.shown >= admission && self.inventory < admission
    }

    /// The same of the report that was written `at` this revision. One that was removed since, or has lapsed, shows no fall.
    pub fn lacks_report(&self, at: Revision) -> bool {
        let found = self.report.as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision);
        self.shown >= at && found < at && self.no_report_at <= at
    }

    /// Whether `newer` contains what must not wait until the next look. What the agent wrote itself is not new; and while
    /// a service serves, a window that only lets more in can wait: its acknowledgement holds nothing back, and
    /// whatever is admitted asks the store itself.
    pub fn is_outdated_by(&self, newer: &Self, journal: &Journal, own: &Identity) -> bool {
        let mut known = Self { shown: newer.shown, ..self.clone() };
        if let (Some(Known { window: old, .. }), Some(Known { window: new, .. })) =
            (&self.window, &newer.window)
            && journal.phase == Phase::Serving
            && new.floor == old.floor
            && new.ceiling > old.ceiling
        {
            known.window.clone_from(&newer.window);
        }
        if newer.inventory <= journal.admission() {
            known.inventory = newer.inventory;
            known.admitted.clone_from(&newer.admitted);
        }
        let at = |inputs: &Self| inputs.report.as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision);
        if newer.report.as_ref().is_some_and(|(_, holder)| holder.as_ref() == Some(own))
            && at(newer) > at(self)
        {
            known.report.clone_from(&newer.report);
        }
        known != *newer
    }

    fn put(&mut self, entry: &Entry) {
        let revision = entry.mod_revision;
        match (&entry.key, &entry.value) {
            (Key::Window(_), Ok(Value::Window(record))) => {
                self.window = Some(Known { revision, window: record.body.clone() });
            }
            (Key::Directive(..), Ok(Value::Directive(record))) if !record.is_newer() => {
                self.directive = Some(Order { generation: revision, directive: record.body.clone() });
            }
            (Key::Inventory(..), value) => {
                self.inventory = revision;
                self.admitted = match value {
                    Ok(Value::Inventory(record)) => Some(record.body.clone()),
                    _ => None,
                };
            }
            (Key::Reconciliation, Ok(Value::Reconciliation(record))) => {
                self.reconciliation = Some((revision, record.body.clone()));
            }
            (Key::Report(..), value) => {
                let identity = match value {
                    Ok(Value::Report(record)) => Some(record.body.identity.clone()),
                    _ => None,
                };
                self.report = Some((revision, identity));
            }
            (key, Err(error)) => {
                tracing::error!(%key, %error, "a record cannot be read; the former one stands")
            }
            (key, Ok(_)) => tracing::error!(%key, "a newer program wrote this record; the former one stands"),
        }
    }

    fn gone(&mut self, key: &Key, revision: Revision) {
        match key {
            Key::Window(_) => self.window = None,
            Key::Directive(..) => self.directive = None,
            Key::Inventory(..) => {
                self.inventory = Revision::ABSENT;
                self.admitted = None;
            }
            Key::Report(..) => {
                self.report = None;
                self.no_report_at = revision;
            }
            _ => {}
        }
    }
}

/// Whether what is under a key concerns a service.
fn concerns(key: &Key, service: &ServiceName) -> bool {
    matches!(key, Key::Reconciliation) || service_of(key) == Some(service)
}

fn service_of(key: &Key) -> Option<&ServiceName> {
    match key {
        Key::Window(service)
        | Key::Directive(service, _)
        | Key::Inventory(service, _)
        | Key::Report(service, _) => Some(service),
        _ => None,
    }
}

/// Watches for all services of `node` and sends each what concerns it, until `cancel`.
pub async fn follow(
    store: &Store,
    node: &NodeId,
    outputs: &BTreeMap<ServiceName, watch::Sender<Inputs>>,
    cancel: &CancellationToken,
) {
    let scopes = outputs.keys().flat_map(|service| {
        let of = || (service.clone(), node.clone());
        let ((a, b), (c, d), (e, f)) = (of(), of(), of());
        [
            Scope::Key(Key::Window(service.clone())),
            Scope::Key(Key::Directive(a, b)),
            Scope::Key(Key::Inventory(c, d)),
            Scope::Key(Key::Report(e, f)),
        ]
    });
    let scopes = scopes.chain([Scope::Key(Key::Reconciliation)]);
    let mut stream = store.watch(scopes.collect(), cancel.clone());
    while let Some(seen) = stream.recv().await {
        take_in(outputs, seen);
    }
}

fn take_in(outputs: &BTreeMap<ServiceName, watch::Sender<Inputs>>, seen: Seen) {
    match seen {
        Seen::Listed(snapshot) => {
            for (service, out) in outputs {
                let mut fresh = Inputs { known: true, shown: snapshot.revision, ..Inputs::default() };
                snapshot.entries.iter().filter(|e| concerns(&e.key, service)).for_each(|e| fresh.put(e));
                if fresh.report.is_none() {
                    fresh.no_report_at = snapshot.revision;
                }
                // An unreadable record must not look like none: what was known of it is kept.
                let kept = |key: Key| snapshot.get(&key).is_some_and(|e| e.value.is_err());
                let window = kept(Key::Window(service.clone()));
                out.send_if_modified(|now| {
                    fresh.regressions = now.regressions;
                    if window {
                        fresh.window = now.window.clone();
                    }
                    let changed = *now != fresh;
                    *now = fresh;
                    changed
                });
            }
        }
        Seen::Changed { revision, changes } => {
            for change in changes {
                let key = match &change {
                    Change::Put(entry) => &entry.key,
                    Change::Gone { key, .. } => key,
                    Change::Foreign { .. } => continue,
                };
                for (_, out) in outputs.iter().filter(|(service, _)| concerns(key, service)) {
                    out.send_modify(|now| match &change {
                        Change::Put(entry) => now.put(entry),
                        Change::Gone { key, .. } => now.gone(key, revision),
                        Change::Foreign { .. } => {}
                    });
                }
            }
            set_shown(outputs, revision);
        }
        Seen::Progress { revision } => set_shown(outputs, revision),
        Seen::Lost { why, .. } => {
            tracing::warn!(%why, "the store is away; services go on as they are");
            set_away(outputs, true);
        }
        Seen::Regained => {
            tracing::info!("the store is back");
            set_away(outputs, false);
        }
        Seen::Restored { seen, found } => {
            tracing::error!(%seen, %found, "the store fell back behind what was seen of it: it was restored or replaced");
            outputs.values().for_each(|out| out.send_modify(|now| now.regressions += 1));
        }
    }
}

/// No reader is woken: that nothing else has changed can wait until the next look.
fn set_shown(outputs: &BTreeMap<ServiceName, watch::Sender<Inputs>>, revision: Revision) {
    for out in outputs.values() {
        out.send_if_modified(|now| {
            now.shown = now.shown.max(revision);
            false
        });
    }
}

/// The store is away, or is back: what it has is as old as that.
pub(super) fn set_away(outputs: &BTreeMap<ServiceName, watch::Sender<Inputs>>, away: bool) {
    for out in outputs.values() {
        out.send_if_modified(|now| std::mem::replace(&mut now.away, away) != away);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Admitted;
    use tidegate_proto::record::Timestamp;
    use tidegate_proto::record::window::Window;

    fn own() -> Identity {
        Identity { nonce: "own".into(), boot: "b".into() }
    }

    fn with_window(revision: i64, floor: i64, ceiling: i64) -> Inputs {
        let version = |n| tidegate_proto::ServiceVersion::new(n).unwrap();
        let window = Window {
            floor: version(floor),
            ceiling: version(ceiling),
            set_by: "u1".parse().unwrap(),
            contracted: None,
        };
        Inputs {
            known: true,
            window: Some(Known { revision: Revision(revision), window }),
            ..Inputs::default()
        }
    }

    #[test]
    fn only_widening_window_waits_while_instance_serves() {
        let journal = |phase| Journal { phase, ..Journal::default() };
        let news =
            |phase, window: Inputs| with_window(5, 1, 2).is_outdated_by(&window, &journal(phase), &own());
        assert!(!news(Phase::Serving, with_window(7, 1, 3)));
        let refused = || Phase::refused("above the ceiling");
        assert!(news(refused(), with_window(7, 1, 3)), "what it refused may be let in now");
        for (floor, ceiling) in [(2, 3), (1, 1), (1, 2), (2, 2)] {
            assert!(news(Phase::Serving, with_window(7, floor, ceiling)), "{floor} to {ceiling}");
        }
    }

    #[test]
    fn own_writes_are_no_change_and_others_are() {
        let journal = Journal::default();
        let with_report =
            |holder: Option<Identity>| Inputs { report: Some((Revision(9), holder)), ..with_window(5, 1, 2) };
        let before = with_window(5, 1, 2);
        assert!(!before.is_outdated_by(&with_report(Some(own())), &journal, &own()));
        let another = Identity { nonce: "another".into(), ..own() };
        assert!(before.is_outdated_by(&with_report(Some(another)), &journal, &own()));
        assert!(before.is_outdated_by(&with_report(None), &journal, &own()), "a report that cannot be read");
        let older = Inputs { report: Some((Revision(8), Some(own()))), ..with_window(5, 1, 2) };
        assert!(with_report(Some(own())).is_outdated_by(&older, &journal, &own()), "the store fell back");
        let admitted = Inputs { inventory: Revision(9), ..with_window(5, 1, 2) };
        assert!(before.is_outdated_by(&admitted, &journal, &own()), "by another hand than the agent's");
    }

    /// The agent has heard of revision 48, has been admitted at 49, and then the store is put back to 48.
    #[test]
    fn store_that_fell_back_unseen_lacks_what_the_agent_wrote() {
        let service: ServiceName = "pantry".parse().unwrap();
        let outputs = BTreeMap::from([(service, watch::channel(Inputs::default()).0)]);
        let lacks = |seen: Seen, admission: i64| {
            take_in(&outputs, seen);
            outputs.values().all(|out| out.borrow().lacks(Revision(admission)))
        };
        let (revision, now) = (Revision(48), Inputs { inventory: Revision(12), ..Inputs::default() });
        outputs.values().for_each(|out| drop(out.send_replace(now.clone())));
        assert!(!lacks(Seen::Progress { revision }, 49), "it may not have been shown yet");
        assert!(!lacks(Seen::Progress { revision }, 12));
        let elsewhere = Seen::Changed { revision: Revision(49), changes: Vec::new() };
        assert!(lacks(elsewhere, 49), "revision 49 is another one");
        assert!(!lacks(Seen::Progress { revision: Revision(60) }, 12));
    }

    #[test]
    fn report_that_has_lapsed_shows_no_fall_of_the_store() {
        let lacks = |report: Option<i64>, no_report_at: i64| {
            let report = report.map(|revision| (Revision(revision), None));
            let (shown, no_report_at) = (Revision(60), Revision(no_report_at));
            Inputs { shown, report, no_report_at, ..Inputs::default() }.lacks_report(Revision(49))
        };
        assert!(!lacks(Some(49), 0));
        assert!(lacks(Some(12), 0), "there is an older one");
        assert!(lacks(None, 12), "there was none before it, and there is none");
        assert!(!lacks(None, 55), "it has lapsed at 55");
    }

    /// The store has this admission at revision 9.
    fn recorded(version: ServiceVersion, release: Option<ReleaseTag>, nonce: &str) -> Inputs {
        let identity = Identity { nonce: nonce.to_owned(), ..own() };
        let (labels, at) = (BTreeMap::new(), Timestamp(0));
        let admitted = Some(Inventory { version, release, labels, identity, at });
        Inputs { admitted, inventory: Revision(9), ..Inputs::default() }
    }

    #[test]
    fn admission_of_another_boot_names_no_release() {
        let version = ServiceVersion::new(1).unwrap();
        let tag: ReleaseTag = "pantry-2".parse().unwrap();
        let named = |release: Option<ReleaseTag>, boot: &str| {
            let own = Identity { boot: boot.to_owned(), ..own() };
            recorded(version, release, "own").unjournalled(&own, &Journal::default())
        };
        assert_eq!(named(Some(tag.clone()), "b"), Some((version, tag.clone())));
        assert_eq!(named(Some(tag), "another"), None);
        assert_eq!(named(None, "b"), None, "its release was not known");
    }

    #[test]
    fn later_admission_of_another_agent_names_its_release() {
        let version = ServiceVersion::new(1).unwrap();
        let tag: ReleaseTag = "pantry-2".parse().unwrap();
        let named_in = |boot: &str, nonce: &str, journalled: i64| {
            let own = Identity { boot: boot.to_owned(), ..own() };
            let admitted = Admitted { version, release: None, revision: Revision(journalled) };
            let journal = Journal { admitted: Some(admitted), ..Journal::default() };
            recorded(version, Some(tag.clone()), nonce).unjournalled(&own, &journal)
        };
        let named = |nonce: &str, journalled: i64| named_in("b", nonce, journalled);
        assert_eq!(named("another", 8), Some((version, tag.clone())));
        assert_eq!(named_in("later", "another", 8), Some((version, tag.clone())), "before a boot");
        assert_eq!(named_in("later", "own", 8), None, "the agent itself was admitted");
        assert_eq!(named("own", 8), None, "the agent itself was admitted");
        assert_eq!(named("another", 9), None, "the agent was admitted since");
        let admitted = Admitted { version, release: None, revision: Revision(3) };
        let mut journal = Journal { admitted: Some(admitted), ..Journal::default() };
        for (reconciled, release) in [(8, Some((version, tag.clone()))), (10, None)] {
            journal.reconcile(Revision(reconciled));
            let inputs = recorded(version, Some(tag.clone()), "another");
            assert_eq!(inputs.unjournalled(&own(), &journal), release, "reconciled at {reconciled}");
        }
    }
}
