//! The documents of metadata groups (cfn-hup's part): the agent writes the document of this node to a file, runs a hook when it
//! has changed, and signals the outcome while an update exposes the document.
//!
//! The agent reads the store itself, as it reads directives: the group's record, which is watched, says how far an update is;
//! the node's page says in which batch the node is. So no coordinator needs to be reached.
//!
//! # Invariants
//! * Only the newest document counts: an agent that was away for nine documents applies the tenth.
//! * The file is whole after a crash: the old document or the new one.
//! * A hook is run at least once for each document that was written: an agent that was killed during it runs it again.
//! * The generation of this node falls only by a return: the group's record and the page are read one after the other, and if
//!   they do not belong together, the node keeps its document until the next record. A store that was lost and begun again
//!   counts from 1: what the node has from the former one stays until the node is exposed.
//! * A document that failed is applied again after growing pauses; its last signal counts. A return to no document that failed
//!   is repeated in the same way.
//! * A signal that the store has lost since is sent again: after each lost connection the store is asked whether it is there.

mod apply;
mod kept;
mod retry;

use crate::config::settings::MetadataGroup;
use crate::host::{Host, briefly};
use crate::link::Link;
use apply::Apply;
use kept::{Keeper, Kept, Outcome};
use retry::Retry;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::metadata::document_digest;
use tidegate_proto::record::group::{DocumentVersion, ExposedPage, Group, page_of, served};
use tidegate_proto::record::signal::Signal;
use tidegate_proto::{Chain, Key, NodeId, Revision, Value};
use tidegate_store::{Change, Entry, Scope, Seen, Store, StoreError};
use tokio_util::sync::CancellationToken;

/// Between two attempts at what the store did not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// One group, as this node follows it.
pub struct Follower {
    node: NodeId,
    group: MetadataGroup,
    keeper: Keeper,
    kept: Option<Kept>,
    apply: Apply,
    retry: Retry,
    /// Whether the store may have lost what was signalled: it was away since, and may have been restored.
    unsure: bool,
    /// Whether it was logged that a document or file stays which this store does not serve.
    stay_is_logged: bool,
}

impl Follower {
    /// One that takes up what is remembered below the agent's state directory.
    pub fn open(
        host: &Arc<dyn Host>,
        node: &NodeId,
        group: &MetadataGroup,
        state_dir: &Path,
    ) -> io::Result<Self> {
        // No service has a name that begins so.
        let home = state_dir.join(".metadata").join(group.name.as_str());
        host.make_directory(&home)?;
        host.sweep(&home);
        host.sweep(group.file.parent().unwrap_or(Path::new("/")));
        let keeper = Keeper::within(host, &home);
        // A document that failed is applied again after a restart.
        let kept = keeper.read()?.map(Kept::taken_up);
        let apply = Apply::new(host, node, group, &home);
        let retry = Retry::default();
        let (node, group) = (node.clone(), group.clone());
        Ok(Self { node, group, keeper, kept, apply, retry, unsure: false, stay_is_logged: false })
    }

    /// Follows the group until `cancel`. What has begun is finished first.
    pub async fn run(mut self, link: Link, cancel: CancellationToken) {
        let Some(store) = link.connected(&cancel).await else { return };
        let mut stream = store.watch(vec![Scope::Key(Key::Group(self.group.name.clone()))], cancel.clone());
        let mut wanted: Option<Group> = None;
        loop {
            let wait = match &wanted {
                Some(group) => self.settle(&store, group).await,
                None => None,
            };
            let first = tokio::select! {
                seen = stream.recv() => seen,
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => continue,
            };
            let Some(first) = first else { return };
            self.take_in(&mut wanted, first);
            // Only the newest counts.
            while let Some(next) = stream.try_recv() {
                self.take_in(&mut wanted, next);
            }
        }
    }

    fn take_in(&mut self, wanted: &mut Option<Group>, seen: Seen) {
        // A watch of the group's record alone does not show that signals fell back.
        self.unsure |= matches!(seen, Seen::Listed(_) | Seen::Regained);
        take_in(wanted, seen);
    }

    /// Brings the node to what it is served. Returns when to try again; none where the next change of the group is waited for.
    async fn settle(&mut self, store: &Store, group: &Group) -> Option<Duration> {
        self.sync(store, group).await.unwrap_or_else(|error| {
            tracing::warn!(group = %self.group.name, error = %format!("{:#}", Chain(&error)), "the store did not answer; tries again");
            Some(RETRY_AFTER)
        })
    }

    async fn sync(&mut self, store: &Store, group: &Group) -> Result<Option<Duration>, StoreError> {
        let page = self.page(store, group).await?;
        let version = match served(group, page.as_ref(), &self.node) {
            Ok(Some(version)) => version,
            Ok(None) => return Ok(self.has_none(group).await),
            Err(unknown) => {
                tracing::debug!(group = %self.group.name, %unknown, "keeps the document that it has");
                return Ok(Some(RETRY_AFTER));
            }
        };
        let exposed = group.update.as_ref().filter(|update| update.to == version);
        if exposed.is_none() && group.update.is_some() {
            tracing::debug!(group = %self.group.name, generation = %version.generation, "not exposed; the former document stands");
        }
        let kept = self.kept.as_ref().filter(|kept| kept.is(version));
        let is_due = match kept.and_then(|kept| kept.outcome.as_ref()) {
            None => true,
            Some(Outcome::Good) => false,
            Some(Outcome::Failed { .. }) => self.retry.left().is_zero(),
        };
        if is_due {
            let again = kept.is_some();
            let Some(document) = self.document(store, version).await? else { return Ok(Some(RETRY_AFTER)) };
            self.take(version, &document, again).await;
        }
        self.note_current(version, exposed.is_none());
        if exposed.is_some()
            && let again @ Some(_) = self.signal(store, version).await?
        {
            return Ok(again);
        }
        let failed =
            self.kept.as_ref().is_some_and(|kept| matches!(kept.outcome, Some(Outcome::Failed { .. })));
        Ok(failed.then(|| self.retry.left()))
    }

    /// The node's page of the update that runs.
    async fn page(&self, store: &Store, group: &Group) -> Result<Option<ExposedPage>, StoreError> {
        let Some(update) = &group.update else { return Ok(None) };
        let key = Key::Exposed(self.group.name.clone(), page_of(&self.node, update.pages));
        match store.get(&key).await?.map(|entry| entry.value) {
            Some(Ok(Value::Exposed(record))) => Ok(Some(record.body)),
            Some(Err(error)) => {
                tracing::error!(%key, %error, "a record cannot be read; this node keeps the document that it has");
                Ok(None)
            }
            // Gone: the update has ended since the group's record was read, and its next record says how.
            _ => Ok(None),
        }
    }

    /// The document, as the file is to hold it; none = it is not there any more, is another one, or cannot be read.
    async fn document(&self, store: &Store, version: DocumentVersion) -> Result<Option<Vec<u8>>, StoreError> {
        let key = Key::Document(self.group.name.clone(), version.generation);
        match store.get(&key).await?.map(|entry| entry.value) {
            Some(Ok(Value::Document(found))) if document_digest(&found.body.document) == version.digest => {
                Ok(Some(apply::text(&found.body.document)))
            }
            Some(Ok(_)) => {
                // The store may have been replaced since the group's record was read; its next record says more.
                tracing::error!(%key, "a document is not the one that its group's record names; the former one stands");
                Ok(None)
            }
            Some(Err(error)) => {
                tracing::error!(%key, %error, "a document cannot be read; the former one stands");
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Makes a document this node's: file first, then the hook, each remembered.
    async fn take(&mut self, version: DocumentVersion, document: &[u8], again: bool) {
        let former = self.kept.clone().filter(|_| again);
        let outcome = self
            .apply
            .document(version.generation, document, || {
                self.keeper.write(&Kept { version, outcome: None, reported: false, current: false })
            })
            .await;
        self.retry.after(&outcome, again);
        match &outcome {
            Outcome::Good => {
                tracing::info!(group = %self.group.name, generation = %version.generation, "the document was taken")
            }
            Outcome::Failed { kind, why } => {
                tracing::error!(group = %self.group.name, generation = %version.generation, %kind, why, "the document was not taken well")
            }
        }
        // The same outcome is not signalled twice.
        let reported =
            former.is_some_and(|former| former.reported && former.outcome.as_ref() == Some(&outcome));
        self.keep(Kept { version, outcome: Some(outcome), reported, current: false });
    }

    /// Remembers whether the document of this node is that of all instances.
    fn note_current(&mut self, version: DocumentVersion, current: bool) {
        if let Some(kept) = self.kept.clone().filter(|kept| kept.is(version) && kept.current != current) {
            self.keep(Kept { current, ..kept });
        }
    }

    /// There is no document for this node: none yet, or the first one was returned from. A document that no update of this
    /// store which has ended can have brought is of a former store, which was lost: it stays until the node is exposed. So is
    /// one that was the document of all instances, whatever its generation: a store never goes back to none from that. A file
    /// that the agent does not remember may be a person's. Returns when to try again, where the return to none failed.
    async fn has_none(&mut self, group: &Group) -> Option<Duration> {
        let Some(kept) = self.kept.clone() else {
            let file = &self.group.file;
            if !self.stay_is_logged && self.apply.is_there() {
                self.stay_is_logged = true;
                tracing::warn!(group = %self.group.name, file = %file.display(), "no document is served to this node, and nothing is remembered of the file that is there: it stays until this node is exposed to a document");
            }
            return None;
        };
        if kept.current || group.last.as_ref().is_none_or(|last| last.generation < kept.version.generation) {
            // No update of this store need ever come to this node.
            if !std::mem::replace(&mut self.stay_is_logged, true) {
                tracing::warn!(group = %self.group.name, generation = %kept.version.generation, "the document of a former store stays until this node is exposed to another one");
            }
            return None;
        }
        let again = kept.outcome.is_none();
        if again && !self.retry.left().is_zero() {
            return Some(self.retry.left());
        }
        self.keep(Kept { outcome: None, reported: false, ..kept });
        let outcome = self.apply.nothing().await;
        self.retry.after(&outcome, again);
        if let Outcome::Failed { kind, why } = &outcome {
            tracing::error!(group = %self.group.name, %kind, why, "the return to no document did not go well; tries again");
            return Some(self.retry.left());
        }
        self.kept = None;
        if let Err(error) = briefly(|| self.keeper.forget()) {
            tracing::error!(group = %self.group.name, %error, "could not forget the former document");
        }
        None
    }

    /// Signals this node's success or failure, once for each document.
    async fn signal(
        &mut self,
        store: &Store,
        version: DocumentVersion,
    ) -> Result<Option<Duration>, StoreError> {
        let Some(kept) = self.kept.clone().filter(|kept| kept.is(version)) else {
            return Ok(Some(RETRY_AFTER));
        };
        let asked = |_: &&Outcome| self.unsure || !kept.reported;
        let Some(outcome) = kept.outcome.as_ref().filter(asked) else { return Ok(None) };
        let (success, failure, why) = match outcome {
            Outcome::Good => (true, None, String::new()),
            Outcome::Failed { kind, why } => (false, kind.parse().ok(), why.clone()),
        };
        let body = Signal {
            generation: Some(version.generation),
            success,
            failure,
            why,
            who: format!("agent of {}", self.node),
            at: crate::admit::now(),
        };
        let key = Key::GroupSignal(self.group.name.clone(), self.node.clone());
        let found = store.get(&key).await?;
        if let Some(by) = found.as_ref().filter(|_| kept.reported).and_then(|entry| sender(entry, &body)) {
            tracing::debug!(group = %self.group.name, %by, "the store has a signal about this document");
            self.unsure = false;
            return Ok(None);
        }
        let at = found.map_or(Revision::ABSENT, |entry| entry.mod_revision);
        let commit = Commit::new().when(Precondition::At(key.clone(), at)).put(key, body);
        match store.commit(&commit).await {
            Ok(_) => {
                self.unsure = false;
                self.keep(Kept { reported: true, ..kept });
                Ok(None)
            }
            Err(error) => {
                tracing::warn!(group = %self.group.name, error = %format!("{:#}", Chain(&error)), "could not signal success or failure of the document; tries again");
                Ok(Some(RETRY_AFTER))
            }
        }
    }

    fn keep(&mut self, kept: Kept) {
        if let Err(error) = briefly(|| self.keeper.write(&kept)) {
            // What is not stored is done again after a crash, and that is all.
            tracing::error!(group = %self.group.name, %error, "could not store success or failure of a document");
        }
        self.kept = Some(kept);
    }
}

/// Who sent the signal that the store has, where that is this one of this node. One of a person about the same document came
/// later, and counts.
fn sender<'a>(entry: &'a Entry, own: &Signal) -> Option<&'a str> {
    let Ok(Value::Signal(found)) = &entry.value else { return None };
    let is_same = found.body.who != own.who || found.body.success == own.success;
    (found.body.generation == own.generation && is_same).then_some(found.body.who.as_str())
}

fn take_in(wanted: &mut Option<Group>, seen: Seen) {
    match seen {
        Seen::Listed(snapshot) => {
            for entry in snapshot.entries {
                put(wanted, entry);
            }
        }
        Seen::Changed { changes, .. } => {
            for change in changes {
                if let Change::Put(entry) = change {
                    put(wanted, entry);
                }
                // A group that is gone says nothing about the document: the last one is kept.
            }
        }
        _ => {}
    }
}

fn put(wanted: &mut Option<Group>, entry: Entry) {
    match entry.value {
        Ok(Value::Group(record)) if !record.is_newer() => *wanted = Some(record.body),
        Ok(_) => {
            tracing::error!(key = %entry.key, "a newer program wrote this record; the former one stands")
        }
        Err(error) => {
            tracing::error!(key = %entry.key, %error, "a record cannot be read; the former one stands")
        }
    }
}
