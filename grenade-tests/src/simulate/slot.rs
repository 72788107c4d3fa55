//! One service on one node, as it is in the simulated world: what runs, what its addresses answer, what the balancer
//! before it has seen, which hook is under way.

use super::scenario::ServicePlan;
use std::collections::{BTreeMap, BTreeSet};

/// Which service on which node, by their places in the scenario.
pub(super) type At = (usize, usize);

/// For how long a health URL that flaps fails in each period, in milliseconds: for less time than there is between two
/// checks of a balancer, so that a balancer never sees it fail twice in a row.
const FLAP: u64 = 900;

/// How the code of a release behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Behaviour {
    /// The version that it is.
    pub version: u32,
    /// The version that it says it is, where that is another.
    pub says: Option<u32>,
    /// From the start until it listens and is ready, in milliseconds.
    pub ready_after: u64,
    /// Whether it ever becomes ready.
    pub starts: bool,
    /// After how long it ends by itself.
    pub crashes_after: Option<u64>,
    /// Its readiness comes and goes with half this period.
    pub flaps: Option<u64>,
    /// Its health URL fails at the end of each such period.
    pub health_flaps: Option<u64>,
}

impl Behaviour {
    /// A release that works: ready so many milliseconds after its start.
    pub(super) fn good(version: u32, ready_after: u64) -> Self {
        Self {
            version,
            says: None,
            ready_after,
            starts: true,
            crashes_after: None,
            flaps: None,
            health_flaps: None,
        }
    }

    /// The same release without what is wrong with it.
    pub(super) fn corrected(&self) -> Self {
        Self {
            says: None,
            starts: true,
            crashes_after: None,
            flaps: None,
            health_flaps: None,
            ..self.clone()
        }
    }

    /// Whether its health URL never answers 200 for so many milliseconds without a break.
    pub(super) fn is_never_healthy_for(&self, ms: u64) -> bool {
        self.health_flaps.is_some_and(|period| period <= ms)
    }

    /// Whether its health URL answers 200 so many milliseconds after the start.
    fn is_healthy_after(&self, ms: u64) -> bool {
        self.health_flaps.is_none_or(|period| ms % period + FLAP < period)
    }
}

/// A process of a service.
#[derive(Debug, Clone)]
pub(super) struct Running {
    /// Its release.
    pub tag: String,
    /// How that behaves.
    pub is: Behaviour,
    /// When it was started.
    pub since: u64,
    /// Its number.
    pub pid: i32,
    /// Whether a person put it there by hand, in place of a later version: no supervisor knows of it.
    pub put_back: bool,
}

impl Running {
    /// Whether a person put it back, below this version. A rollback to the version need not move it: one from preflight moves
    /// nothing.
    pub(super) fn is_put_back_below(&self, version: u32) -> bool {
        self.put_back && self.is.version < version
    }
}

/// What goes wrong for a while without an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Hiccup {
    /// The health URL answers 503.
    Health,
    /// The readiness URL answers 503.
    Ready,
    /// Nothing answers in time.
    Hangs,
    /// It says another version.
    Lies,
    /// The health URL answers 200 although the disable-file is there.
    Heedless,
    /// It works on requests that do not end.
    Works,
}

/// A hook that runs.
#[derive(Debug, Clone)]
pub(super) struct HookRun {
    /// Its number.
    pub id: u64,
    /// Which it is.
    pub name: String,
}

/// The balancer's view of the instance.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    /// It gets requests.
    pub up: bool,
    /// How many checks in a row said otherwise.
    pub against: u32,
    /// When it went down last.
    pub down_at: u64,
}

/// Why the health URL does not answer 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// The agent put the disable-file or stopped the service.
    Order,
    /// Anything else; what.
    Misfortune(&'static str),
}

/// One service on one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    /// What runs.
    pub running: Option<Running>,
    /// The releases that are there.
    pub staged: BTreeSet<String>,
    /// The hooks that run, by their set.
    pub hooks: BTreeMap<&'static str, HookRun>,
    /// The hook that ended last, by its set.
    pub ended: BTreeMap<&'static str, String>,
    /// Sets with a hook that was begun before the node lost its power, and none since.
    pub booted: BTreeSet<&'static str>,
    /// Until when a hook that is begun hangs.
    pub hangs_until: u64,
    /// Until when a hook that is begun fails.
    pub fails_until: u64,
    /// Until when a hook that is begun says that it did what it did not.
    pub lies_until: u64,
    /// What goes wrong, each until a time.
    pub hiccups: BTreeMap<Hiccup, u64>,
    /// The balancer's view.
    pub server: Server,
    /// Whether its machine starts it at boot.
    pub starts_at_boot: bool,
    /// Whether a supervisor of its own starts it again where it ended by itself.
    pub supervised: bool,
    /// What ran last.
    pub last: Option<String>,
    /// When that was started first, since another release ran, or when it was installed again.
    pub release_since: u64,
    /// The release with which its node joined.
    pub came_with: Option<String>,
    /// The one release of its version that is left in its agent's config.
    pub named_alone: Option<String>,
    /// How long requests last after the balancer stopped sending requests.
    pub lingers: u64,
    /// Whether the health URL answered 200 when it was last looked at.
    pub serves: bool,
    /// Since when it does not, and why.
    pub out: Option<(u64, Cause)>,
    /// When the health URL began to answer 200 last.
    pub came_at: u64,
    /// Since when it had not, and why at last.
    pub out_before: Option<(u64, Cause)>,
    /// When the health URL last stopped answering 200.
    pub went_at: u64,
    /// When the agent's disable-file appeared last.
    pub hidden_at: Option<u64>,
    /// Since when a disable-file is there, the agent's or a person's.
    pub file_at: Option<u64>,
    /// How often the agent hid it while it served.
    pub drains: u32,
    /// When its stop began last, where a disable-file was there and it did not hang.
    pub stop_begun: Option<u64>,
}

impl Slot {
    /// It is an instance of this service.
    pub(super) fn is_of(&mut self, service: &ServicePlan) {
        self.lingers = service.lingers;
        self.starts_at_boot = service.hooks;
        self.supervised = service.hooks && !service.unsupervised;
    }

    /// When what was started last ends by itself, or has ended.
    pub(super) fn ends_at(&self) -> Option<u64> {
        let run = self.running.as_ref()?;
        Some(run.since + run.is.crashes_after?)
    }

    /// What runs and has not ended by itself.
    pub(super) fn alive(&self, now: u64) -> Option<&Running> {
        self.running.as_ref().filter(|_| self.ends_at().is_none_or(|end| now < end))
    }

    /// Corrects which releases its agent's config names, as an answer asks; whether that changes the config. Where it asks for
    /// exactly one of the version that runs, what runs stays alone of its version; where it misses a release, all are named.
    pub(super) fn correct_config(&mut self, answer: &str, now: u64) -> bool {
        let before = self.named_alone.clone();
        if answer.contains("the agent's config names no artifact for ") {
            self.named_alone = None;
        }
        let asked = answer.split_once("in the agent's config give exactly one ");
        if let Some((_, asked)) = asked.and_then(|(_, asked)| asked.split_once("] ")) {
            let number =
                asked.strip_prefix("version = ").and_then(|n| n.split(|c: char| !c.is_ascii_digit()).next());
            // A release that says another version than its own is none of those that the answer asks about.
            let is_asked = |run: &&Running| number.is_none_or(|number| number == run.is.version.to_string());
            if let Some(tag) = self.alive(now).filter(is_asked).map(|run| run.tag.clone()) {
                self.named_alone = Some(tag);
            }
        }
        self.named_alone != before
    }

    /// Whether a supervisor of its own starts what was started last again where it ends by itself.
    pub(super) fn is_started_again(&self) -> bool {
        self.supervised && self.running.as_ref().is_some_and(|run| !run.put_back)
    }

    /// Whether nothing runs, and nothing starts it by itself: as a person sees who looks.
    pub(super) fn stands_still(&self, now: u64) -> bool {
        self.alive(now).is_none() && self.hooks.is_empty() && !self.is_started_again()
    }

    /// Whether what runs will never answer.
    pub(super) fn never_answers(&self, now: u64) -> bool {
        self.alive(now).is_some_and(|run| !run.is.starts)
    }

    /// The version that runs.
    pub(super) fn version(&self) -> Option<u32> {
        self.running.as_ref().map(|run| run.is.version)
    }

    /// Whether an order took it out of rotation.
    pub(super) fn is_out_by_order(&self) -> bool {
        matches!(self.out, Some((_, Cause::Order)))
    }

    fn has(&self, hiccup: Hiccup, now: u64) -> bool {
        self.hiccups.get(&hiccup).is_some_and(|until| now < *until)
    }

    /// Whether it listens: a moment after it was started.
    pub(super) fn listens(&self, now: u64) -> Option<&Running> {
        self.alive(now).filter(|run| run.is.starts && now >= run.since + run.is.ready_after / 2)
    }

    /// Whether a question is left without an answer.
    pub(super) fn hangs(&self, now: u64) -> bool {
        self.has(Hiccup::Hangs, now)
    }

    /// What the readiness URL says.
    pub(super) fn is_ready(&self, now: u64) -> bool {
        let flap_is_over = |run: &Running| run.is.flaps.is_none_or(|half| (now - run.since) / half % 2 == 1);
        self.listens(now).is_some_and(|run| now >= run.since + run.is.ready_after && flap_is_over(run))
            && !self.has(Hiccup::Ready, now)
    }

    /// Whether the health URL heeds the disable-file.
    pub(super) fn heeds(&self, now: u64) -> bool {
        !self.has(Hiccup::Heedless, now)
    }

    /// What the health URL says where there is no disable-file.
    pub(super) fn is_healthy(&self, now: u64) -> bool {
        self.listens(now).is_some_and(|run| run.is.is_healthy_after(now - run.since))
            && !self.has(Hiccup::Health, now)
            && !self.hangs(now)
    }

    /// Whether it stayed in rotation although its health URL failed: the same process answers, and its balancer has not
    /// taken it out meanwhile.
    pub(super) fn stayed_in_rotation(&self) -> bool {
        let Some((failed_at, Cause::Misfortune(_))) = self.out else { return false };
        self.server.up && self.running.as_ref().is_some_and(|run| run.since < failed_at)
    }

    /// What it says of its version.
    pub(super) fn said_version(&self, now: u64) -> Option<u32> {
        let run = self.listens(now)?;
        // A version that no upgrade leads to: every component would believe one that is expected next.
        let lie = self.has(Hiccup::Lies, now).then_some(run.is.version + 5);
        Some(lie.or(run.is.says).unwrap_or(run.is.version))
    }

    /// Whether it said another version than it is at some time since then.
    pub(super) fn lied_since(&self, since: u64, now: u64) -> bool {
        self.hiccups.get(&Hiccup::Lies).is_some_and(|until| *until > since)
            || self.alive(now).is_some_and(|run| run.is.says.is_some())
    }

    /// Whether it came into rotation only after its stop had begun, beside a disable-file that was there before and still is:
    /// its health check does not heed the file, and nothing that listened had shown that.
    pub(super) fn came_in_while_stopping(&self, is_hidden: bool) -> bool {
        let since_then = |begun| self.came_at >= begun && self.hidden_at.is_none_or(|hidden| hidden <= begun);
        is_hidden && self.stop_begun.is_some_and(since_then)
    }

    /// Requests that it works on. Those that a balancer sends come and go: that there is none for a moment does not say that
    /// no more will come.
    pub(super) fn in_flight(&self, now: u64) -> u32 {
        let Some(run) = self.listens(now) else { return 0 };
        let sent = self.server.up && !(now / 400).is_multiple_of(3);
        // Requests of a former process ended with it, and one that did not listen yet was sent none.
        let was_sent = run.since + run.is.ready_after / 2 < self.server.down_at;
        let lingers = was_sent && now < self.server.down_at + self.lingers;
        let works = self.has(Hiccup::Works, now) && (self.server.up || was_sent);
        u32::from(sent || lingers || works)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_release_that_never_starts_never_answers() {
        let slot = |is: Behaviour| {
            let run = Running { tag: "pantry-2".to_owned(), is, since: 0, pid: 1, put_back: false };
            Slot { running: Some(run), ..Slot::default() }
        };
        let never_starts = || Behaviour { starts: false, ..Behaviour::good(2, 600) };
        assert!(slot(never_starts()).never_answers(9_000));
        assert!(!slot(Behaviour::good(2, 600)).never_answers(0), "it is on its way up");
        assert!(!slot(never_starts().corrected()).never_answers(9_000));
        let ended = Behaviour { crashes_after: Some(1_000), ..never_starts() };
        assert!(!slot(ended).never_answers(9_000), "nothing runs");
    }

    #[test]
    fn only_an_asked_release_is_named_alone() {
        let run = Running {
            tag: "pantry-2".to_owned(),
            is: Behaviour { says: Some(1), ..Behaviour::good(2, 600) },
            since: 0,
            pid: 1,
            put_back: false,
        };
        let mut slot = Slot { running: Some(run), ..Slot::default() };
        let one = |of: &str| {
            format!("in the agent's config give exactly one [service.pantry.artifact.\"TAG\"] {of}; more")
        };
        for other in ["version = 1", "version = 21"] {
            assert!(!slot.correct_config(&one(other), 9_000), "{other}");
        }
        for this in ["version = 2", "of the version that runs"] {
            assert!(slot.correct_config(&one(this), 9_000), "{this}");
            assert_eq!(slot.named_alone.as_deref(), Some("pantry-2"));
            assert!(!slot.correct_config(&one(this), 9_000), "it is so already");
            let missing = "the agent's config names no artifact for pantry-2-mended on n00";
            assert!(slot.correct_config(missing, 9_000));
            assert_eq!(slot.named_alone, None);
        }
    }
}
