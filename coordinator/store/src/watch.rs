//! A watch that goes on: over lost connections it resumes where it was, after a compaction it lists again, and a store
//! that fell back behind what was seen is reported as `Restored`, also where its revisions have caught up since, and where
//! it took the other's place between two calls of the watch. Where a commit or another watch over the same connection finds
//! that the store fell back, each watch reports it: its stream may go on at the former store. A store that lacks nothing but
//! what was answered over the connection, and not sent to a watch yet, is found as a stream is opened, or once it is silent.
//!
//! # What is guaranteed
//! * The first item is `Listed` (`Lost` before it while the store is away). Each `Listed` replaces all before it.
//! * `Regained` ends what `Lost` began, after all that the store had when the stream was opened again; where the last of that
//!   is of other keys, and the store does not say so, after two seconds without a message.
//! * Where one of the scopes is broad (`All`, or a kind), there is one watch of the store over the whole prefix,
//!   filtered here: each `Changed` is everything of one revision in all scopes, and revisions rise.
//! * Where all are narrow (`Key`, `Within`), there is a watch of the store for each, over one stream, so that an
//!   agent is not sent the whole fleet. Then the changes of each scope come in order, none is lost and none comes
//!   twice; but what one transaction changed in two scopes comes as two `Changed` of the same revision, and a scope may
//!   be a little ahead of another. After a lost connection they are listed again, which is cheap.
//! * A reader that is slow slows the store's stream down; it loses nothing.

mod seen;
mod session;
mod state;

pub use seen::{Change, Seen};

use crate::process::spawn;
use crate::scope::{Range, Scope};
use crate::store::Reader;
use session::Watcher;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many items wait for a slow reader before the stream is slowed down.
const WAITING: usize = 256;

/// What a watch reports, as it comes. Dropped, the watch ends.
#[derive(Debug)]
pub struct WatchStream(mpsc::Receiver<Seen>);

impl WatchStream {
    /// The next item; none after the watch was cancelled.
    pub async fn recv(&mut self) -> Option<Seen> {
        self.0.recv().await
    }

    /// The next item where it is there already.
    pub fn try_recv(&mut self) -> Option<Seen> {
        self.0.try_recv().ok()
    }
}

impl Reader {
    /// Watches some scopes as one stream until `cancel`; see the module for what is guaranteed.
    pub fn watch(&self, scopes: Vec<Scope>, cancel: CancellationToken) -> WatchStream {
        let (sender, receiver) = mpsc::channel(WAITING);
        let listed = Range::of_all(&scopes, self.prefix());
        let watched = match scopes.iter().any(Scope::is_broad) {
            true => vec![Scope::All.range(self.prefix())],
            false => listed.clone(),
        };
        let watcher = Watcher::new(self.clone(), listed, watched, sender);
        spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = watcher.run() => {}
            }
        });
        WatchStream(receiver)
    }
}
