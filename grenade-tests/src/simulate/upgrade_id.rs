//! IDs of upgrades: the place in the scenario, and the attempt.

/// The ID of an attempt at an upgrade, counted from 0.
pub(super) fn id(place: usize, attempt: u32) -> String {
    match attempt {
        0 => format!("u{place}"),
        1 => format!("u{place}-again"),
        more => format!("u{place}-again{more}"),
    }
}

pub(super) fn is_attempt(id: &str, place: usize) -> bool {
    let first = format!("u{place}");
    id == first || id.starts_with(&format!("{first}-again"))
}

/// The place of an upgrade in the scenario, by its id.
pub(super) fn place_of(id: &str) -> Option<usize> {
    id.strip_prefix('u')?.split('-').next()?.parse().ok()
}
