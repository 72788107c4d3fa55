//! Guards that a test may switch off (`make rules`).

#[cfg(feature = "mutants")]
pub(crate) use tidegate_proto::mutant::is;

/// Whether this run is without the guard of this name: never.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn is(_: &str) -> bool {
    false
}
