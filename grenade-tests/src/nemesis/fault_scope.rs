//! The scope of a fault: what it touches, and which requests it may fail.

use super::plan::{Cut, What};
use super::testbed::node;

/// What a fault touches; two faults that touch the same are never active together.
pub(super) fn touches(what: &What) -> Vec<String> {
    let of = |kind: &str, n: &usize| vec![format!("{kind} {n}")];
    let one = |kind: &str| vec![kind.to_owned()];
    match what {
        What::MemberKilled(n) | What::MemberStalled(n) | What::MemberDiskSlow(n) => of("member", n),
        What::Compaction => one("history"),
        What::LeaderKilled | What::LeaderStalled | What::FollowerKilled | What::FollowerStalled => {
            one("coordinators")
        }
        What::AgentKilled(n) | What::AgentStalled(n) | What::DiskSlow(n) => of("agent", n),
        What::ServiceKilled(n) | What::ServiceStalled(n) => of("service", n),
        What::BalancerKilled | What::BalancerStalled => one("balancer"),
        What::BackendKilled(_)
        | What::DatabaseKilled
        | What::DatabaseStalled
        | What::ReplicaPromoted
        | What::Cut(Cut::Replication | Cut::CoordinatorDatabase(_) | Cut::NodeDatabase(_)) => one("database"),
        What::Cut(_) => one("network"),
        What::DiskFull(n) => of("disk", n),
        What::CoordinatorClock(n, _) => of("coordinator's clock", n),
        What::NodeClock(n, _) => of("node's clock", n),
        What::DatabaseClock(_) => one("database's clock"),
    }
}

/// Whether requests may fail because of it: those that are in flight where something is killed or cut off. Nothing that
/// happens to etcd, coordinators, agents, disks or clocks explains a failed request.
pub(super) fn explains_failures(what: &What) -> bool {
    match what {
        What::ServiceKilled(_)
        | What::ServiceStalled(_)
        | What::BalancerKilled
        | What::BalancerStalled
        | What::BackendKilled(_)
        | What::DatabaseKilled
        | What::DatabaseStalled
        | What::ReplicaPromoted => true,
        What::Cut(cut) => matches!(cut, Cut::NodeDatabase(_) | Cut::NodeBalancer(_) | Cut::Replication),
        _ => false,
    }
}

/// The one node whose requests it disturbs; none = those of all.
pub(super) fn happens_to(what: &What) -> Option<String> {
    match what {
        What::ServiceKilled(n)
        | What::ServiceStalled(n)
        | What::Cut(Cut::NodeDatabase(n) | Cut::NodeBalancer(n)) => Some(node(*n)),
        _ => None,
    }
}
