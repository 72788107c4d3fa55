//! Health that changes only after several equal answers, so that one lost packet writes no key.

use tidegate_proto::record::report::Health;

/// The health as it is reported.
#[derive(Debug, Clone)]
pub(crate) struct Debounce {
    needed: u32,
    health: Health,
    against: u32,
}

impl Debounce {
    /// Not yet probed; `needed` equal answers change what was known before.
    pub(crate) fn new(needed: u32) -> Self {
        Self { needed, health: Health::Unknown, against: 0 }
    }

    /// What is known so far: an answer that says nothing changes nothing.
    pub(crate) fn known(&self) -> Health {
        self.health
    }

    /// Takes an answer in. The first one counts at once, unless it is bad and the instance was verified before (`serves`):
    /// its agent was started again, and does not know the good answers before it.
    pub(crate) fn take_in(&mut self, ready: bool, serves: bool) -> Health {
        let answer = if ready { Health::Healthy } else { Health::Unhealthy };
        self.against = if answer == self.health { 0 } else { self.against + 1 };
        let counts_at_once = self.health == Health::Unknown && (ready || !serves);
        if counts_at_once || self.against >= self.needed {
            self.health = answer;
            self.against = 0;
        }
        self.health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_answer_changes_nothing() {
        let mut health = Debounce::new(2);
        let seen: Vec<_> =
            [true, false, true, false, false, true, true].map(|ready| health.take_in(ready, true)).into();
        use Health::{Healthy as H, Unhealthy as U};
        assert_eq!(seen, [H, H, H, H, U, U, H]);
    }

    #[test]
    fn first_bad_answer_of_what_serves_is_no_judgement() {
        let first_two = |answers: [bool; 2], serves: bool| {
            let mut health = Debounce::new(2);
            answers.map(|ready| health.take_in(ready, serves))
        };
        use Health::{Healthy, Unhealthy, Unknown};
        assert_eq!(first_two([false, true], true), [Unknown, Healthy]);
        assert_eq!(first_two([false, false], true), [Unknown, Unhealthy]);
        assert_eq!(first_two([false, false], false), [Unhealthy, Unhealthy], "it was not verified before");
    }
}
