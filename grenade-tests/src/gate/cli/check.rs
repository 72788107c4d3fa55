//! `grenade check`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use crate::gate::cli::{in_a_world, load, not_run, say_undecided};
use crate::gate::exit::print;
use crate::gate::report::progress::Progress;
use crate::gate::run;

/// Starts each version alone, and says what is missing.
pub(super) async fn check(path: &Path) -> ExitCode {
    let gate = match load(path) {
        Ok(gate) => gate,
        Err(code) => return code,
    };
    say_undecided(&gate);
    let room = match tempfile::tempdir().context("could not make a temporary directory") {
        Ok(room) => room,
        Err(error) => return not_run(&error),
    };
    let most = Duration::from_secs(600);
    let directory = room.path().join("check");
    let checked = in_a_world(&directory, most, async |world| {
        let (_, health) = run::check(world, &gate, &Progress::new(most)).await?;
        match health.into_iter().find_map(|health| Some((health.version, health.wrong?))) {
            None => Ok(()),
            Some((version, wrong)) => {
                anyhow::bail!(
                    "{}: the health check of version {version}: {wrong}",
                    gate.origin.at("service.health")
                )
            }
        }
    });
    match checked.await {
        Ok(()) => print(&format!(
            "{}: both versions of {} start, say their numbers, and the load passes against the base alone\n",
            path.display(),
            gate.service.name
        )),
        Err(error) => not_run(&error),
    }
}
