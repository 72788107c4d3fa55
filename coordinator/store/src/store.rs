//! One connection to the store, and how calls are made over it: each with a time limit, reads again where that is
//! worth it, errors in our words. Never repeats what writes.

use crate::dial::{MAX_ANSWER_BYTES, dial, limited};
use crate::endpoints::Endpoints;
use crate::error::{self, Meaning, StoreError};
use crate::retry::Retry;
use etcd_client::{Client, Error as ClientError, KvClient, LeaseClient, ResponseHeader, WatchClient};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tidegate_proto::{Prefix, Revision};
use tokio::sync::watch;

/// How long a read is retried before it returns an error.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The largest message of a watch: whole revisions, up to 1,000 of them at once when it catches up. What exceeds it is
/// listed again instead.
const MAX_WATCH_BYTES: usize = 32 * 1024 * 1024;

/// One connection to the store that reads, watches and campaigns, cheap to clone: a coordinator's. What a leader writes, it
/// writes through its [`crate::Leadership`].
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// A connection that also writes, without a fence: an agent's.
#[derive(Clone)]
pub struct Store(Reader);

impl Deref for Store {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.0
    }
}

impl Store {
    /// As [`Reader::connect`].
    ///
    /// # Errors
    /// `Configuration`, `Authentication`, or `Unreachable` after some seconds.
    pub async fn connect(endpoints: &Endpoints, prefix: Prefix) -> Result<Self, StoreError> {
        Reader::connect(endpoints, prefix).await.map(Self)
    }

    /// As [`Reader::over`].
    pub fn over(client: Client, prefix: Prefix) -> Self {
        Self(Reader::over(client, prefix))
    }

    /// For the transactions of a campaign and of the leadership that it wins.
    pub(crate) fn of_leader(reader: &Reader) -> Self {
        Self(reader.clone())
    }
}

/// The store was found behind what was seen of it: it was restored or replaced.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fall {
    /// The highest revision that was seen.
    pub(crate) seen: Revision,
    /// The revision that it had then.
    pub(crate) found: Revision,
}

struct Shared {
    /// A copy of it is a copy of ten clients, each with its channel: only what a call needs is copied.
    client: Client,
    prefix: Prefix,
    endpoints: String,
    /// The highest revision of any answer; where a store was restored, lowered to what was found then.
    highest: AtomicI64,
    /// When the store was last found behind what was seen of it over this connection.
    falls: watch::Sender<Fall>,
    /// Whether an answer to a request for progress never overtakes events.
    progress_is_ordered: bool,
}

impl Reader {
    /// Connects, and asks the members for their status: the error names the endpoints that were tried.
    ///
    /// # Errors
    /// `Configuration`, `Authentication`, or `Unreachable` after some seconds.
    pub async fn connect(endpoints: &Endpoints, prefix: Prefix) -> Result<Self, StoreError> {
        let (options, names) = (endpoints.options()?, endpoints.to_string());
        let mut retry = Retry::within(PATIENCE);
        loop {
            let wrong = match dial(endpoints, &options).await {
                Ok((client, version)) => {
                    warn_of(&version, &names);
                    return Ok(Self::new(client, prefix, names, orders_progress(&version)));
                }
                Err(wrong) => wrong,
            };
            if !wrong.retryable() || !retry.wait().await {
                return Err(wrong);
            }
        }
    }

    /// Over a client that is connected already: the embedded store, in process.
    pub fn over(client: Client, prefix: Prefix) -> Self {
        Self::new(client, prefix, "the embedded store".to_owned(), true)
    }

    fn new(client: Client, prefix: Prefix, endpoints: String, progress_is_ordered: bool) -> Self {
        let (highest, falls) = (AtomicI64::new(0), watch::Sender::new(Fall::default()));
        let shared = Shared { client, prefix, endpoints, highest, falls, progress_is_ordered };
        Self { shared: Arc::new(shared) }
    }

    /// What every key of this store begins with.
    pub fn prefix(&self) -> &Prefix {
        &self.shared.prefix
    }

    /// The endpoints, as configured.
    pub fn endpoints(&self) -> &str {
        &self.shared.endpoints
    }

    /// The highest revision that any answer over this connection has named.
    pub fn highest_seen(&self) -> Revision {
        Revision(self.shared.highest.load(Ordering::Relaxed))
    }

    pub(crate) fn saw(&self, revision: Revision) {
        self.shared.highest.fetch_max(revision.0, Ordering::Relaxed);
    }

    /// The store was found behind what was seen of it: each watch reports that.
    pub(crate) fn fell_back(&self, fall: Fall) {
        self.shared.highest.store(fall.found.0, Ordering::Relaxed);
        self.shared.falls.send_replace(fall);
    }

    /// Changes whenever the store is found behind what was seen of it.
    pub(crate) fn falls(&self) -> watch::Receiver<Fall> {
        self.shared.falls.subscribe()
    }

    pub(crate) fn orders_progress(&self) -> bool {
        self.shared.progress_is_ordered
    }

    pub(crate) fn lease_client(&self) -> LeaseClient {
        self.shared.client.lease_client()
    }

    pub(crate) fn kv(&self) -> KvClient {
        self.shared.client.kv_client().max_decoding_message_size(MAX_ANSWER_BYTES)
    }

    pub(crate) fn watch_client(&self) -> WatchClient {
        self.shared.client.watch_client().max_decoding_message_size(MAX_WATCH_BYTES)
    }

    /// The revision of an answer.
    pub(crate) fn revision_of(
        &self,
        attempt: &str,
        header: Option<&ResponseHeader>,
    ) -> Result<Revision, StoreError> {
        let header = header.ok_or_else(|| self.malformed(attempt, "it has no header"))?;
        let revision = Revision(header.revision());
        self.saw(revision);
        Ok(revision)
    }

    pub(crate) fn malformed(&self, attempt: &str, found: &str) -> StoreError {
        StoreError::Malformed { attempt: attempt.to_owned(), found: found.to_owned() }
    }

    pub(crate) fn explain(&self, attempt: &str, error: &ClientError) -> StoreError {
        error::explain(attempt, &self.shared.endpoints, MAX_ANSWER_BYTES, error)
    }

    /// A call that changes nothing, or whose repetition does no harm: again while that is worth it.
    pub(crate) async fn call<T, F>(&self, attempt: &str, mut call: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut retry = Retry::within(PATIENCE);
        loop {
            let error = match limited(call()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let explained = self.explain(attempt, &error);
            let again = matches!(error::meaning(&error), Meaning::NotTaken | Meaning::Unknown);
            if !again || !retry.wait().await {
                return Err(explained);
            }
            tracing::debug!(attempt, error = %explained, "a call to the store is tried again");
        }
    }

    /// After the store has refused a token on a stream, which the client does not renew by itself.
    pub(crate) async fn renew_token(&self) {
        if let Err(error) = limited(self.shared.client.refresh_token()).await {
            tracing::debug!(%error, "could not renew the token of the store");
        }
    }
}

/// Upstream recommends against these: killed under load they may corrupt their data.
fn warn_of(version: &str, endpoints: &str) {
    if ["3.5.0", "3.5.1", "3.5.2"].contains(&version) {
        tracing::warn!(
            version,
            endpoints,
            "this etcd may corrupt its data when it is killed; use 3.5.6 or later"
        );
    }
}

/// Before 3.4.25 and 3.5.8 an answer to a request for progress may overtake events of lower revisions.
fn orders_progress(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten()) {
        (Some(3), Some(4), Some(patch)) => patch >= 25,
        (Some(3), Some(5), Some(patch)) => patch >= 8,
        (Some(3), Some(minor), Some(_)) => minor >= 6,
        (Some(major), ..) => major > 3,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_believed_from_the_version_that_orders_it() {
        for (version, ordered) in [
            ("3.4.23", false),
            ("3.4.25", true),
            ("3.5.7", false),
            ("3.5.8", true),
            ("3.6.0-rc.1", true),
            ("4.0.0", true),
            ("", false),
            ("nonsense", false),
        ] {
            assert_eq!(orders_progress(version), ordered, "{version:?}");
        }
    }
}
