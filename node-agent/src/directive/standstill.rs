//! Why an instance that is stopped, or that is about to be started, waits for a person or for the store. Pure.

use super::decide::target;
use super::seen::{Probed, Seen};
use crate::config::Service;
use crate::host::{Alive, HookState};
use crate::journal::{Journal, Phase};
use tidegate_proto::record::directive::Disposition;

/// What keeps an instance from being started or looked after.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Standstill {
    /// Its start has to wait for the store.
    #[error(
        "nothing is started while the store is away, because a start needs an admission (start_without_store = true \
         allows what was admitted here last, unless a version was refused since or it is outside the window)"
    )]
    StoreAway,
    /// Something else starts it.
    #[error(
        "nothing answers, and this agent's configuration has no driver to start it with: start the service, or add \
         [service.NAME.driver.process] or [service.NAME.driver.command]"
    )]
    NoDriver,
    /// No release is known to be the one that belongs here.
    #[error(
        "nothing answers, and nothing says which release is to be started: start the release that belongs here by \
         hand, or name it as initial_release in this agent's configuration"
    )]
    NoTarget,
    /// Something answers in the service's place.
    #[error(
        "something answers at {url}, but which version it is cannot be learned: {why}. Nothing is started beside it, \
         and it is not let into rotation; if it is another program, end it or give it another port"
    )]
    NoVersion {
        /// Where it answers.
        url: String,
        /// What the probe found.
        why: String,
    },
}

/// What keeps the instance as it is; none where it is as it should be, or comes on by itself.
pub(crate) fn standstill(service: &Service, journal: &Journal, seen: &Seen) -> Option<Standstill> {
    match (&journal.phase, seen.alive) {
        (Phase::Fresh, Alive::Yes | Alive::Unknown) => no_version(service, &seen.probe),
        (Phase::Stopped, Alive::Unknown) => no_version(service, &seen.probe),
        (Phase::Fresh | Phase::Stopped, Alive::No | Alive::Silent) => not_started(service, journal, seen),
        // Where its start hook was begun in this boot, that is waited for, and what it has started.
        (Phase::Starting { .. }, _)
            if !seen.store && !matches!(seen.hook, HookState::Runs | HookState::Ended) =>
        {
            Some(Standstill::StoreAway)
        }
        _ => None,
    }
}

fn no_version(service: &Service, probe: &Probed) -> Option<Standstill> {
    let why = match probe {
        Probed::Version(_) => return None,
        Probed::Failed(why) => why.clone(),
        Probed::Late => "no answer in its time".to_owned(),
    };
    Some(Standstill::NoVersion { url: service.ready_url.to_string(), why })
}

fn not_started(service: &Service, journal: &Journal, seen: &Seen) -> Option<Standstill> {
    if journal.disposition() == Some(&Disposition::Stop) {
        return None;
    }
    match target(service, journal) {
        _ if service.driver.is_none() => Some(Standstill::NoDriver),
        None => Some(Standstill::NoTarget),
        Some(_) if !seen.store => Some(Standstill::StoreAway),
        Some(_) => None,
    }
}
