//! The judge: what a client, a database administrator and an auditor see, and whether it may be so. Nothing of the planner
//! is asked.

mod below;
mod copied;
mod drains;
mod known;
mod late;
mod newcomer;
mod put_back;
mod returns;
mod service;
mod shown;
mod uncovered;
mod untraced;
mod verified;

pub(super) use drains::COUNTED;
pub(super) use service::{Limits, ServiceFacts};

use self::drains::Drains;
use self::uncovered::Obeyed;
use self::verified::Verified;
use super::document::Fall;
use super::late_failures::LateFailures;
use super::moves::Moves;
use super::record_size::CommitSizes;
use super::silence::{Counted, SilentInstances};
use super::slot::{At, Cause, Slot};
use super::stream_facts::StreamFacts;
use super::write_rate::WriteRate;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::ReleaseTag;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::PhaseName;

/// How old what the coordinator sees of an instance may be, in milliseconds: the longest lease, the time until its end is
/// noticed, and a change of leaders.
pub(super) const OLD: u64 = 15_000;

/// The longest delay until a coordinator sees a change, in milliseconds: an agent rests for up to 2.5 s between two looks.
const LAG: u64 = 3_000;

/// No stop lasts longer, in milliseconds.
const STOP_LASTS: u64 = 5_000;

/// After so many milliseconds an agent has seen that an instance answers again, although its look before that hung.
const SEEN: u64 = 5_000;

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Breach {
    /// When, in milliseconds from the beginning.
    pub at: u64,
    /// Which, by its number in `docs/rules.md`; 0 = none of them: a dead end, a wait without a reason, a process that broke.
    pub rule: u8,
    /// What was seen.
    pub what: String,
}

/// What is not verified after so many milliseconds has failed, as every spec says.
const HEALTHY_DEADLINE: u64 = 30_000;

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Nodes that showed an earlier document of the metadata group than before.
    pub falls: Vec<Fall>,
    /// Services.
    pub services: Vec<ServiceFacts>,
    /// When the last directive of an instance was committed.
    pub directed: BTreeMap<At, u64>,
    /// When a directive first took an instance out, of those that its agent has not carried out.
    pub ordered_out: BTreeMap<At, u64>,
    /// Those of them that are ordered out only by the copy which the store is now, and whose agents were not seen to obey.
    pub copied: BTreeSet<At>,
    /// What the spec of each upgrade allows, by its place in the scenario.
    pub limits: Vec<Limits>,
    /// What the upgrade allowed that ordered an instance out, until that is withdrawn or carried out: its store may be lost.
    pub ordered_under: BTreeMap<At, Limits>,
    /// Instances whose last directive lets them serve.
    pub let_in: BTreeSet<At>,
    /// The release with which the last directive of an instance replaces what runs.
    pub replaced_by: BTreeMap<At, String>,
    /// When the replacement before the last directive was committed, where that presumes that the instance is out.
    pub replaced_before: BTreeMap<At, u64>,
    /// What was verified under its last directive.
    pub verified: Verified,
    /// When the agent of an instance last took it back of its own accord.
    pub taken_back: BTreeMap<At, u64>,
    /// The phase of each upgrade, and since when.
    pub phases: BTreeMap<String, (PhaseName, u64)>,
    /// What counted when an upgrade was rolled back.
    pub rolled_back: BTreeMap<String, Counted>,
    /// Upgrades that have left preflight, and not only to end: from there on the window is theirs.
    pub staged: BTreeSet<String>,
    /// Every phase that any upgrade reached.
    pub reached: BTreeSet<PhaseName>,
    /// When each upgrade last moved an instance.
    pub moves: Moves,
    /// Since when upgrades are paused.
    pub paused: BTreeMap<String, u64>,
    /// When a command of a person at a database ended last.
    pub worked_by_hand: Option<u64>,
    /// The wave of each roll, and since when.
    pub waves: BTreeMap<String, (u32, u64)>,
    /// What the store says of each instance.
    pub silent: SilentInstances,
    /// What agents report of drains.
    pub drains: Drains,
    /// Nodes whose agents lied, and until when; they still do where that is `u64::MAX`. What they reported is not judged.
    pub byzantine: BTreeMap<usize, u64>,
    /// When the agent of a node was last started without its journal; not yet where that is `u64::MAX`.
    pub journals_lost: BTreeMap<usize, u64>,
    /// Instances that a second agent of their node admitted last: when, and as which release.
    pub admitted_beside: BTreeMap<At, (u64, Option<ReleaseTag>)>,
    /// When a second agent of a node was last ended.
    pub second_ended: BTreeMap<usize, u64>,
    /// Until when the agent of a node was last stopped, and looked at nothing; it still is where that is `u64::MAX`.
    pub agents_stalled: BTreeMap<usize, u64>,
    /// Until when the agent of a node last did not run or was cut off from the store; `u64::MAX` where that goes on.
    pub agents_cut: BTreeMap<usize, u64>,
    /// Until when the agent of a node last did not run; it still does not where that is `u64::MAX`.
    pub agents_away: BTreeMap<usize, u64>,
    /// Until when the disk of a node was last full; it still is where that is `u64::MAX`.
    pub disks_full: BTreeMap<usize, u64>,
    /// What failed after it was verified.
    pub late_failures: LateFailures,
    /// Release streams.
    pub streams: StreamFacts,
    /// Instances whose agents have acknowledged a window by their last report, and have not lost their journal since.
    pub bound: BTreeSet<At>,
    /// What agents have obeyed, of whichever store.
    pub obeyed: Obeyed,
    /// Instances outside a window that was lost with its store, whose agents knew of none: until an upgrade of the service
    /// rolls, what they do with the rows is not judged.
    pub unbound: BTreeSet<At>,
    /// Instances that were admitted only after a rollback had ended, at a version that uses what it undid: until an upgrade
    /// of the service rolls, what they do with a database that lacks their form is not judged.
    pub late: BTreeSet<At>,
    /// When an operator enabled an instance again that they had disabled.
    pub shown: BTreeMap<At, u64>,
    /// When an agent last removed its disable-file from the release that its directive orders, and that ran before.
    pub shown_as_ordered: BTreeMap<At, u64>,
    /// When a person removed the disable-file of an instance, where none was put since, and no release was started there but by
    /// its supervisor.
    pub file_removed: BTreeMap<At, u64>,
    /// When what served outside the window began to fail, or ended, where no disable-file was put since, and no release was
    /// started there but by its supervisor.
    pub failed_outside: BTreeMap<At, u64>,
    /// Instances that answer 200 beside a disable-file: their health checks do not heed it.
    pub unheeded: BTreeSet<At>,
    /// Until when the leader may read the store late, in milliseconds.
    pub disturbed_until: u64,
    /// Until when a fault may still have an effect, in milliseconds: any other than a version that a person put back.
    pub struck_until: u64,
    /// How large commits were.
    pub sizes: CommitSizes,
    /// How fast they came.
    pub rate: WriteRate,
    /// What was broken.
    pub breaches: Vec<Breach>,
}

/// An undisturbed coordinator has read the store after so many milliseconds.
const KNOWN: u64 = 1_000;

impl Facts {
    /// Whether a fault disturbed coordinators at `since` or later, or ended less than `OLD` before it.
    pub(super) fn is_disturbed_since(&self, since: u64) -> bool {
        since < self.disturbed_until
    }

    /// After how long the leader has read the store, in milliseconds.
    pub(super) fn known_after(&self, now: u64) -> u64 {
        if self.is_disturbed_since(now) { OLD } else { KNOWN }
    }

    /// An upgrade enters a phase.
    pub(super) fn enters(&mut self, id: &str, phase: PhaseName, now: u64) {
        match phase {
            // Also once more, in a store that was restored to it.
            PhaseName::Preflight => {
                self.staged.remove(id);
            }
            PhaseName::RollingBack | PhaseName::RolledBack | PhaseName::Failed => {}
            _ => {
                self.staged.insert(id.to_owned());
            }
        }
        self.phases.insert(id.to_owned(), (phase, now));
        self.moves.enters(id);
        self.reached.insert(phase);
    }

    /// A directive of an instance is committed.
    pub(super) fn directs(&mut self, at: At, disposition: &Disposition, now: u64) {
        self.directed.insert(at, now);
        if matches!(disposition, Disposition::Serve { .. }) {
            self.let_in.insert(at);
            self.ordered_out.remove(&at);
        } else {
            self.let_in.remove(&at);
            self.ordered_out.entry(at).or_insert(now);
        }
        match disposition {
            Disposition::Replace { release } => drop(self.replaced_by.insert(at, release.tag.to_string())),
            _ => drop(self.replaced_by.remove(&at)),
        }
    }

    /// An upgrade, by its place in the scenario, has written this directive. A copy of the store that has it is no new order.
    pub(super) fn orders(&mut self, at: At, disposition: &Disposition, upgrade: Option<usize>) {
        self.copied.remove(&at);
        let takes_out = !matches!(disposition, Disposition::Serve { .. });
        let limits = upgrade.filter(|_| takes_out).and_then(|place| self.limits_of(at.0, place));
        match limits {
            Some(limits) => {
                self.ordered_under.insert(at, limits);
            }
            None => {
                self.ordered_under.remove(&at);
            }
        }
    }

    /// Notes what was broken.
    pub(super) fn breach(&mut self, at: u64, rule: u8, what: String) {
        // Once is enough.
        if self.breaches.len() < 100 {
            self.breaches.push(Breach { at, rule, what });
        }
    }

    /// The judge looked whether the database of a service has the form of the upgrade under way. Drains since the look
    /// before are judged by what is found now, or, where another database took its place since they were ordered, by what
    /// was found before.
    pub(super) fn looked_at_form(
        &mut self,
        service: usize,
        (has, now): (bool, u64),
        replaced_at: Option<u64>,
    ) {
        let facts = &mut self.services[service];
        facts.lacks_since = if has { None } else { facts.lacks_since.or(Some(now)) };
        for (at, what) in std::mem::take(&mut facts.drained_on_lack) {
            if !has || replaced_at.is_some_and(|replaced| at <= replaced) {
                self.breach(at, 1, what);
            }
        }
    }

    /// An agent took an instance out of rotation, or stopped it. As many as must stay, stay: all that orders took out, and
    /// all that were out by themselves when this was ordered, for long enough to be known, are counted.
    pub(super) fn taken_out(&mut self, now: u64, at: At, slots: &BTreeMap<At, Slot>, name: &str) {
        let Some(service) = self.services.get(at.0) else { return };
        let run = slots.get(&at).and_then(|slot| slot.alive(now));
        let version = run.map(|run| run.is.version);
        let is_ordered_out = self.ordered_out.contains_key(&at);
        if version.is_some_and(|version| version < service.contracted) {
            // It cannot serve any more with what is left of the schema: it is disabled at once, by its agent alone where no
            // order says so.
            if !is_ordered_out {
                self.taken_back.insert(at, now);
            }
            return;
        }
        if slots.get(&at).is_some_and(|slot| self.is_put_back_and_hidden_alone((at, slot), now)) {
            self.taken_back.insert(at, now);
            return;
        }
        let ordered_at = self.directed.get(&at).copied().unwrap_or(now);
        if self.is_ordered_unknowing((at, slots.get(&at)), ordered_at, now) {
            return;
        }
        let admits = |version: u32| service.admitted().contains(&version);
        // Its agent takes back by itself what it started and has not verified in its time. What it only lets in, it takes back
        // before that: where it was shown before its readiness could be known.
        let let_in = self.let_in.contains(&at);
        let limit = HEALTHY_DEADLINE + if let_in { 0 } else { OLD };
        // Where the ordered release runs already, nothing is started: it may come in within the millisecond of the order.
        let at_once = let_in || run.is_some_and(|run| self.replaced_by.get(&at) == Some(&run.tag));
        let is_new = |slot: &Slot| {
            let came_by_it = slot.came_at > ordered_at || at_once && slot.came_at == ordered_at;
            came_by_it && now < slot.came_at + limit && !self.is_verified(at, slot)
        };
        let is_refused = |slot: &Slot| self.is_refused_alone((at, slot), now);
        let alone = version
            .zip(slots.get(&at))
            .is_some_and(|(version, slot)| if admits(version) { is_new(slot) } else { is_refused(slot) });
        if alone {
            self.taken_back.insert(at, now);
            return;
        }
        // One that says another version than it is, is refused by that.
        let lied = |s: &Slot| s.lied_since(ordered_at.saturating_sub(OLD), now);
        if slots.get(&at).is_some_and(lied) {
            // No component could know that what reported another version served requests.
            return;
        }
        let is_of_it = |of: &At, s: &Slot| of.0 == at.0 && !self.is_unknown(*of, s);
        let of_it = || slots.iter().filter(|(of, s)| is_of_it(of, s));
        // No order took out what its agent took back: it is out by itself.
        let is_ordered = |of: &At, since: u64| self.taken_back.get(of) != Some(&since);
        let by_order = of_it().filter(|(of, s)| {
            matches!(&s.out, Some((since, Cause::Order)) if is_ordered(of, *since)) && !lied(s)
        });
        let by_order = by_order.count() as u64;
        let known = |since: u64| since + OLD < ordered_at;
        let by_itself = of_it().filter(|(of, s)| match &s.out {
            Some((since, Cause::Misfortune(_))) => known(*since),
            Some((since, Cause::Order)) => !is_ordered(of, *since) && known(*since),
            None => false,
        });
        let by_itself = by_itself.count() as u64;
        let left = service.instances.saturating_sub(by_order + by_itself);
        // What an agent carries out was allowed or not when it was ordered.
        let least = self.ordered_under.get(&at).map_or(service.min_in_service, |by| by.min_in_service);
        if left < least {
            let text = format!(
                "{name} was taken out of rotation: {by_order} are out by order and {by_itself} by themselves, {left} are left of {least} that must stay"
            );
            self.breach(now, 4, text);
        }
    }

    /// An instance answers 200 again: its version is one that was admitted lately, or it is taken for one that was.
    pub(super) fn came_in(&mut self, now: u64, at: At, (version, taken_for): (u32, Option<u32>), name: &str) {
        let Some(service) = self.services.get(at.0) else { return };
        let undone = service.undone.as_ref();
        if undone.is_some_and(|(needs, then)| version >= *needs && self.silent.came_after(at, then)) {
            self.late.insert(at);
        }
        let mut allowed = service.windows.iter().rev();
        let (mut outside, mut is_taken_inside) = (None, false);
        for (since, floor, ceiling) in allowed.by_ref() {
            let admitted = *floor..=*ceiling;
            if admitted.contains(&version) {
                return;
            }
            is_taken_inside |= taken_for.is_some_and(|says| admitted.contains(&says));
            outside.get_or_insert((*floor, *ceiling));
            if since + OLD < now {
                break;
            }
        }
        let Some((floor, ceiling)) = outside else { return };
        if self.knows_no_window(at) {
            self.unbound.insert(at);
            return;
        }
        let is_not_refused = self.obeys_former(at, version, now) || self.is_out_of_reach(at, now);
        let is_change_unseen = self.is_change_unseen(at, now);
        // No agent refuses what runs while something lies in its place, nor before the next one can see it.
        let is_unseen = self.byzantine.get(&at.1).is_some_and(|until| now < until.saturating_add(SEEN));
        if !(is_not_refused || is_change_unseen || is_unseen || is_taken_inside) {
            let what = format!(
                "{name} came into rotation at version {version}, outside the window {floor} to {ceiling}"
            );
            self.breach(now, 2, what);
        }
    }

    /// The stop of an instance ends: what an order takes out next is drained for its own time.
    pub(super) fn stopped(&mut self, at: At) {
        self.ordered_out.remove(&at);
        self.ordered_under.remove(&at);
    }

    /// Since when an instance was drained: with its agent's disable-file, or, where a person keeps it out, with any of them
    /// and under the order that takes it out.
    pub(super) fn drained_since(&self, at: At, slot: &Slot) -> Option<u64> {
        let ordered_at = self.ordered_out.get(&at);
        slot.hidden_at.or_else(|| Some(slot.file_at?.max(*ordered_at?)))
    }

    /// An agent stopped a service that still worked on something, or that the balancer still sent requests to.
    pub(super) fn stopped_at_work(
        &mut self,
        now: u64,
        at: At,
        drained_since: Option<u64>,
        exposed: bool,
        name: &str,
    ) {
        let of_service = self.services.get(at.0).map_or(0, |service| service.drain_deadline);
        let deadline = self.ordered_under.get(&at).map_or(of_service, |by| by.drain_deadline);
        let late = drained_since.is_some_and(|since| now >= since.saturating_add(deadline));
        // A stop that had begun is not taken back where the instance is enabled again without its agent.
        let shown = self.shown.get(&at).is_some_and(|since| now < since + STOP_LASTS);
        if (exposed || !late) && !shown {
            let how = if exposed { "it was in rotation" } else { "requests were in flight" };
            self.breach(now, 6, format!("{name} was stopped while {how}, drained since {drained_since:?}"));
        }
    }
}

#[cfg(test)]
mod tests;
