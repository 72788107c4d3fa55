//! A decommissioned instance that comes back only after a rollback had ended, at a version that this undid: the order that
//! waited for it moves it to the former release.

use super::{Facts, OLD};
use crate::simulate::slot::{At, Running};

impl Facts {
    /// Whether a decommissioned instance came back only after a rollback had ended: what runs was started since then, and may
    /// still be moved.
    pub(in crate::simulate) fn is_being_moved(&self, at: At, run: &Running, ended: u64, now: u64) -> bool {
        ended < run.since && self.silent.is_decommissioned(at) && self.may_be_moved(at, run, now)
    }

    /// Whether a decommissioned instance came back only after a rollback that undid what it uses, and may still be moved.
    pub(in crate::simulate) fn is_returning(&self, at: At, run: &Running, now: u64) -> bool {
        let undone = self.services.get(at.0).and_then(|service| service.undone.as_ref());
        let came_after = undone.is_some_and(|(needs, then)| {
            let is_back = self.silent.is_decommissioned(at) || self.silent.came_after(at, then);
            run.is.version >= *needs && is_back
        });
        came_after && self.may_be_moved(at, run, now)
    }

    /// Whether the last directive of an instance replaces what runs with another release, and that was started, or its agent
    /// was heard again, not `OLD` ago. While its agent is silent, nothing moves it.
    fn may_be_moved(&self, at: At, run: &Running, now: u64) -> bool {
        let heard_since = self.silent.heard_since(at);
        let is_new = heard_since.is_none_or(|since| now < since.max(run.since) + OLD);
        is_new && self.replaced_by.get(&at).is_some_and(|tag| *tag != run.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;
    use crate::simulate::slot::Behaviour;

    const PLACE: At = (0, 0);

    /// When what returned was started.
    const STARTED: u64 = 14_000;

    fn runs(version: u32, since: u64) -> Running {
        let is = Behaviour::good(version, 0);
        Running { tag: format!("pantry-{version}"), is, since, pid: 1, put_back: false }
    }

    /// An admitted instance that the last directive replaces with version 1, after a rollback that undid version 2.
    fn facts() -> Facts {
        let mut judged = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
        judged.silent.admitted(PLACE, 0);
        judged.services[0].undone = Some((2, judged.silent.counted()));
        judged.replaced_by.insert(PLACE, "pantry-1".to_owned());
        judged
    }

    fn is_returning(judged: &Facts, version: u32, now: u64) -> bool {
        judged.is_returning(PLACE, &runs(version, STARTED), now)
    }

    #[test]
    fn returned_instance_is_not_judged_before_it_is_moved() {
        let ended = 10_000;
        let mut judged = facts();
        let is_moved =
            |judged: &Facts, since: u64, now: u64| judged.is_being_moved(PLACE, &runs(2, since), ended, now);
        assert!(!is_moved(&judged, STARTED, STARTED), "it counts");
        judged.silent.decommissioned(PLACE);
        assert!(is_moved(&judged, STARTED, STARTED + OLD - 1));
        assert!(!is_moved(&judged, STARTED, STARTED + OLD), "its agent has had time to move it");
        assert!(!is_moved(&judged, ended, STARTED), "it ran when the rollback ended");
        judged.replaced_by.insert(PLACE, "pantry-2".to_owned());
        assert!(!is_moved(&judged, STARTED, STARTED), "its order is to run the new release");
        judged.replaced_by.remove(&PLACE);
        assert!(!is_moved(&judged, STARTED, STARTED), "no order moves it");
    }

    #[test]
    fn returned_instance_may_use_what_is_undone_until_it_is_moved() {
        let mut judged = facts();
        assert!(!is_returning(&judged, 2, STARTED), "it counts: the rollback had to move it");
        judged.silent.decommissioned(PLACE);
        for is_admitted in [false, true] {
            assert!(is_returning(&judged, 2, STARTED + OLD - 1), "{is_admitted}");
            assert!(!is_returning(&judged, 2, STARTED + OLD), "{is_admitted}: there was time to move it");
            assert!(!is_returning(&judged, 1, STARTED), "{is_admitted}: it uses nothing of it");
            judged.silent.admitted(PLACE, 0);
        }
        judged.replaced_by.remove(&PLACE);
        assert!(!is_returning(&judged, 2, STARTED), "no order moves it");
    }

    #[test]
    fn returned_instance_is_not_moved_while_its_agent_is_silent() {
        let mut judged = facts();
        judged.silent.lost(PLACE, 5_000, false);
        assert!(!is_returning(&judged, 2, STARTED), "it counts: the rollback had to move it");
        judged.silent.decommissioned(PLACE);
        let is_moved = |judged: &Facts, at: u64| judged.is_being_moved(PLACE, &runs(2, STARTED), 10_000, at);
        assert!(is_returning(&judged, 2, STARTED + 2 * OLD), "no order reaches it");
        assert!(is_moved(&judged, STARTED + 2 * OLD), "nothing moves it");
        let heard = STARTED + 3 * OLD;
        judged.silent.reported(PLACE, heard);
        judged.silent.reported(PLACE, heard + 1_000);
        assert!(is_returning(&judged, 2, heard + OLD - 1), "its agent moves it");
        assert!(!is_returning(&judged, 2, heard + OLD), "its agent has had time to move it");
        assert!(is_moved(&judged, heard + OLD - 1) && !is_moved(&judged, heard + OLD));
        judged.silent.lost((0, 1), heard, false);
        assert!(!is_returning(&judged, 2, heard + OLD), "the agent of another one is silent");
    }
}
