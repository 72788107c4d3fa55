//! When an upgrade last moved an instance. What moves needs no reason: stored reasons follow a move within a second, so that
//! each look of a person may fall on the moment after one.

use super::slot::At;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::directive::Disposition;

/// The moves of each upgrade in its phase.
#[derive(Debug, Default)]
pub(super) struct Moves {
    by_upgrade: BTreeMap<String, PhaseMoves>,
}

/// What instances were ordered to do in one phase, and when one of them was last ordered to do what it was not before.
#[derive(Debug, Default)]
struct PhaseMoves {
    ordered: BTreeSet<(At, &'static str)>,
    last: u64,
}

impl Moves {
    /// An upgrade enters a phase.
    pub(super) fn enters(&mut self, id: &str) {
        self.by_upgrade.remove(id);
    }

    /// A directive is committed. One that says again what the phase has ordered before is no move: what goes back and forth
    /// does not get further.
    pub(super) fn directs(&mut self, id: &str, at: At, disposition: &Disposition, now: u64) {
        let moves = self.by_upgrade.entry(id.to_owned()).or_default();
        if moves.ordered.insert((at, disposition.word())) {
            moves.last = now;
        }
    }

    /// Whether an upgrade has moved an instance later than that.
    pub(super) fn since(&self, id: &str, then: u64) -> bool {
        self.by_upgrade.get(id).is_some_and(|moves| moves.last > then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Disposition = Disposition::Drain;
    const SERVE: Disposition = Disposition::Serve { returning: false };

    #[test]
    fn first_order_of_each_kind_to_an_instance_is_a_move() {
        let mut moves = Moves::default();
        assert!(!moves.since("u0", 0));
        moves.directs("u0", (0, 0), &DRAIN, 10);
        assert!(moves.since("u0", 9) && !moves.since("u0", 10) && !moves.since("u1", 0));
        moves.directs("u0", (0, 0), &SERVE, 20);
        moves.directs("u0", (0, 1), &DRAIN, 30);
        assert!(moves.since("u0", 29));
    }

    #[test]
    fn instance_that_goes_back_and_forth_is_no_move() {
        let mut moves = Moves::default();
        for now in [10, 20, 30] {
            moves.directs("u0", (0, 0), &DRAIN, now);
            moves.directs("u0", (0, 0), &SERVE, now + 1);
        }
        assert!(moves.since("u0", 10) && !moves.since("u0", 11));
        moves.enters("u0");
        moves.directs("u0", (0, 0), &DRAIN, 40);
        assert!(moves.since("u0", 39), "it is another phase");
    }
}
