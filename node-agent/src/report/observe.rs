//! One look at an instance: everything that its phase asks for, in the order that is evidence for a drain.

use super::debounce::Debounce;
use super::{probe, readiness};
use crate::config::Service;
use crate::directive::seen::{Balancers, DisableFile, InFlight, Probed, Said, Seen, Staging, Url};
use crate::drain::disable_file::DisableFileHandle;
use crate::drain::{balancer, in_flight};
use crate::host::{Alive, HookState, Host, NoAnswer};
use crate::journal::Phase;
use crate::replace::driver::Driver;
use crate::{fetch, quote};
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// At rest, balancers are asked this often: often enough to see one come back that was restarted.
const BALANCERS_AT_REST: Duration = Duration::from_secs(5);

/// How often the status hook is asked.
const STATUS: Duration = Duration::from_secs(1);

/// So many equal answers of the status hook count: a supervisor may be between two attempts.
const ENDED: u32 = 2;

/// Looks at one service.
#[derive(Debug)]
pub(crate) struct Observer {
    service: Service,
    host: Arc<dyn Host>,
    disable_file: DisableFileHandle,
    driver: Option<Driver>,
    health: Debounce,
    balancers_at: Option<Instant>,
    status_at: Option<Instant>,
    /// How often in a row the status hook has said that the service does not run.
    ended: u32,
    kept: Option<Seen>,
}

impl Observer {
    /// Nothing seen yet.
    pub(crate) fn new(
        host: &Arc<dyn Host>,
        service: Service,
        disable_file: DisableFileHandle,
        driver: Option<Driver>,
    ) -> Self {
        let health = Debounce::new(service.debounce, service.interval / 2);
        Self {
            service,
            host: Arc::clone(host),
            disable_file,
            driver,
            health,
            balancers_at: None,
            status_at: None,
            ended: 0,
            kept: None,
        }
    }

    /// Keeps a look after which nothing has changed: the next look is this one.
    pub(crate) fn keep(&mut self, seen: Seen) {
        self.kept = Some(seen);
    }

    /// Nothing was seen for a while: answers before and after that are not counted together.
    pub(crate) fn begins_again(&mut self) {
        self.health.begins_again();
    }

    /// Looks, as the phase asks for. What the store has is left open.
    pub(crate) async fn look(&mut self, phase: &Phase, now: Instant) -> Seen {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        let file = self.disable_file.look();
        let limit = self.service.timeout;
        let process = self.driver.as_ref().and_then(Driver::process).map(|process| process.alive());
        let (probe, ready, url) = tokio::join!(
            probe::ask(&self.host, &self.service.probe, limit),
            fetch::get(self.host.as_ref(), &self.service.ready_url, limit),
            fetch::get(self.host.as_ref(), &self.service.health_url, limit),
        );
        let said = Said { ready: quote::answer(&ready), health: quote::answer(&url) };
        let masked = ready
            .as_ref()
            .is_ok_and(|(status, body)| readiness::is_masked(&self.service, file, *status, body));
        let alive = match process {
            // Nothing holds the lock, and yet it answers: it was started by other means.
            Some(Alive::No) if ready.is_ok() => Alive::Yes,
            Some(alive) => alive,
            // Without a process of the agent's own, what answers runs; and silence proves nothing.
            None if ready.is_ok() => Alive::Yes,
            None if is_refused(&ready) && probe != Probed::Late => Alive::Silent,
            None => Alive::Unknown,
        };
        let gone = alive == Alive::No || alive == Alive::Silent && !is_expected(phase);
        // A file may name a version that does not run any more.
        let probe = if gone { Probed::Failed("nothing runs".to_owned()) } else { probe };
        let is_ready = matches!(ready, Ok((StatusCode::OK, _)));
        let serves = is_in_service(phase);
        let health = if masked { self.health.known() } else { self.health.take_in(is_ready, serves, now) };
        let url = match &url {
            Ok((StatusCode::OK, _)) => Url::Good,
            Ok((StatusCode::SERVICE_UNAVAILABLE, _)) => Url::Unavailable,
            // A wrong address is refused too; together with the readiness URL it is the service that does not listen.
            Err(_) if is_refused(&url) && is_refused(&ready) => Url::NoListener,
            _ => Url::Other,
        };
        // After the health URL, and what is in flight after the balancers: the order is the evidence.
        let balancers = self.ask_balancers(phase, file, url, now).await;
        let in_flight = match (&self.service.in_flight, phase) {
            (Some(how), Phase::Draining) if alive != Alive::No => {
                in_flight::count(self.host.as_ref(), how, limit).await
            }
            _ => InFlight::NotAsked,
        };
        let gone = self.ask_status(phase, alive, now).await;
        let runs = match &self.driver {
            Some(driver) if alive == Alive::Silent && matches!(phase, Phase::Starting { .. }) => {
                driver.still_runs(limit).await
            }
            _ => false,
        };
        Seen {
            now,
            store: false,
            alive,
            probe,
            ready: is_ready,
            masked,
            gone,
            runs,
            said,
            health,
            file,
            url,
            balancers,
            in_flight,
            window: None,
            wanted: None,
            reconciled: None,
            disregarded: false,
            readmit: true,
            unasked: true,
            recorded: None,
            staging: Staging::Pending,
            hook: HookState::NotBegun,
            booted: false,
        }
    }

    /// Asks the status hook about a service that does not listen; says whether it has denied often enough that the service
    /// runs.
    async fn ask_status(&mut self, phase: &Phase, alive: Alive, now: Instant) -> bool {
        let driver = self.driver.as_ref().filter(|_| asks_status(phase) && alive == Alive::Silent);
        let Some(driver) = driver else {
            self.ended = 0;
            return false;
        };
        if self.status_at.is_none_or(|at| now.duration_since(at) >= STATUS) {
            self.status_at = Some(now);
            self.ended = if driver.has_ended(self.service.timeout).await { self.ended + 1 } else { 0 };
        }
        self.ended >= ENDED
    }

    async fn ask_balancers(&mut self, phase: &Phase, file: DisableFile, url: Url, now: Instant) -> Balancers {
        if self.service.balancers.is_empty() {
            return Balancers::None;
        }
        let due = self.balancers_at.is_none_or(|at| now.duration_since(at) >= BALANCERS_AT_REST);
        if !(moves(phase) || due || outdates_balancers(phase, file, url)) {
            return Balancers::NotAsked;
        }
        self.balancers_at = Some(now);
        balancer::ask_all(self.host.as_ref(), &self.service.balancers, self.service.timeout).await
    }
}

/// Whether balancers are asked in each look.
fn moves(phase: &Phase) -> bool {
    matches!(phase, Phase::Draining | Phase::Verifying | Phase::Fresh)
}

/// Whether it is in service, so that quick answers count as one: what is refused and stays there is looked at often while it
/// fails.
fn is_in_service(phase: &Phase) -> bool {
    matches!(phase, Phase::Serving | Phase::Refused { stays: Some(_), .. })
}

/// Whether what balancers said a moment ago is worthless in a phase at rest: a file came or went, or what is refused and stays
/// in rotation fails, and is hidden once they have taken it out.
fn outdates_balancers(phase: &Phase, file: DisableFile, url: Url) -> bool {
    match phase {
        Phase::Serving => file != DisableFile::Absent,
        Phase::Refused { stays, .. } => stays.is_some() && url != Url::Good,
        _ => false,
    }
}

/// Whether the status hook is asked whether what does not listen has ended: not while the agent stops or starts it, nor after
/// a stop that was confirmed.
pub(crate) fn asks_status(phase: &Phase) -> bool {
    !matches!(phase, Phase::Stopping | Phase::Stopped | Phase::Starting { .. })
}

/// Whether what does not answer may still be on its way up, so that it is not said to be gone.
fn is_expected(phase: &Phase) -> bool {
    matches!(phase, Phase::Verifying | Phase::Serving | Phase::Starting { .. })
}

/// Whether a look that was taken in the phase `from` is all that `to` asks for: then it need not be taken again. A stop and a
/// start ask for a look after their journal entry is on the disk.
pub(crate) fn is_look_still_valid(service: &Service, from: &Phase, to: &Phase, seen: &Seen) -> bool {
    let of_the_same = is_expected(from) == is_expected(to) || seen.alive != Alive::Silent;
    let draining = |phase: &Phase| matches!(phase, Phase::Draining);
    let counted = service.in_flight.is_none() || draining(from) || !draining(to);
    let asked = service.balancers.is_empty() || moves(from) || !moves(to);
    // A drain begins with the file: what is asked before it is there is no evidence.
    let disables_first = draining(to) && seen.file == DisableFile::Absent;
    !to.precedes_stop_or_start() && of_the_same && (disables_first || counted && asked)
}

/// Whether nothing listens. A connection that was cut says nothing about what runs.
fn is_refused(answer: &Result<(StatusCode, Bytes), NoAnswer>) -> bool {
    matches!(answer, Err(NoAnswer::Refused { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balancers_are_asked_while_what_is_refused_and_stays_fails() {
        let staying = Phase::Refused { reason: "above".to_owned(), stays: Some("boot".to_owned()) };
        let outdates_without_a_file =
            |phase: &Phase, url: Url| outdates_balancers(phase, DisableFile::Absent, url);
        assert!(outdates_without_a_file(&staying, Url::Unavailable));
        assert!(!outdates_without_a_file(&staying, Url::Good), "it serves until it is drained");
        assert!(!outdates_without_a_file(&Phase::refused("above"), Url::Unavailable), "it is hidden");
        assert!(!outdates_without_a_file(&Phase::Serving, Url::Unavailable), "it is admitted");
        assert!(outdates_balancers(&Phase::Serving, DisableFile::Own, Url::Good), "a file came");
    }

    #[test]
    fn what_is_refused_and_stays_is_in_service() {
        let staying = Phase::Refused { reason: "above".to_owned(), stays: Some("boot".to_owned()) };
        assert!(is_in_service(&staying) && is_in_service(&Phase::Serving));
        assert!(!is_in_service(&Phase::refused("above")), "it is hidden");
    }
}
