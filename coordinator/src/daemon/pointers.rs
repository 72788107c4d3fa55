//! A file for each release stream that says what main traffic should go to, for a balancer to follow.

use super::write_whole;
use crate::operation::release::view::{self, Pointer};
use crate::report::Mirror;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::StreamName;
use tokio_util::sync::CancellationToken;

/// Between two looks: many things change together, and a balancer is not in a hurry of milliseconds.
const REST: Duration = Duration::from_millis(100);
/// After this a file that could not be written is tried again, though nothing has changed.
const RETRY: Duration = Duration::from_secs(5);

/// Keeps the files in `dir` as the store has it, until `end`. What cannot be trusted now changes no file.
pub(super) async fn keep(dir: PathBuf, mirror: Arc<Mirror>, end: CancellationToken) {
    let mut sync_status = mirror.sync_status();
    let mut written = BTreeMap::new();
    let following = async {
        loop {
            if mirror.trouble().is_none() {
                write_changed(&dir, &deployed(&mirror), &mut written);
            }
            tokio::time::sleep(REST).await;
            // Sleeping too long is no error, and a mirror that is gone is the end.
            if let Ok(Err(_)) = tokio::time::timeout(RETRY, sync_status.changed()).await {
                return;
            }
        }
    };
    end.run_until_cancelled(following).await;
}

fn deployed(mirror: &Mirror) -> Vec<Pointer> {
    let view = mirror.view();
    let streams = view.fleet.streams();
    streams.filter_map(|(name, stream)| Some(Pointer::to(name, stream.deployed.as_deref()?))).collect()
}

fn write_changed(dir: &Path, now: &[Pointer], written: &mut BTreeMap<StreamName, Pointer>) {
    for pointer in now {
        if written.get(&pointer.stream) == Some(pointer) {
            continue;
        }
        let path = dir.join(format!("{}.json", pointer.stream));
        match write_whole(&path, &format!("{}\n", view::text(pointer))) {
            Ok(()) => drop(written.insert(pointer.stream.clone(), pointer.clone())),
            Err(error) => {
                let path = path.display();
                tracing::error!(%path, %error, "could not write what main traffic should go to; it is tried again");
            }
        }
    }
}
