//! What the agent says of its services: learned by probes, put together, written when it has changed.

pub mod compose;
pub mod debounce;
mod linger;
pub mod observe;
pub mod probe;
pub mod publish;
pub mod readiness;
