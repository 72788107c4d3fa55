//! The faults of a run as they come and go: at most two at a time, and no two that touch the same.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::auditor::Auditor;
use super::fault::{self, Undo};
use super::fault_scope;
use super::ledger::Excuse;
use super::plan::{Fault, What};
use super::testbed::{LEADER_TTL, Testbed};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// As many at a time.
const MOST: usize = 2;
/// How long a fault counts that is over at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long a service needs after a fault to be itself again, in milliseconds: checks of the balancer, restarts.
const AFTERWARDS_MS: u64 = 10_000;
/// The same after a cut: TCP tries again after growing pauses.
const AFTER_CUT_MS: u64 = 30_000;
/// A new leader is there within a lease and so much.
const RECOVERY: Duration = Duration::from_millis(LEADER_TTL * 1000 + 1000);
/// How long etcd and coordinators must have been undisturbed where a recovery is judged.
const UNDISTURBED: Duration = Duration::from_secs(5);

/// A fault that is there.
#[derive(Debug)]
struct Active {
    what: What,
    undo: Undo,
    ends: Instant,
    touches: Vec<String>,
    excuse: Option<usize>,
}

/// What followed on a kill of the leader.
#[derive(Debug)]
struct Recovery {
    killed: Instant,
    /// Whether nothing else disturbed it.
    alone: bool,
}

/// The faults of a run.
#[derive(Debug, Default)]
pub(super) struct FaultSchedule {
    waiting: Vec<Fault>,
    active: Vec<Active>,
    /// When requests may fail.
    pub excuses: Vec<Excuse>,
    /// How often each kind came.
    pub fired: BTreeMap<String, usize>,
    /// How long it took until another coordinator led, where nothing else went wrong, in milliseconds.
    pub recoveries: Vec<u64>,
    recovering: Option<Recovery>,
    disturbed: Option<Instant>,
    last_end: Option<Instant>,
    /// What was broken.
    pub broken: Vec<String>,
}

impl FaultSchedule {
    /// These are to come in the next upgrade, beside what did not come in the one before: that comes in the roll.
    pub(super) fn expect(&mut self, faults: &[Fault]) {
        for left in &mut self.waiting {
            "roll".clone_into(&mut left.phase);
        }
        self.waiting.extend(faults.iter().cloned());
    }

    /// Whether none is there.
    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_empty()
    }

    /// Since when none is there.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        if self.is_quiet() { self.last_end } else { Some(Instant::now()) }
    }

    /// Ends what is over, and begins what is due in upgrade `id`; none begins where `id` is absent.
    ///
    /// # Errors
    /// When a fault cannot be made or ended.
    pub(super) async fn step(
        &mut self,
        testbed: &mut Testbed,
        auditor: &Auditor,
        id: Option<&str>,
    ) -> anyhow::Result<()> {
        let now = Instant::now();
        while let Some(at) = self.active.iter().position(|active| active.ends <= now) {
            let active = self.active.remove(at);
            self.end(testbed, auditor, active).await?;
        }
        let mut left = Vec::new();
        for fault in std::mem::take(&mut self.waiting) {
            let entered = id.and_then(|id| auditor.entered(id, &fault.phase));
            let due = entered.is_some_and(|at| at + Duration::from_millis(fault.after) <= now);
            if !due || !self.has_room(&fault.what) || !self.begin(testbed, auditor, &fault).await? {
                left.push(fault);
            }
        }
        self.waiting = left;
        self.recover(auditor, &testbed.log);
        Ok(())
    }

    fn has_room(&self, what: &What) -> bool {
        let touches = fault_scope::touches(what);
        self.active.len() < MOST
            && !self.active.iter().any(|active| active.touches.iter().any(|one| touches.contains(one)))
    }

    /// Kills the leader with nothing else wrong, and waits until that is over: for the figure of the recovery.
    ///
    /// # Errors
    /// As [`FaultSchedule::step`].
    pub(super) async fn kill_leader_alone(
        &mut self,
        testbed: &mut Testbed,
        auditor: &Auditor,
    ) -> anyhow::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let what = What::LeaderKilled;
        let fault = Fault { phase: String::new(), after: 0, lasts: LEADER_TTL * 2000, what };
        let mut is_begun = false;
        while !is_begun || !self.is_quiet() || self.recovering.is_some() {
            if !is_begun && self.is_undisturbed() {
                is_begun = self.begin(testbed, auditor, &fault).await?;
            }
            self.step(testbed, auditor, None).await?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.waiting = waiting;
        Ok(())
    }

    /// Whether nothing that delays a leadership is there, or was a moment ago.
    fn is_undisturbed(&self) -> bool {
        self.disturbed.is_none_or(|at| at.elapsed() > UNDISTURBED)
            && !self.active.iter().any(|active| disturbs(&active.touches))
    }

    async fn begin(
        &mut self,
        testbed: &mut Testbed,
        auditor: &Auditor,
        fault: &Fault,
    ) -> anyhow::Result<bool> {
        let (began, from) = (Instant::now(), testbed.log.now());
        let Some(undo) = fault::begin(testbed, auditor, &fault.what).await? else { return Ok(false) };
        let lasts = if undo == Undo::Nothing { AT_ONCE } else { Duration::from_millis(fault.lasts) };
        testbed.log.log(format!("fault: {:?} for {lasts:?}", fault.what));
        *self.fired.entry(fault.what.kind()).or_default() += 1;
        let excuse = fault_scope::explains_failures(&fault.what).then(|| {
            let node = fault_scope::happens_to(&fault.what);
            self.excuses.push(Excuse { what: format!("{:?}", fault.what), node, from, to: None });
            self.excuses.len() - 1
        });
        let touches = fault_scope::touches(&fault.what);
        if fault.what == What::LeaderKilled {
            self.recovering = Some(Recovery { killed: began, alone: self.is_undisturbed() });
        } else if let Some(recovering) = &mut self.recovering {
            recovering.alone &= !disturbs(&touches);
        }
        let ends = Instant::now() + lasts;
        self.active.push(Active { what: fault.what, undo, ends, touches, excuse });
        Ok(true)
    }

    async fn end(&mut self, testbed: &mut Testbed, auditor: &Auditor, active: Active) -> anyhow::Result<()> {
        if let Undo::StartAgent(n) = active.undo {
            auditor.note_restart(&testbed.nodes[n].0);
        }
        fault::end(testbed, &active.undo).await?;
        let now = testbed.log.now();
        let afterwards = if matches!(active.what, What::Cut(_)) { AFTER_CUT_MS } else { AFTERWARDS_MS };
        if let Some(excuse) = active.excuse {
            self.excuses[excuse].to = Some(now + afterwards);
        }
        if disturbs(&active.touches) {
            self.disturbed = Some(Instant::now());
        }
        self.last_end = Some(Instant::now());
        testbed.log.log(format!("over: {:?}", active.what));
        Ok(())
    }

    /// Looks whether another coordinator leads after the leader was killed.
    fn recover(&mut self, auditor: &Auditor, log: &super::event_log::EventLog) {
        let Some(Recovery { killed, alone }) = &self.recovering else { return };
        let Some(led) = auditor.led_after(*killed) else { return };
        let took = led.duration_since(*killed);
        let beside = if *alone { "" } else { " (beside other faults: not judged)" };
        log.log(format!("another coordinator leads {} ms after the kill{beside}", took.as_millis()));
        if *alone {
            self.recoveries.push(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            if took > RECOVERY {
                self.broken.push(format!("no coordinator led for {took:?} after the leader was killed; at most {RECOVERY:?} is allowed"));
            }
        }
        self.recovering = None;
    }
}

/// Whether a leadership may be delayed by what touches this.
fn disturbs(touches: &[String]) -> bool {
    let kinds = ["member", "network", "coordinators", "history"];
    touches.iter().any(|touched| kinds.iter().any(|kind| touched.starts_with(kind)))
}
