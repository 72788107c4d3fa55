//! The monitor: from outside, it asks the balancer where it sends requests, and as a client, which server answers, and
//! writes down when. It knows nothing of store, coordinator or agents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grenade_tests::fixture::load::version_of;
use grenade_tests::load::wire::{self, Answer};
use grenade_tests::world::show_stat::ShowStat;
use http::Method;
use tokio::task::JoinHandle;

use super::fleet::Fleet;

/// Between two looks: several times as often as the balancer itself looks.
const EVERY: Duration = Duration::from_millis(40);

#[derive(Default)]
struct Book {
    /// By node: when it became what, in the balancer's words.
    statuses: BTreeMap<String, Vec<(i64, String)>>,
    /// Who answered through the balancer: when, version, node.
    answers: Vec<(i64, u32, String)>,
}

impl Book {
    fn write(&mut self, answer: Option<Answer>, stat: &ShowStat, nodes: &[String]) {
        if let Some((version, node)) =
            answer.and_then(|answer| Some((version_of(&answer)?, answer.header("x-pantry-node")?.to_owned())))
        {
            self.answers.push((now(), version, node));
        }
        for node in nodes {
            let status = stat.of(node, "status").unwrap().to_owned();
            let seen = self.statuses.entry(node.clone()).or_default();
            if seen.last().is_none_or(|(_, last)| *last != status) {
                seen.push((now(), status));
            }
        }
    }
}

pub(super) struct RotationMonitor {
    book: Arc<Mutex<Book>>,
    task: JoinHandle<()>,
}

impl RotationMonitor {
    pub(super) fn before(fleet: &Fleet) -> Self {
        let book = Arc::new(Mutex::new(Book::default()));
        let (socket, target, written) =
            (fleet.balancer.stats_socket.clone(), fleet.balancer.address, Arc::clone(&book));
        let nodes: Vec<_> = fleet.nodes.iter().map(|(node, _)| node.clone()).collect();
        let task = tokio::spawn(async move {
            loop {
                let asked = wire::send(target, Method::GET, "/version", wire::nothing());
                let answer = tokio::time::timeout(Duration::from_secs(2), asked).await;
                let stat = ShowStat::ask(&socket).await.unwrap();
                written.lock().unwrap().write(answer.ok().and_then(Result::ok), &stat, &nodes);
                tokio::time::sleep(EVERY).await;
            }
        });
        Self { book, task }
    }

    /// How often each node went out, by node.
    pub(super) fn times_out(&self) -> BTreeMap<String, usize> {
        let book = self.book.lock().unwrap();
        let outs = |seen: &[(i64, String)]| seen.iter().filter(|(_, status)| status == "DOWN").count();
        book.statuses.iter().map(|(node, seen)| (node.clone(), outs(seen))).collect()
    }

    /// Whether the node was in rotation at any instant after this one.
    pub(super) fn was_up_after(&self, node: &str, at: i64) -> bool {
        let book = self.book.lock().unwrap();
        let seen = &book.statuses[node];
        let then = seen.iter().rev().find(|(when, _)| *when <= at);
        let later = seen.iter().filter(|(when, _)| *when > at);
        then.into_iter().chain(later).any(|(_, status)| status.starts_with("UP"))
    }

    /// Who answered after this instant: how many at each version.
    pub(super) fn answers_after(&self, at: i64) -> BTreeMap<u32, usize> {
        let book = self.book.lock().unwrap();
        let mut counts = BTreeMap::new();
        for (_, version, _) in book.answers.iter().filter(|(when, ..)| *when > at) {
            *counts.entry(*version).or_default() += 1;
        }
        counts
    }
}

impl Drop for RotationMonitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The wall clock of this machine, which the history of its coordinators has too.
pub(super) fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}
