//! What no coordinator could know when it gave an order.

use super::super::slot::{At, Cause, Slot};
use super::{Facts, LAG, OLD};

impl Facts {
    /// Whether an order was given while a person kept the instance out, or before a coordinator could know that they no longer
    /// do; or just after it came in again that had been out by itself for long enough to be known.
    pub(super) fn is_ordered_unknowing(&self, of: (At, Option<&Slot>), ordered_at: u64, now: u64) -> bool {
        let (at, slot) = of;
        let is_shown = self.shown.get(&at).is_some_and(|shown| ordered_at < shown + LAG && now < shown + OLD);
        let has_recovered = slot.is_some_and(|slot| {
            let was_known = matches!(
                slot.out_before,
                Some((since, Cause::Misfortune(_))) if since + OLD < slot.came_at
            );
            let is_old = now >= slot.came_at + OLD;
            was_known && !is_old && (slot.came_at..slot.came_at + LAG).contains(&ordered_at)
        });
        is_shown || has_recovered
    }
}
