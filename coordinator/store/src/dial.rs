//! The first word with the store. Every member is asked for its status at once, each over a connection of its own;
//! the first that answers is kept, and the others are added to it. A connection to all of them from the start would
//! ask whichever is ready first, and nothing is ready sooner than a member that refuses.

use crate::endpoints::Endpoints;
use crate::error::{self, Cause, StoreError};
use etcd_client::{Client, ConnectOptions, Error as ClientError};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use std::time::Duration;

/// A connection to every member, and the version of the one that answered first.
///
/// # Errors
/// Where no member answered: an error that another try would not fix, if there was one, else the last.
pub(crate) async fn dial(
    endpoints: &Endpoints,
    options: &ConnectOptions,
) -> Result<(Client, String), StoreError> {
    let mut asked: FuturesUnordered<_> =
        endpoints.urls.iter().map(|url| limited(ask(url, options.clone()))).collect();
    let mut wrong = None;
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(first) => return with_the_others(first, endpoints).await,
            Err(error) => wrong = Some(graver(wrong, explain(endpoints, &error))),
        }
    }
    Err(wrong.unwrap_or_else(|| StoreError::Configuration("no member is named".to_owned())))
}

struct First<'a> {
    url: &'a str,
    client: Client,
    version: String,
}

async fn ask(url: &str, options: ConnectOptions) -> Result<First<'_>, ClientError> {
    let client = Client::connect([url], Some(options)).await?;
    let status = client.maintenance_client().status().await?;
    Ok(First { url, client, version: status.version().to_owned() })
}

async fn with_the_others(first: First<'_>, endpoints: &Endpoints) -> Result<(Client, String), StoreError> {
    for url in endpoints.urls.iter().filter(|url| *url != first.url) {
        first.client.add_endpoint(url).await.map_err(|error| explain(endpoints, &error))?;
    }
    Ok((first.client, first.version))
}

fn graver(before: Option<StoreError>, now: StoreError) -> StoreError {
    before.filter(|before| !before.retryable()).unwrap_or(now)
}

fn explain(endpoints: &Endpoints, error: &ClientError) -> StoreError {
    match error {
        ClientError::InvalidUri(_) | ClientError::InvalidArgs(_) => {
            StoreError::Configuration(error.to_string())
        }
        // Before anything is sent: a certificate or key that is not PEM, a URL that is none.
        ClientError::TransportError(_) => StoreError::Configuration(Cause::of(error).to_string()),
        _ => error::explain("connect", &endpoints.to_string(), MAX_ANSWER_BYTES, error),
    }
}

/// How long one call may take. A healthy store answers in milliseconds; an election of a new leader takes 1–2 s.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest answer to a read, in bytes. A page that exceeds it is asked for again in smaller ones.
pub(crate) const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// A call with the time limit that every call has.
pub(crate) async fn limited<T>(call: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    limited_to(CALL_TIMEOUT, call).await
}

/// A call with this time limit.
pub(crate) async fn limited_to<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let late = || {
        let text = format!("no answer within {} s", limit.as_secs_f64());
        ClientError::GRpcStatus(tonic::Status::deadline_exceeded(text))
    };
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(late()))
}
