//! Monitors health from outside: asks each instance's health URL, as a balancer does, and looks who took it out. Knows nothing of etcd,
//! coordinators or agents.

use http::Method;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

use super::event_log::EventLog;
use crate::fixture::load::version_of;
use crate::load::wire::{self, NoAnswer};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// An answer takes milliseconds.
const ANSWER: Duration = Duration::from_secs(1);
/// How old what a coordinator sees of an instance may be: an agent's lease, the time until its end is noticed, and a change
/// of leaders.
const OLD: Duration = Duration::from_secs(15);

/// Why an instance does not answer 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Its agent put the disable-file while it served.
    Order,
    /// Anything else.
    Misfortune,
}

/// An instance.
#[derive(Debug)]
struct Instance {
    name: String,
    address: SocketAddr,
    disable_file: PathBuf,
    /// Since when it is out, and why.
    out: Option<(Instant, Cause)>,
    version: Option<u32>,
}

/// What was seen.
#[derive(Debug)]
struct Book {
    instances: Vec<Instance>,
    /// As many must stay.
    least: usize,
    /// The fewest that were in service without those that were out by themselves.
    fewest: usize,
    breaches: Vec<String>,
}

/// A monitor; it ends with this value.
#[derive(Debug)]
pub(super) struct HealthMonitor {
    book: Arc<Mutex<Book>>,
    task: JoinHandle<()>,
}

impl HealthMonitor {
    /// Begins with these: name, address of the service, disable-file.
    pub(super) fn begin(instances: Vec<(String, SocketAddr, PathBuf)>, log: &EventLog) -> Self {
        let instances = instances.into_iter().map(|(name, address, disable_file)| Instance {
            name,
            address,
            disable_file,
            out: Some((Instant::now(), Cause::Misfortune)),
            version: None,
        });
        let instances: Vec<_> = instances.collect();
        let fewest = instances.len();
        let book = Arc::new(Mutex::new(Book { instances, least: 0, fewest, breaches: Vec::new() }));
        let task = tokio::spawn(watch(Arc::clone(&book), log.clone()));
        Self { book, task }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As many must stay from now on.
    pub(super) fn demand(&self, least: usize) {
        let mut book = self.book();
        book.least = least;
        book.fewest = book.instances.len();
    }

    /// The fewest that orders left in service since the last demand.
    pub(super) fn fewest(&self) -> usize {
        self.book().fewest
    }

    /// The instances that do not answer 200 at this version, each with what it does instead.
    pub(super) fn not_serving(&self, version: u32) -> Vec<String> {
        let book = self.book();
        let others = book.instances.iter().filter(|i| i.out.is_some() || i.version != Some(version));
        others
            .map(|i| match (i.out, i.version) {
                (Some((since, cause)), _) => {
                    format!("{} is out for {:?} ({cause:?})", i.name, since.elapsed())
                }
                (None, version) => format!("{} serves at {version:?}", i.name),
            })
            .collect()
    }

    /// What was broken.
    pub(super) fn breaches(&self) -> Vec<String> {
        self.book().breaches.clone()
    }
}

impl Drop for HealthMonitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What one look showed; none = it cannot be said, for there was no answer in time.
enum Look {
    In(Option<u32>),
    Disabled,
    Away,
}

async fn look(address: SocketAddr) -> Option<Look> {
    let asked = wire::send(address, Method::GET, "/healthcheck", wire::nothing());
    match tokio::time::timeout(ANSWER, asked).await {
        Err(_) => None,
        Ok(Ok(answer)) if answer.status == 200 => Some(Look::In(version_of(&answer))),
        Ok(Ok(_)) => Some(Look::Disabled),
        Ok(Err(NoAnswer::Connect(_) | NoAnswer::Reset(_) | NoAnswer::Body(_))) => Some(Look::Away),
    }
}

async fn watch(book: Arc<Mutex<Book>>, log: EventLog) {
    let addresses: Vec<SocketAddr> = {
        let book = book.lock().unwrap_or_else(PoisonError::into_inner);
        book.instances.iter().map(|instance| instance.address).collect()
    };
    loop {
        let looks = futures::future::join_all(addresses.iter().map(|address| look(*address))).await;
        {
            let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, look) in looks.into_iter().enumerate() {
                book.take_in(at, look, &log);
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

impl Book {
    fn take_in(&mut self, at: usize, look: Option<Look>, log: &EventLog) {
        let Some(instance) = self.instances.get_mut(at) else { return };
        let by_agent = || {
            let text = std::fs::read(&instance.disable_file).unwrap_or_default();
            text.starts_with(b"put by tidegate-agent")
        };
        let out = match look {
            Some(Look::In(version)) => {
                if instance.out.take().is_some() {
                    log.log(format!("{} answers 200 at {version:?}", instance.name));
                }
                instance.version = version;
                return;
            }
            Some(Look::Disabled) if by_agent() => Cause::Order,
            _ => Cause::Misfortune,
        };
        if instance.out.is_some() {
            return;
        }
        let name = instance.name.clone();
        instance.out = Some((Instant::now(), out));
        log.log(format!("{name} answers 200 no more: {out:?}"));
        if out == Cause::Order {
            self.taken_out(&name, log);
        }
    }

    /// As many as must stay, stay: all that orders took out, and all that were out by themselves for long enough to be
    /// known, are counted.
    fn taken_out(&mut self, name: &str, log: &EventLog) {
        let by_order = self.instances.iter().filter(|i| matches!(i.out, Some((_, Cause::Order)))).count();
        let known = |i: &&Instance| matches!(i.out, Some((at, Cause::Misfortune)) if at.elapsed() > OLD);
        let by_itself = self.instances.iter().filter(known).count();
        let left = self.instances.len() - by_order - by_itself;
        self.fewest = self.fewest.min(left);
        if left < self.least {
            let least = self.least;
            let text = format!(
                "{name} was taken out of rotation: {by_order} are out by order and {by_itself} by themselves, {left} are left of {least} that must stay"
            );
            log.log(format!("BROKEN rule 4: {text}"));
            self.breaches.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(least: usize, outs: &[Option<Cause>]) -> Book {
        let long_ago = Instant::now().checked_sub(OLD * 2).unwrap();
        let instance = |out: &Option<Cause>| Instance {
            name: "node".to_owned(),
            address: ([127, 0, 0, 1], 1).into(),
            disable_file: PathBuf::from("/nowhere"),
            out: out.map(|cause| (long_ago, cause)),
            version: Some(1),
        };
        let instances: Vec<_> = outs.iter().map(instance).collect();
        Book { fewest: instances.len(), instances, least, breaches: Vec::new() }
    }

    fn written() -> (EventLog, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        (EventLog::begin(file.path(), false).unwrap(), file)
    }

    #[test]
    fn order_that_leaves_too_few_is_a_breach() {
        let (log, _file) = written();
        let outs = [Some(Cause::Order), Some(Cause::Order), None];
        for (least, breaches) in [(1, 0), (2, 1)] {
            let mut book = book(least, &outs);
            book.taken_out("node", &log);
            assert_eq!((book.breaches.len(), book.fewest), (breaches, 1), "at least {least}");
        }
    }

    #[test]
    fn outage_counts_once_it_must_be_known() {
        let (log, _file) = written();
        let mut book = book(2, &[Some(Cause::Order), Some(Cause::Misfortune), None]);
        book.instances[1].out = Some((Instant::now(), Cause::Misfortune));
        book.taken_out("node", &log);
        assert_eq!(book.breaches.len(), 0, "no coordinator can know it yet");
        book.instances[1].out = Instant::now().checked_sub(OLD * 2).map(|at| (at, Cause::Misfortune));
        book.taken_out("node", &log);
        assert_eq!(book.breaches.len(), 1);
    }

    #[test]
    fn instance_that_ends_by_itself_is_no_breach() {
        let (log, _file) = written();
        let mut book = book(2, &[Some(Cause::Misfortune), None]);
        book.take_in(0, Some(Look::In(Some(2))), &log);
        book.take_in(1, Some(Look::Away), &log);
        assert_eq!(book.instances[0].out, None);
        assert!(matches!(book.instances[1].out, Some((_, Cause::Misfortune))));
        assert_eq!(book.breaches.len(), 0, "what ends by itself was not ordered");
    }
}
