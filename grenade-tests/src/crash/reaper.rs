//! Who numbers the points and kills at those that its plan names.
//!
//! What else the process has under way is let through first, so that one kill does not swallow another point.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::crash::step;
use crate::crash::{Point, When};

/// How long a kill waits for what else the process has under way.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks at that.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// At which points it kills.
#[derive(Debug, Clone)]
pub enum Plan {
    /// At none: it looks what there is.
    Look,
    /// At the first of each kind, whichever process comes to it; before and after by turns.
    EachKind,
    /// Once at each of these points, at most so many times each process. What a kill itself makes happen again, such as
    /// an admission that the agent did not know of, is none of them: it would be killed there for ever.
    EachPoint {
        /// Found in a run without a kill.
        of: BTreeSet<Point>,
        /// Kills of one process.
        at_most: usize,
    },
}

/// Numbers and kills.
#[derive(Debug, Clone)]
pub struct Reaper(Arc<Mutex<Book>>);

#[derive(Debug)]
struct Book {
    plan: Plan,
    awake: bool,
    pids: BTreeMap<String, Pid>,
    dead: BTreeSet<String>,
    carried_out: BTreeMap<(String, String), u32>,
    under_way: Vec<(String, Instant)>,
    sides: BTreeMap<String, When>,
    found: BTreeSet<Point>,
    hit: Vec<Point>,
}

/// Something that a process has sent and that is not answered yet; it ends with this value.
#[derive(Debug)]
pub struct Act {
    reaper: Reaper,
    process: String,
    kind: String,
    began: Instant,
}

impl Reaper {
    /// With a plan.
    pub fn new(plan: Plan) -> Self {
        Self(Arc::new(Mutex::new(Book {
            plan,
            awake: false,
            pids: BTreeMap::new(),
            dead: BTreeSet::new(),
            carried_out: BTreeMap::new(),
            under_way: Vec::new(),
            sides: BTreeMap::new(),
            found: BTreeSet::new(),
            hit: Vec::new(),
        })))
    }

    /// A process of this name was started.
    pub fn lives(&self, process: &str, pid: u32) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let mut book = self.book();
        book.dead.remove(process);
        pid.and_then(|pid| book.pids.insert(process.to_owned(), pid));
    }

    /// Begins: until then nothing counts and no process is killed.
    pub fn wakes(&self) {
        self.book().awake = true;
    }

    /// Ends: nothing counts and no process is killed any more.
    pub fn rests(&self) {
        self.book().awake = false;
    }

    /// Every point that was seen.
    pub fn found(&self) -> BTreeSet<Point> {
        self.book().found.clone()
    }

    /// Every point at which a process was killed, in order.
    pub fn hit(&self) -> Vec<Point> {
        self.book().hit.clone()
    }

    /// A process is about to do something; none where it was killed instead.
    pub async fn begins(&self, process: &str, kind: &str) -> Option<Act> {
        if self.reaches(process, kind, When::Before).await {
            return None;
        }
        let began = Instant::now();
        self.book().under_way.push((process.to_owned(), began));
        Some(Act { reaper: self.clone(), process: process.to_owned(), kind: kind.to_owned(), began })
    }

    /// A process has done something that it had said it was about to; whether it was killed for that.
    pub async fn did(&self, process: &str, kind: &str) -> bool {
        let killed = self.reaches(process, kind, When::After).await;
        let mut book = self.book();
        if book.awake {
            *book.carried_out.entry((process.to_owned(), kind.to_owned())).or_default() += 1;
        }
        killed
    }

    async fn reaches(&self, process: &str, kind: &str, when: When) -> bool {
        // What a process had sent just before it was killed must not pass as an unseen step.
        if self.book().dead.contains(process) {
            return true;
        }
        let Some((point, pid)) = self.book().meets(process, kind, when) else { return false };
        let end = Instant::now() + PATIENCE;
        while self.book().is_busy(process) && Instant::now() < end {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.book().kill(point, pid)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Act {
    /// It was carried out; whether the process was killed for that.
    pub async fn done(self) -> bool {
        self.reaper.book().is_over(&self.process, self.began);
        self.reaper.did(&self.process, &self.kind).await
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        self.reaper.book().is_over(&self.process, self.began);
    }
}

impl Book {
    /// Notes the point; answers it and whom it ends where the plan says so.
    fn meets(&mut self, process: &str, kind: &str, when: When) -> Option<(Point, Pid)> {
        if !self.awake {
            return None;
        }
        let pid = *self.pids.get(process)?;
        let before = self.carried_out.get(&(process.to_owned(), kind.to_owned())).copied().unwrap_or(0);
        if before > 0 && step::follows_the_clock(kind) {
            return None;
        }
        let point = Point { process: process.to_owned(), kind: kind.to_owned(), number: before + 1, when };
        self.found.insert(point.clone());
        self.is_due(&point).then_some((point, pid))
    }

    fn is_due(&mut self, point: &Point) -> bool {
        match &self.plan {
            Plan::Look => false,
            Plan::EachKind => {
                let next = if self.sides.len().is_multiple_of(2) { When::Before } else { When::After };
                let side = *self.sides.entry(point.kind.clone()).or_insert(next);
                side == point.when && self.hit.iter().all(|hit| hit.kind != point.kind)
            }
            Plan::EachPoint { of, at_most } => {
                let killed = self.hit.iter().filter(|hit| hit.process == point.process).count();
                killed < *at_most && of.contains(point) && !self.hit.contains(point)
            }
        }
    }

    fn is_busy(&self, process: &str) -> bool {
        self.under_way.iter().any(|(busy, _)| busy == process)
    }

    fn is_over(&mut self, process: &str, began: Instant) {
        self.under_way.retain(|(busy, when)| busy != process || *when != began);
    }

    fn kill(&mut self, point: Point, pid: Pid) -> bool {
        // Two points of one process may be reached at once: it is killed at one of them.
        if self.pids.get(&point.process) != Some(&pid) {
            return true;
        }
        self.pids.remove(&point.process);
        self.dead.insert(point.process.clone());
        if let Err(error) = kill_process(pid, Signal::KILL) {
            tracing::warn!(%point, %error, "could not be killed");
            return false;
        }
        println!("killed: {point}");
        self.hit.push(point);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that does nothing until it is killed.
    fn idle() -> std::process::Child {
        std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere")
    }

    #[tokio::test]
    async fn kills_at_its_point_and_numbers_executed_steps() {
        let first = Point { process: "p".into(), kind: "k".into(), number: 1, when: When::Before };
        let other = Point { when: When::After, ..first.clone() };
        let second = Point { number: 2, ..first.clone() };
        let reaper = Reaper::new(Plan::EachPoint { of: [second.clone()].into(), at_most: 1 });
        reaper.wakes();
        let mut child = idle();
        reaper.lives("p", child.id());
        let act = reaper.begins("p", "k").await.expect("this point is none of the plan");
        assert!(!act.done().await);
        assert!(reaper.begins("p", "k").await.is_none(), "the second of its kind is");
        assert!(!child.wait().expect("it was ours").success());
        assert!(reaper.begins("p", "other").await.is_none(), "what the dead had sent does not pass");
        let mut child = idle();
        reaper.lives("p", child.id());
        assert!(reaper.begins("p", "k").await.is_some(), "its next life may act");
        child.kill().expect("it runs");
        child.wait().expect("it was ours");
        assert_eq!(reaper.hit(), std::slice::from_ref(&second));
        assert_eq!(reaper.found(), [first, other, second].into());
    }

    #[tokio::test]
    async fn failed_step_is_tried_under_the_same_number() {
        let reaper = Reaper::new(Plan::Look);
        reaper.wakes();
        let mut child = idle();
        reaper.lives("p", child.id());
        drop(reaper.begins("p", "k").await);
        drop(reaper.begins("p", "k").await);
        let numbers: Vec<u32> = reaper.found().iter().map(|point| point.number).collect();
        child.kill().expect("it runs");
        child.wait().expect("it was ours");
        assert_eq!(numbers, [1]);
    }
}
