//! Guards that a test may switch off. `make rules` builds with the feature `mutants`, switches one guard off after
//! the other, and shows that a test notices. Without the feature there is no switch and nothing to pay for.

/// Whether this run is without the guard of this name. Asked at the guard itself.
#[cfg(feature = "mutants")]
pub fn is(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("TIDEGATE_MUTANT").ok()).as_deref() == Some(name)
}

/// Whether this run is without the guard of this name: never.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is(_: &str) -> bool {
    false
}
