//! Reports on services: observed by probes, composed, written when they have changed.

pub(crate) mod compose;
pub(crate) mod debounce;
mod delayed;
pub(crate) mod observe;
pub(crate) mod probe;
pub(crate) mod publish;
pub(crate) mod readiness;
