//! Reports on services: observed by probes, composed, written when they have changed.

pub mod compose;
pub mod debounce;
mod delayed;
pub mod observe;
pub mod probe;
pub mod publish;
pub mod readiness;
