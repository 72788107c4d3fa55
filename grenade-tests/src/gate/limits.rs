//! How many instances a gate may have.

/// The fewest: one serves while the other one is upgraded.
pub const FEWEST_INSTANCES: u64 = 2;
/// The most, and also of a frozen mix.
pub const MOST_INSTANCES: u64 = 24;
