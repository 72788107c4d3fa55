//! What a spectator sees at one instant: facts only, gathered from the coordinator, the balancer and the load.

use tidegate_proto::wire::v1;

use crate::load::LoadProgress;
use crate::world::show_stat::ShowStat;

/// The phases of an upgrade that goes forward, in order.
pub const FORWARD: [&str; 8] =
    ["preflight", "stage", "expand", "migrate", "roll", "remove", "contract", "completed"];

/// One instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// The upgrade, once it was started.
    pub upgrade: Option<UpgradeSeen>,
    /// Every instance, by node.
    pub instances: Vec<InstanceSeen>,
    /// What the load counts.
    pub requests: LoadProgress,
    /// What is waited for, and who or what ends it.
    pub waits: Vec<Wait>,
    /// What is done meanwhile.
    pub doing: String,
}

/// The upgrade's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpgradeSeen {
    /// The phase.
    pub phase: String,
    /// Seconds spent in it.
    pub seconds: f64,
    /// Phases that were left, with seconds.
    pub left: Vec<(String, f64)>,
    /// The wave under way, from 1.
    pub wave: Option<u32>,
    /// The size of each wave.
    pub waves: Vec<u32>,
    /// Why it turned or failed.
    pub because: Option<String>,
    /// Whether it is over.
    pub over: bool,
}

/// One instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceSeen {
    /// Its node.
    pub node: String,
    /// Its version, where it is known.
    pub version: Option<u32>,
    /// in, leaving, out, returning …: the agent's word.
    pub rotation: String,
    /// Its step, with why where it failed.
    pub step: String,
    /// Its health.
    pub health: String,
    /// The balancer's own word.
    pub balancer: String,
    /// Requests that the balancer has there.
    pub sessions: String,
    /// Its wave, from 1.
    pub wave: Option<u32>,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Its kind.
    pub kind: String,
    /// What is waited for.
    pub what: String,
    /// Who or what ends it.
    pub who: String,
}

impl Wait {
    /// In one line.
    pub fn line(&self) -> String {
        format!("{} [{}]", self.what, self.who)
    }
}

impl Picture {
    /// From the coordinator's answer, that of the balancer, and the load's counts.
    pub fn of(
        doing: &str,
        status: Option<&v1::UpgradeStatusReply>,
        instances: &[v1::Instance],
        balancer: Option<&ShowStat>,
        requests: LoadProgress,
    ) -> Self {
        Self {
            upgrade: status.map(UpgradeSeen::of),
            instances: instances.iter().map(|seen| InstanceSeen::of(seen, balancer)).collect(),
            requests,
            waits: status.map(waits).unwrap_or_default(),
            doing: doing.to_owned(),
        }
    }
}

impl UpgradeSeen {
    /// From the coordinator's answer.
    pub fn of(status: &v1::UpgradeStatusReply) -> Self {
        let summary = status.upgrade.clone().unwrap_or_default();
        let seconds = |ms: u64| ms as f64 / 1e3;
        let mut waves = vec![0; summary.waves as usize];
        for wave in status.instances.iter().filter_map(|instance| instance.wave) {
            // One that joined later belongs to the last wave, which has a number by then.
            if let Some(size) = (wave as usize).checked_sub(1).and_then(|at| waves.get_mut(at)) {
                *size += 1;
            }
        }
        Self {
            phase: summary.phase,
            seconds: seconds(status.phase_ms),
            left: status.timetable.iter().map(|time| (time.phase.clone(), seconds(time.ms))).collect(),
            wave: summary.wave,
            waves,
            because: status.because.clone(),
            over: summary.over,
        }
    }
}

impl InstanceSeen {
    /// From the coordinator's answer and the balancer's.
    pub fn of(instance: &v1::Instance, balancer: Option<&ShowStat>) -> Self {
        let field = |column| {
            let said = balancer.and_then(|stat| stat.of(&instance.node, column));
            said.unwrap_or("?").to_owned()
        };
        let step = match (&instance.because, instance.silent) {
            (_, true) => "silent".to_owned(),
            (Some(because), _) => format!("{}: {because}", instance.step),
            (None, _) => instance.step.clone(),
        };
        Self {
            node: instance.node.clone(),
            version: instance.version,
            rotation: instance.rotation.clone(),
            step,
            health: instance.health.clone(),
            balancer: field("status"),
            sessions: field("scur"),
            wave: instance.wave,
        }
    }
}

/// The reasons of a status.
pub fn waits(status: &v1::UpgradeStatusReply) -> Vec<Wait> {
    let one = |reason: &v1::Reason| Wait {
        kind: reason.kind.clone(),
        what: reason.blocked_on.clone(),
        who: reason.owner.clone(),
    };
    status.waiting.iter().map(one).collect()
}
