//! Reading the watch of an upgrade to an end, whatever coordinator answers. A coordinator that is away is waited for, also
//! before the first answer; an event that was seen is not seen twice.

use crate::cli::exit::{Failure, Outcome};
use crate::cli::options::GlobalOptions;
use crate::cli::show;
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
        let is_first = away.is_none();
        let began = away.get_or_insert_with(Instant::now);
        if !failure.is_away() || began.elapsed() > PATIENCE {
            return Err(failure.without_answer());
        }
        // Nothing was shown yet, and the address may be wrong.
        if is_first && events == 0 {
            let limit = PATIENCE.as_secs();
            show::note(format!("tidegate: {}; asking again for up to {limit} s", failure.message));
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
