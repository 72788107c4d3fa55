//! One upgrade of three instances under load, with kills by a plan, and what is known of it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use grenade_tests::crash::{Plan, Point, Reaper};
use grenade_tests::load::LoadReport;
use grenade_tests::trace::{Tally, Trace};
use tidegate_proto::{Key, Prefix};

use super::super::fleet::{Fleet, Ground, ID, LIMIT, Watched};
use super::super::rotation_monitor::RotationMonitor;
use super::database::{self, Done};

const SPEC: &str = "min_in_service: 2\nmax_unavailable: 1";
/// Requests a second.
const RATE: u32 = 20;
/// How long one upgrade may take with all of its kills: each costs a restart, and a leader's also its lease.
const LONGEST: Duration = Duration::from_secs(600);
/// Between two looks for processes to restart.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two words of the operator.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// How an upgrade is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Every instance at version 2.
    Completed,
    /// The second instance on version 2 never becomes healthy: every instance at version 1 again.
    RolledBack,
}

impl Ends {
    fn phase(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::RolledBack => "rolled-back",
        }
    }

    fn version(self) -> u32 {
        match self {
            Self::Completed => 2,
            Self::RolledBack => 1,
        }
    }
}

/// What is known of an upgrade that is over.
pub(super) struct Run {
    /// The points that its processes came to.
    pub found: BTreeSet<Point>,
    /// Where they were killed.
    pub hit: Vec<Point>,
    pub trace: Trace,
    tally: Tally,
    pub requests: LoadReport,
    times_out: BTreeMap<String, usize>,
    /// How often version 2 was started, by node.
    starts: BTreeMap<String, usize>,
    done: Done,
}

pub(super) async fn run(ends: Ends, ground: Ground, plan: Plan) -> Run {
    let reaper = Reaper::new(plan);
    let broken_from = if ends == Ends::RolledBack { 2 } else { u32::MAX };
    let mut fleet = Fleet::watched(ground, Watched { reaper: reaper.clone(), broken_from }).await;
    database::watch(&fleet.database).await;
    let (load, monitor) = (fleet.load(RATE), RotationMonitor::before(&fleet));
    fleet.wakes_the_reaper();
    let phase = to_its_end(&mut fleet, ends).await;
    reaper.rests();
    assert_eq!(phase, ends.phase(), "{}", fleet.logs());
    // The last that was killed is started once more.
    let end = Instant::now() + LIMIT;
    while !fleet.leads(0).await {
        assert!(Instant::now() < end, "no coordinator leads after the end\n{}", fleet.logs());
        fleet.revive();
        tokio::time::sleep(LOOK_EVERY).await;
    }
    fleet.all_serve(ends.version()).await;
    let requests = load.stop().await.unwrap();
    if requests.failed > 0 {
        println!("{}", fleet.logs());
    }
    let trace = Trace::read(&fleet.store, &Prefix::default()).await.unwrap();
    Run {
        found: reaper.found(),
        hit: reaper.hit(),
        tally: trace.tally_from(begin(&trace)),
        trace,
        requests,
        times_out: monitor.times_out(),
        starts: starts(&fleet),
        done: database::done(&fleet.database).await,
    }
}

/// Starts the upgrade, sends the operator's commands while they are needed, and restarts ended processes.
async fn to_its_end(fleet: &mut Fleet, ends: Ends) -> String {
    let spec = fleet.spec(SPEC);
    let spec = match ends {
        Ends::Completed => spec,
        Ends::RolledBack => spec
            .replace("then: pause", "then: rollback")
            .replace("healthy_deadline: 30s", "healthy_deadline: 8s"),
    };
    let path = fleet.spec_file(&spec);
    let (end, mut asked) = (Instant::now() + LONGEST, None::<Instant>);
    let mut last = None;
    loop {
        assert!(Instant::now() < end, "it is not over, last in {last:?}\n{}", fleet.logs());
        fleet.revive();
        tokio::time::sleep(LOOK_EVERY).await;
        let phase = tokio::time::timeout(ASK_EVERY, fleet.phase(0)).await.unwrap_or_default();
        if let Some(over) = phase.as_deref().filter(|p| ["completed", "rolled-back", "failed"].contains(p)) {
            return over.to_owned();
        }
        if phase.is_some() {
            last.clone_from(&phase);
        }
        if asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
            continue;
        }
        let words = match phase.as_deref() {
            None if last.is_none() => vec!["upgrade", "start", path.as_str(), "--id", ID],
            Some("remove") => vec!["upgrade", "approve", ID, "contract", "--accept", "sessions"],
            _ => continue,
        };
        // What came of it shows in the phase; a coordinator that was killed meanwhile answers nothing.
        let _ = tokio::time::timeout(LIMIT / 10, fleet.ask(&words)).await;
        asked = Some(Instant::now());
    }
}

/// The revision that began the upgrade.
fn begin(trace: &Trace) -> i64 {
    let begins = |key: &Key| matches!(key, Key::Upgrade(_));
    let first = trace.revisions.iter().find(|r| r.writes.iter().any(|w| begins(&w.key)));
    first.expect("an upgrade was started").number
}

fn starts(fleet: &Fleet) -> BTreeMap<String, usize> {
    let ledger = std::fs::read_to_string(fleet.start_ledger()).unwrap_or_default();
    let mut starts = BTreeMap::new();
    for node in ledger.lines().filter_map(|line| line.split(' ').next()) {
        *starts.entry(node.to_owned()).or_default() += 1;
    }
    starts
}

impl Run {
    /// No request failed, no rule was broken, no step was done twice, no instance left rotation needlessly.
    pub(super) fn is_as_it_should(&self, ends: Ends) {
        let hit: Vec<String> = self.hit.iter().map(Point::to_string).collect();
        assert_eq!(self.requests.failed, 0, "{:?}\n{hit:#?}", self.requests.first_failures);
        assert!(self.requests.ok > 100, "{:?}", self.requests);
        let breaches: Vec<String> = self.trace.breaches().iter().map(ToString::to_string).collect();
        assert!(breaches.is_empty(), "{breaches:#?}\n{hit:#?}");

        // Forward once; in a rollback, the first is rolled back too, the second is put back, the third stays.
        let mut outs: Vec<usize> = self.times_out.values().copied().collect();
        outs.sort_unstable();
        let starts: Vec<usize> = self.starts.values().copied().collect();
        let (outs_should, starts_should) = match ends {
            Ends::Completed => (vec![1, 1, 1], vec![1, 1, 1]),
            Ends::RolledBack => (vec![0, 1, 2], vec![1, 1]),
        };
        assert_eq!(
            outs, outs_should,
            "times out of rotation, as the balancer saw it; {hit:#?}\n{:#?}",
            self.tally
        );
        assert_eq!(starts, starts_should, "starts of version 2; {hit:#?}\n{:#?}", self.tally);
        let phases: BTreeSet<&String> = self.tally.phases.iter().collect();
        assert_eq!(
            phases.len(),
            self.tally.phases.len(),
            "twice in a phase: {:#?}\n{hit:#?}",
            self.tally.phases
        );
        if ends == Ends::Completed {
            for (node, deeds) in &self.tally.instances {
                let orders = ["serve", "drain", "replace with pantry-2.0.0", "serve"];
                assert_eq!(deeds.orders, orders, "{node}; {hit:#?}");
                assert_eq!((&deeds.admitted[..], deeds.out), (&[2][..], 1), "{node}; {hit:#?}");
            }
        }
        self.done.are_once(ends);
    }

    /// It did just the same.
    pub(super) fn is_like(&self, ideal: &Run) {
        let hit: Vec<String> = self.hit.iter().map(Point::to_string).collect();
        assert_eq!(self.tally, ideal.tally, "{hit:#?}");
        assert_eq!(self.done, ideal.done, "{hit:#?}");
    }
}
