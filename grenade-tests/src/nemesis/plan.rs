//! What will happen in a run: the upgrades and the faults. A pure function of seed, length and number of nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Members of etcd.
pub(super) const MEMBERS: u32 = 3;
/// The first fault comes so long after the first upgrade was started.
const FIRST: u64 = 1_000;
/// Between two faults, in milliseconds.
const GAP: std::ops::Range<u64> = 800..6_000;
/// After its end a fault counts as under way for so long: its subject comes back to itself.
const AFTERMATH: Duration = Duration::from_secs(3);
/// A promotion is followed by no other one for so long: the next replica is copied meanwhile.
const NEXT_REPLICA: Duration = Duration::from_secs(30);
/// How long a majority of etcd may stand still.
const MAJORITY: std::ops::Range<u64> = 1_000..5_000;
/// How often another fault is drawn where one would overlap what it must not.
const REDRAWS: u32 = 40;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it was drawn from.
    pub seed: u64,
    /// How long faults go on. The clock stands while a fleet is brought up or judged.
    pub length: Duration,
    /// How many nodes.
    pub nodes: u32,
    /// In order of their beginning.
    pub faults: Vec<Fault>,
    /// The upgrades, one after the other; after the last it begins again with the first.
    pub courses: Vec<Course>,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub number: usize,
    /// When, on the clock of the plan.
    pub at: Duration,
    /// How long; zero where it is over at once.
    pub lasts: Duration,
    /// What happens.
    pub what: What,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// kill -9; started again after the fault's time. A service is started again by its agent.
    Kill(Target),
    /// SIGSTOP, then SIGCONT.
    Freeze(Target),
    /// No byte passes; connections are either closed, or hang and go on afterwards.
    Cut(Between, Cut),
    /// Each piece of a stream is late by so many milliseconds.
    Delay(Between, u64),
    /// The balancer's stats socket is gone.
    StatsAway,
    /// The primary is killed, its replica promoted.
    Promote,
    /// The history of etcd is compacted.
    Compact,
    /// The wall clock of a process is off by so many seconds.
    Clock(Target, i64),
    /// No byte is left on the disk of one agent's state.
    FullDisk,
    /// Every write to that disk waits.
    SlowDisk,
    /// A person pauses the upgrade, and resumes it.
    Pause,
}

/// Whom it befalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The coordinator that leads then.
    Leader,
    /// One that does not.
    Follower,
    /// The agent of a node, from 1.
    Agent(u32),
    /// The service on a node, from 1.
    Service(u32),
    /// A member of etcd, from 0.
    Member(u32),
    /// All members but this one.
    AllMembersBut(u32),
    /// The balancer.
    Balancer,
    /// The database's primary.
    Database,
}

/// Between whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Between {
    /// An agent and all of etcd.
    AgentStore(u32),
    /// An agent and one member.
    AgentMember(u32, u32),
    /// The leader and all of etcd.
    LeaderStore,
    /// The leader and one member.
    LeaderMember(u32),
    /// The leader and the database.
    LeaderDatabase,
    /// Whoever does not lead and etcd.
    FollowerStore,
    /// The service on a node and the database.
    ServiceDatabase(u32),
    /// A member of etcd and what the others send to it.
    Peers(u32),
    /// The coordinators.
    Coordinators,
}

/// How a line is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Connections end, new ones are closed.
    Closed,
    /// Nothing passes and nobody is told.
    Silent,
}

/// One upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// Instances in one wave; none for canary waves.
    pub batch: Option<u32>,
    /// At most so many out; as many fewer than all must serve.
    pub most_out: u32,
    /// Failures that are tolerated.
    pub tolerate: u32,
    /// What follows when there are more.
    pub then: &'static str,
    /// Whether contract waits for an approval.
    pub approval: bool,
    /// Where a person turns it back, and how long after it is seen there; none: it completes if it can.
    pub turn: Option<(&'static str, Duration)>,
}

impl Plan {
    /// Draws it.
    pub fn draw(seed: u64, length: Duration, nodes: u32) -> Self {
        // Two streams, so that a longer run has the same beginning.
        let mut dice = StdRng::seed_from_u64(seed);
        let mut other = StdRng::seed_from_u64(seed ^ 0x0074_6964_6567_6174);
        let courses = (0..24).map(|_| Course::draw(&mut other, nodes)).collect();
        let (mut faults, mut busy) = (Vec::new(), BTreeMap::new());
        let mut at = Duration::from_millis(FIRST + dice.random_range(GAP));
        while at < length {
            let drawn = (0..REDRAWS).map(|_| Fault::draw(&mut dice, at, nodes)).find(|fault| {
                fault.subjects().iter().all(|subject| busy.get(subject).is_none_or(|until| *until <= at))
            });
            if let Some(mut fault) = drawn {
                for subject in fault.subjects() {
                    busy.insert(subject, fault.end() + fault.aftermath());
                }
                fault.number = faults.len() + 1;
                faults.push(fault);
            }
            at += Duration::from_millis(dice.random_range(GAP));
        }
        Self { seed, length, nodes, faults, courses }
    }
}

impl Course {
    fn draw(dice: &mut StdRng, nodes: u32) -> Self {
        let most_out = dice.random_range(1..=(nodes / 3).max(1));
        let phases = ["stage", "expand", "migrate", "roll", "roll", "remove", "remove"];
        let turns = dice.random_bool(0.5);
        let (phase, after) = (phases[dice.random_range(0..phases.len())], dice.random_range(0..12_000));
        Self {
            batch: dice.random_bool(0.6).then(|| dice.random_range(1..=3)),
            most_out,
            tolerate: dice.random_range(0..=2),
            then: if dice.random_bool(0.7) { "pause" } else { "rollback" },
            approval: dice.random_bool(0.5),
            turn: turns.then_some((phase, Duration::from_millis(after))),
        }
    }
}

impl Fault {
    fn draw(dice: &mut StdRng, at: Duration, nodes: u32) -> Self {
        let what = What::draw(dice, nodes);
        let span = match what {
            What::Kill(Target::Service(_)) | What::Promote | What::Compact => 0..1,
            What::Freeze(Target::AllMembersBut(_)) => MAJORITY,
            What::Freeze(Target::Service(_) | Target::Balancer | Target::Database) => 300..3_000,
            // The other one must lead by then.
            What::Kill(Target::Leader) => 5_000..9_000,
            What::Pause => 500..3_000,
            What::Cut(Between::ServiceDatabase(_), _) => 300..2_500,
            _ => 300..9_000,
        };
        let lasts = Duration::from_millis(dice.random_range(span));
        let lasts = if lasts.as_millis() < 300 { Duration::ZERO } else { lasts };
        Self { number: 0, at, lasts, what }
    }

    /// When it is over.
    pub fn end(&self) -> Duration {
        self.at + self.lasts
    }

    fn aftermath(&self) -> Duration {
        if self.what == What::Promote { NEXT_REPLICA } else { AFTERMATH }
    }

    /// What no two faults may meet at the same time.
    fn subjects(&self) -> Vec<&'static str> {
        use Target::{AllMembersBut, Balancer, Database, Follower, Leader, Member};
        match self.what {
            What::Kill(target) | What::Freeze(target) | What::Clock(target, _) => match target {
                Member(_) | AllMembersBut(_) => vec!["etcd"],
                Leader | Follower => vec!["coordinator"],
                Target::Agent(_) => vec!["agent"],
                Target::Service(_) => vec!["service"],
                Balancer => vec!["balancer"],
                Database => vec!["database", "service"],
            },
            What::Cut(between, _) | What::Delay(between, _) => match between {
                Between::AgentStore(_) | Between::AgentMember(..) => vec!["agent line"],
                Between::LeaderStore | Between::LeaderMember(_) | Between::FollowerStore => {
                    vec!["coordinator"]
                }
                Between::LeaderDatabase => vec!["coordinator line"],
                Between::ServiceDatabase(_) => vec!["service"],
                Between::Peers(_) => vec!["etcd"],
                Between::Coordinators => vec!["coordinators' line"],
            },
            What::StatsAway => vec!["balancer"],
            What::Promote => vec!["database", "service"],
            What::Compact => vec!["history"],
            What::FullDisk | What::SlowDisk => vec!["disk"],
            What::Pause => vec!["person"],
        }
    }
}

impl What {
    fn draw(dice: &mut StdRng, nodes: u32) -> Self {
        let member = dice.random_range(0..MEMBERS);
        let node = dice.random_range(1..=nodes);
        match dice.random_range(0..100_u32) {
            0..10 => Self::Kill(Target::Leader),
            10..13 => Self::Kill(Target::Follower),
            13..18 => Self::Freeze(Target::Leader),
            18..28 => Self::Kill(Target::Agent(node)),
            28..34 => Self::Freeze(Target::Agent(node)),
            34..39 => Self::Kill(Target::Member(member)),
            39..43 => Self::Freeze(Target::Member(member)),
            43..46 => Self::Freeze(Target::AllMembersBut(member)),
            46..53 => Self::Kill(Target::Service(node)),
            53..56 => Self::Freeze(Target::Service(node)),
            56..58 => Self::Freeze(Target::Balancer),
            58..62 => Self::StatsAway,
            62..75 => Self::Cut(Between::draw(dice, nodes), Cut::draw(dice)),
            75..81 => Self::Delay(Between::draw(dice, nodes), dice.random_range(20..400)),
            81..86 => Self::Promote,
            86..88 => Self::Freeze(Target::Database),
            88..92 => Self::Compact,
            92..95 => Self::Clock(
                if dice.random_bool(0.5) { Target::Leader } else { Target::Agent(node) },
                [-3_600, -30, 30, 3_600, 86_400][dice.random_range(0..5)],
            ),
            95..97 => Self::FullDisk,
            97..99 => Self::SlowDisk,
            _ => Self::Pause,
        }
    }
}

impl Between {
    fn draw(dice: &mut StdRng, nodes: u32) -> Self {
        let (node, member) = (dice.random_range(1..=nodes), dice.random_range(0..MEMBERS));
        match dice.random_range(0..10_u32) {
            0 | 1 => Self::AgentStore(node),
            2 => Self::AgentMember(node, member),
            3 => Self::LeaderStore,
            4 => Self::LeaderMember(member),
            5 => Self::LeaderDatabase,
            6 => Self::FollowerStore,
            7 => Self::ServiceDatabase(node),
            8 => Self::Peers(member),
            _ => Self::Coordinators,
        }
    }
}

impl Cut {
    fn draw(dice: &mut StdRng) -> Self {
        if dice.random_bool(0.5) { Self::Closed } else { Self::Silent }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, length, nodes, faults, .. } = self;
        let seconds = length.as_secs();
        writeln!(f, "plan      seed {seed}, {seconds} s of faults, {nodes} nodes, {} faults", faults.len())?;
        for (n, course) in self.courses.iter().enumerate() {
            writeln!(f, "upgrade   {:>2}: {course}", n + 1)?;
        }
        faults.iter().try_for_each(|fault| {
            writeln!(f, "fault     {:>3} at {:>6.1} s: {}", fault.number, fault.at.as_secs_f64(), fault)
        })
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batch {
            Some(batch) => write!(f, "rolling by {batch}")?,
            None => write!(f, "canary waves")?,
        }
        write!(f, ", at most {} out, {} failures tolerated, then {}", self.most_out, self.tolerate, self.then)?;
        if self.approval {
            write!(f, ", contract is approved")?;
        }
        match self.turn {
            Some((phase, after)) => {
                write!(f, "; rolled back {:.1} s after {phase} is seen", after.as_secs_f64())
            }
            None => write!(f, "; to completed"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if self.lasts.is_zero() { Ok(()) } else { write!(f, " for {:.1} s", self.lasts.as_secs_f64()) }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(target) => write!(f, "kill -9 {target}"),
            Self::Freeze(target) => write!(f, "SIGSTOP {target}"),
            Self::Cut(between, Cut::Closed) => write!(f, "cut {between}, connections closed"),
            Self::Cut(between, Cut::Silent) => write!(f, "cut {between}, silently"),
            Self::Delay(between, ms) => write!(f, "delay {between} by {ms} ms"),
            Self::StatsAway => write!(f, "remove the balancer's stats socket"),
            Self::Promote => write!(f, "kill -9 the primary and promote the replica"),
            Self::Compact => write!(f, "compact etcd"),
            Self::Clock(target, by) => write!(f, "step the wall clock of {target} by {by:+} s"),
            Self::FullDisk => write!(f, "fill the disk of node-1's agent"),
            Self::SlowDisk => write!(f, "freeze the disk of node-1's agent"),
            Self::Pause => write!(f, "pause the upgrade"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader => write!(f, "the leader"),
            Self::Follower => write!(f, "the follower"),
            Self::Agent(n) => write!(f, "the agent of node-{n}"),
            Self::Service(n) => write!(f, "the service of node-{n}"),
            Self::Member(n) => write!(f, "etcd-{n}"),
            Self::AllMembersBut(n) => write!(f, "all of etcd but etcd-{n}"),
            Self::Balancer => write!(f, "the balancer"),
            Self::Database => write!(f, "the database"),
        }
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentStore(n) => write!(f, "the agent of node-{n} from etcd"),
            Self::AgentMember(n, m) => write!(f, "the agent of node-{n} from etcd-{m}"),
            Self::LeaderStore => write!(f, "the leader from etcd"),
            Self::LeaderMember(m) => write!(f, "the leader from etcd-{m}"),
            Self::LeaderDatabase => write!(f, "the leader from the database"),
            Self::FollowerStore => write!(f, "the follower from etcd"),
            Self::ServiceDatabase(n) => write!(f, "the service of node-{n} from the database"),
            Self::Peers(m) => write!(f, "etcd-{m} from its peers (what they send to it)"),
            Self::Coordinators => write!(f, "the coordinators from each other"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn of_etcd(fault: &Fault) -> bool {
        fault.subjects().contains(&"etcd")
    }

    #[test]
    fn same_seed_draws_the_same_plan_and_a_longer_run_begins_alike() {
        let short = Plan::draw(7, HOUR / 10, 9);
        let long = Plan::draw(7, HOUR, 9);
        assert_eq!(short, Plan::draw(7, HOUR / 10, 9));
        assert_eq!(short.faults[..], long.faults[..short.faults.len()]);
        assert_eq!(short.courses, long.courses);
        assert_ne!(short.faults, Plan::draw(8, HOUR / 10, 9).faults);
        assert_eq!(long.to_string(), Plan::draw(7, HOUR, 9).to_string());
    }

    #[test]
    fn etcd_keeps_its_majority_but_for_a_bounded_time() {
        for seed in 0..50 {
            let plan = Plan::draw(seed, HOUR, 9);
            let etcd: Vec<&Fault> = plan.faults.iter().filter(|fault| of_etcd(fault)).collect();
            for pair in etcd.windows(2) {
                assert!(pair[0].end() + AFTERMATH <= pair[1].at, "seed {seed}: {} and {}", pair[0], pair[1]);
            }
            for fault in etcd {
                let majority = matches!(fault.what, What::Freeze(Target::AllMembersBut(_)));
                assert!(!majority || fault.lasts <= Duration::from_millis(MAJORITY.end), "{fault}");
            }
        }
    }

    #[test]
    fn every_kind_of_fault_is_drawn() {
        let plan = Plan::draw(1, HOUR * 4, 9);
        let kinds: std::collections::BTreeSet<String> = plan
            .faults
            .iter()
            .map(|fault| fault.what.to_string().split(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']).next().unwrap_or_default().to_owned())
            .collect();
        for kind in ["compact etcd", "pause the upgrade", "kill -9 the primary", "kill -9 the leader", "SIGSTOP all of etcd", "fill the disk", "freeze the disk", "remove the balancer's", "step the wall clock of the leader", "cut the leader from the database"] {
            assert!(kinds.iter().any(|drawn| drawn.starts_with(kind)), "{kind}: {kinds:#?}");
        }
    }
}
