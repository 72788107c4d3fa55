//! The history of a stream, in pages, the latest first.

use super::super::{OperationError, store_error};
use super::{find, read, revision, stream_name, view};
use crate::context::Context;
use tidegate_proto::wire::v1::ListReleasesRequest;
use tidegate_proto::{Key, ReleaseRevision};

/// How many releases a page has that says nothing.
const PAGE: u32 = 50;
/// How many at most: one transaction of the store.
const MAX_PAGE: u32 = 100;

/// One page.
pub async fn list_releases(
    context: &Context,
    asked: &ListReleasesRequest,
) -> Result<view::Page, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let limit = match asked.limit {
        0 => PAGE,
        limit if limit <= MAX_PAGE => limit,
        limit => {
            return Err(OperationError::BadInput(format!(
                "a page of {limit} releases is too long: 1 to {MAX_PAGE} are allowed"
            )));
        }
    };
    let latest = {
        let view = context.mirror.view();
        let found = find(&view.fleet, &stream)?;
        found.latest.as_ref().map_or(0, |latest| latest.revision.get())
    };
    let last = match asked.before {
        0 => latest,
        before => latest.min(revision(before)?.get() - 1),
    };
    // Revisions are counted, so a page is known by its numbers: nothing is searched.
    let first = last.saturating_sub(u64::from(limit)) + 1;
    let keys = (first..=last).map(|n| Ok(Key::Release(stream.clone(), revision(n)?)));
    let keys: Vec<Key> = keys.collect::<Result<_, OperationError>>()?;
    let mut releases = Vec::new();
    if !keys.is_empty() {
        let found = context.store.get_many(&keys).await.map_err(store_error("read the history"))?;
        for entry in found.entries {
            releases.push(view::Release::of(&stream, &read::of(entry)?.record.body, None));
        }
    }
    releases.reverse();
    let before = ReleaseRevision::new(first).ok().filter(|first| first.get() > 1 && last > 0);
    Ok(view::Page { releases, before })
}
