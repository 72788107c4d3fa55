//! IDs of upgrades: the place in the scenario, the number of the order where a plan has one, and the attempt.

/// The ID of an attempt at an upgrade, counted from 0.
pub(super) fn id(place: usize, order: Option<u32>, attempt: u32) -> String {
    let order = order.map(|order| format!("-{order}")).unwrap_or_default();
    match attempt {
        0 => format!("u{place}{order}"),
        1 => format!("u{place}{order}-again"),
        more => format!("u{place}{order}-again{more}"),
    }
}

pub(super) fn is_attempt(id: &str, place: usize) -> bool {
    place_of(id) == Some(place)
}

/// The place of an upgrade in the scenario, by its id.
pub(super) fn place_of(id: &str) -> Option<usize> {
    id.strip_prefix('u')?.split('-').next()?.parse().ok()
}
