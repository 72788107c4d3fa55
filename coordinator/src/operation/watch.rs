//! What happens to an upgrade, as it happens: its events from the first on, the reasons for which it waits, its status;
//! and, last, how it ended.

use super::{OperationError, answer, find, parse};
use crate::context::Context;
use std::time::Duration;
use tidegate_proto::key::{EventSeq, Kind, Subject};
use tidegate_proto::record::event::Event;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::wire::v1::upgrade_seen::Seen as Message;
use tidegate_proto::wire::v1::{self, Over, Reasons, UpgradeSeen, WatchUpgradeRequest};
use tidegate_proto::{Key, UpgradeId, Value};
use tidegate_store::process::spawn;
use tidegate_store::{Change, Entry, Scope, Seen};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The least time between two status messages: a large wave changes the status with every report.
const SPACING: Duration = Duration::from_millis(200);

/// A reader that is slower than this many messages holds its own stream back, and nothing else.
const BUFFERED: usize = 64;

/// Watches an upgrade until it is over, or the receiver is dropped.
pub async fn watch_upgrade(
    context: &Context,
    asked: &WatchUpgradeRequest,
) -> Result<mpsc::Receiver<UpgradeSeen>, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    find(&context.mirror.view().fleet, &id)?;
    let (sender, receiver) = mpsc::channel(BUFFERED);
    let watcher = Watcher {
        context: context.clone(),
        id,
        sender,
        last_event: None,
        last_progress: None,
        last_reasons: None,
    };
    spawn(watcher.run());
    Ok(receiver)
}

struct Watcher {
    context: Context,
    id: UpgradeId,
    sender: mpsc::Sender<UpgradeSeen>,
    last_event: Option<EventSeq>,
    last_progress: Option<v1::UpgradeSummary>,
    last_reasons: Option<Reasons>,
}

/// The receiver is gone, everything was sent, or the upgrade is in the store no more.
struct Ended;

fn is_lost(change: &Change) -> bool {
    matches!(change, Change::Gone { key: Key::Upgrade(_), .. })
}

impl Watcher {
    async fn run(mut self) {
        let cancel = CancellationToken::new();
        let _ended = cancel.clone().drop_guard();
        let events = Subject::Upgrade(self.id.clone()).to_string();
        let scopes = vec![
            Scope::Within(Kind::Event, events),
            Scope::Key(Key::Upgrade(self.id.clone())),
            Scope::Key(Key::Waiting(self.id.clone())),
        ];
        let mut seen = self.context.store.watch(scopes, cancel);
        let mut sync_status = self.context.mirror.sync_status();
        let mut due = None;
        loop {
            let later = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            let went_on = tokio::select! {
                () = self.sender.closed() => break,
                next = seen.recv() => match next {
                    Some(next) => self.take_in(next).await,
                    None => break,
                },
                Ok(()) = sync_status.changed(), if due.is_none() => {
                    due = Some(Instant::now() + SPACING);
                    Ok(())
                }
                () = tokio::time::sleep_until(later), if due.is_some() => {
                    due = None;
                    self.progress().await
                }
            };
            if went_on.is_err() {
                break;
            }
        }
    }

    async fn take_in(&mut self, seen: Seen) -> Result<(), Ended> {
        let entries = match seen {
            // The store was restored to before the upgrade, or is blank: no end of it will come.
            Seen::Listed(snapshot) if snapshot.get(&Key::Upgrade(self.id.clone())).is_none() => {
                return Err(Ended);
            }
            Seen::Changed { changes, .. } if changes.iter().any(is_lost) => return Err(Ended),
            Seen::Listed(snapshot) => snapshot.entries,
            Seen::Changed { changes, .. } => {
                changes.into_iter().filter_map(|change| self.put(change)).collect()
            }
            // Its next leaders have lower numbers than the events that were sent.
            Seen::Restored { .. } => {
                self.last_event = None;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let mut over = None;
        for Entry { key, value, .. } in entries {
            match (key, value) {
                (Key::Event(_, seq), Ok(Value::Event(record)))
                    if self.last_event.is_none_or(|last| last < seq) =>
                {
                    self.last_event = Some(seq);
                    self.send(Message::Event(record.body.into())).await?;
                }
                (Key::Waiting(_), Ok(Value::Waiting(record))) => {
                    let reasons = record.body.reasons.into_iter().map(Into::into).collect();
                    self.reasons(Reasons { reasons, more: record.body.more }).await?;
                }
                (Key::Upgrade(_), Ok(Value::Upgrade(record))) if record.body.phase.is_over() => {
                    over = Some(record.body);
                }
                _ => {}
            }
        }
        match over {
            Some(upgrade) => self.over(&upgrade).await,
            None => Ok(()),
        }
    }

    fn put(&mut self, change: Change) -> Option<Entry> {
        match change {
            Change::Put(entry) => Some(entry),
            Change::Gone { .. } | Change::Foreign { .. } => None,
        }
    }

    async fn event(&mut self, seq: EventSeq, event: Event) -> Result<(), Ended> {
        if self.last_event.is_some_and(|last| seq <= last) {
            return Ok(());
        }
        self.last_event = Some(seq);
        self.send(Message::Event(event.into())).await
    }

    async fn reasons(&mut self, reasons: Reasons) -> Result<(), Ended> {
        if self.last_reasons.as_ref() == Some(&reasons) {
            return Ok(());
        }
        self.last_reasons = Some(reasons.clone());
        self.send(Message::Waiting(reasons)).await
    }

    async fn progress(&mut self) -> Result<(), Ended> {
        let summary = {
            let view = self.context.mirror.view();
            view.fleet.upgrade(&self.id).map(|upgrade| answer::summary(&view.fleet, &self.id, upgrade))
        };
        if summary.is_none() || summary == self.last_progress {
            return Ok(());
        }
        self.last_progress.clone_from(&summary);
        match summary {
            Some(summary) => self.send(Message::Progress(summary)).await,
            None => Ok(()),
        }
    }

    /// The end: the last events first, because each scope of the watch may be a little ahead of another.
    async fn over(&mut self, upgrade: &Upgrade) -> Result<(), Ended> {
        let events = Scope::Within(Kind::Event, Subject::Upgrade(self.id.clone()).to_string());
        let listed = self.context.store.list(&events).await.map_err(|_| Ended)?;
        for entry in listed.entries {
            if let (Key::Event(_, seq), Ok(Value::Event(record))) = (entry.key, entry.value) {
                self.event(seq, record.body).await?;
            }
        }
        let phase = upgrade.phase.name().word().to_owned();
        self.send(Message::Over(Over { phase, because: answer::because(upgrade) })).await?;
        Err(Ended)
    }

    async fn send(&self, seen: Message) -> Result<(), Ended> {
        self.sender.send(UpgradeSeen { seen: Some(seen) }).await.map_err(|_| Ended)
    }
}
