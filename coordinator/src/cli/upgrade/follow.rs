//! Reading the watch of an upgrade to an end, whatever coordinator answers. A coordinator that goes away is waited for;
//! an event that was seen is not seen twice.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use std::time::{Duration, Instant};
use tidegate_proto::wire::v1::upgrade_seen::Seen;
use tidegate_proto::wire::v1::{UpgradeSeen, WatchUpgradeRequest};

/// How long a coordinator may be away (longer than the longest leader TTL that anybody should choose).
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked again meanwhile.
const PAUSE: Duration = Duration::from_millis(500);

/// Gives each message to `each` until that has an outcome.
pub(super) async fn follow(
    options: &GlobalOptions,
    id: &str,
    mut each: impl AsyncFnMut(UpgradeSeen) -> Result<Option<Outcome>, Failure>,
) -> Result<Outcome, Failure> {
    let mut events = 0;
    let mut away: Option<Instant> = None;
    loop {
        let failure = match read(options, id, &mut events, &mut away, &mut each).await {
            Ok(outcome) => return Ok(outcome),
            Err(failure) => failure,
        };
        let began = away.get_or_insert_with(Instant::now);
        if !failure.is_away() || events == 0 || began.elapsed() > PATIENCE {
            return Err(failure.without_answer());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read(
    options: &GlobalOptions,
    id: &str,
    events: &mut usize,
    away: &mut Option<Instant>,
    each: &mut impl AsyncFnMut(UpgradeSeen) -> Result<Option<Outcome>, Failure>,
) -> Result<Outcome, Failure> {
    let request = WatchUpgradeRequest { id: id.to_owned() };
    let mut stream = options.client().await?.watch_upgrade(request).await?.into_inner();
    let mut skip = *events;
    while let Some(seen) = stream.message().await? {
        *away = None;
        if matches!(seen.seen, Some(Seen::Event(_))) {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            *events += 1;
        }
        if let Some(outcome) = each(seen).await? {
            return Ok(outcome);
        }
    }
    // The coordinator ends its streams when it ends.
    Err(tonic::Status::unavailable("the coordinator has gone away").into())
}
